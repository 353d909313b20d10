//! A28: what waits for a person is remembered by nothing but a process: a restart loses the question, an answer is
//! taken twice, an approved call is made again, and an approval that was to expire stands for ever.

use std::time::{SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use reenact_tests::stub::{LedgerStub, ModelStub, Reply};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    ground,
    support::{Answer, POLL, Product, agent_with_model},
    world::World,
};

/// A turn that calls one tool of each kind.
const ALL: [(&str, &str, &str); 4] = [
    ("n", "note", r#"{"n":1}"#),
    ("p", "pay", r#"{"sum":1.10}"#),
    ("b", "book", r#"{"city":"Rome"}"#),
    ("s", "sign", r#"{"page":3}"#),
];

/// The agent: `note` waits for nobody, `pay` for a confirmation, `book` for what a person fills in, and `sign` is done
/// by somebody. `waits` is said of all that wait.
async fn office(waits: &str) -> World {
    let (model, ledger) = (ModelStub::start().await, LedgerStub::start().await);
    let http = |name: &str| {
        let url = ledger.url(&format!("/{name}"));
        format!("[[tools]]\ntype = \"http\"\nname = \"{name}\"\nmethod = \"POST\"\nurl = \"{url}\"\n")
    };
    let file = [
        agent_with_model(&model.base_url()),
        http("note"),
        format!("{}requires_confirmation = true\n{waits}", http("pay")),
        "parameters = { type = \"object\", properties = { sum = { type = \"number\" } } }\n".to_owned(),
        format!("{}requires_user_input = true\nuser_input_fields = [\"days\", \"why\"]\n{waits}", http("book")),
        "parameters = { type = \"object\", required = [\"city\", \"days\"], properties = { city = { type = \"string\" }, \
         days = { type = \"integer\", description = \"How many?\" }, why = { type = \"string\" } } }\n"
            .to_owned(),
        format!("[[tools]]\ntype = \"external_execution\"\nname = \"sign\"\n{waits}"),
    ];
    let product = ground::product().agent("a", &file.join("")).started().await;
    World { model, ledger, product }
}

impl World {
    /// A run of alice's whose model makes these calls, once it waits.
    async fn waiting(&self, session: &str, calls: &[(&str, &str, &str)]) -> Value {
        self.model.push(Reply::calls(calls));
        let form = [("message", "go"), ("session_id", session), ("user_id", "alice"), ("background", "true")];
        let form = [&form[..], &[("stream", "false")]].concat();
        let ticket = self.product.post("/agents/a/runs", &form).await.expect(202).json();
        let run = self.product.settled(ticket["run_id"].as_str().expect("an id")).await;
        assert_eq!(run["status"], "PAUSED", "{run:#}");
        run
    }

    async fn decide(&self, run: &Value, tools: &Value) -> Answer {
        let path = format!("/agents/a/runs/{}/continue", run["run_id"].as_str().expect("an id"));
        let tools = tools.to_string();
        self.product.post(&path, &[("tools", &tools), ("stream", "false"), ("user_id", "alice")]).await
    }

    fn calls_of(&self, tool: &str) -> Vec<String> {
        let calls = self.ledger.calls().into_iter();
        calls.filter(|call| call.path == format!("/{tool}")).map(|call| call.body).collect()
    }

    async fn approvals(&self, query: &str) -> Vec<Value> {
        let page = self.product.get(&format!("/approvals?{query}")).await.expect(200).json();
        page["data"].as_array().expect("a list").clone()
    }

    async fn resolve(&self, approval: &Value, query: &str, body: &Value) -> Answer {
        let path = format!("/approvals/{}/resolve{query}", approval["id"].as_str().expect("an id"));
        Product::ask(self.product.request(Method::POST, &path).json(body)).await
    }

    /// Who decided what stands as long as the run does.
    async fn is_not_deleted(&self, approval: &Value, why: &str) {
        let path = format!("/approvals/{}", approval["id"].as_str().expect("an id"));
        let before = (self.product.get(&path).await.expect(200).json(), self.product.events().len());
        let delete = |query: &str| Product::ask(self.product.request(Method::DELETE, &format!("{path}{query}")));
        let refused = delete("").await.expect(409).json();
        assert_eq!(refused["error_id"], why, "{refused}");
        let foreign = delete("?user_id=bob").await.expect(404).json();
        assert_eq!(foreign["error_id"], "approval_not_found");
        assert_eq!((self.product.get(&path).await.json(), self.product.events().len()), before);
    }

    /// The run's events of this type.
    fn events_of(&self, kind: &str) -> Vec<Value> {
        let mut events = self.product.events();
        events.retain(|event| event["type"] == format!("dev.reenact.run.step.{kind}.v1"));
        events
    }
}

fn requirement<'a>(run: &'a Value, call: &str) -> &'a Value {
    let all = run["requirements"].as_array().expect("it says what it waits for");
    let found = all.iter().find(|one| one["tool_execution"]["tool_call_id"] == call);
    found.unwrap_or_else(|| panic!("nothing waits with `{call}`: {run:#}"))
}

fn result_of<'a>(run: &'a Value, call: &str) -> &'a Value {
    let tools = run["tools"].as_array().expect("calls");
    &tools.iter().find(|tool| tool["tool_call_id"] == call).expect("the call")["result"]
}

#[tokio::test]
async fn a28_whatever_is_lost_meanwhile_calls_wait_for_their_answers_in_any_order_and_are_made_once() {
    let mut office = office("").await;
    let mut run = office.waiting("s", &ALL).await;
    assert_eq!(office.calls_of("note").len(), 1, "what waits for nobody is made before the pause");
    let kinds = |run: &Value| -> Vec<_> {
        run["requirements"].as_array().expect("a list").iter().map(|one| one["kind"].clone()).collect()
    };
    assert_eq!(kinds(&run), ["confirmation", "user_input", "external_execution"]);
    assert_eq!(requirement(&run, "p")["tool_execution"]["requires_confirmation"], true);
    assert_eq!(requirement(&run, "s")["tool_execution"]["external_execution_required"], true);
    let asked = requirement(&run, "b")["user_input_schema"].clone();
    let wanted = json!({"name": "days", "field_type": "int", "description": "How many?", "value": null});
    assert_eq!(asked[0], wanted);
    let parameters = office.model.requests()[0].body["tools"][2]["function"]["parameters"].clone();
    assert_eq!((&parameters["required"], &parameters["properties"]["days"]), (&json!(["city"]), &Value::Null));

    let mut filled = requirement(&run, "b")["tool_execution"].clone();
    filled["user_input_schema"][0]["value"] = json!(3);
    filled["user_input_schema"][1]["value"] = json!("rest");
    let paid = json!({"tool_call_id": "p", "confirmed": true, "tool_args": {"sum": 0.5}});
    let signed = json!({"tool_call_id": "s", "result": "signed by hand"});
    for (answer, left) in [(signed, 2), (paid, 1), (filled, 0)] {
        office.rebuild().await;
        let path = format!("/runs/{}", run["run_id"].as_str().expect("an id"));
        let after = office.product.get(&path).await.expect(200).json();
        assert_eq!((&run["requirements"], &run["tools"]), (&after["requirements"], &after["tools"]));
        run = office.decide(&run, &json!([answer])).await.expect(200).json();
        assert_eq!(run["requirements"].as_array().map_or(0, Vec::len), left, "{run:#}");
        assert_eq!(office.ledger.calls().len(), if left == 0 { 3 } else { 1 }, "nothing is made before all is said");
    }
    assert_eq!(run["status"], "COMPLETED", "{run:#}");
    assert_eq!(office.calls_of("pay"), [r#"{"sum":0.5}"#]);
    assert_eq!(office.calls_of("book"), [r#"{"city":"Rome","days":3,"why":"rest"}"#]);
    assert_eq!(result_of(&run, "s"), "signed by hand");
    let told = office.model.requests().pop().expect("a request").messages().last().cloned().expect("a message");
    assert_eq!((&told["role"], &told["content"]), (&json!("tool"), &json!("signed by hand")));
    let answered = office.events_of("answered");
    assert!(answered.len() == 3 && answered.iter().all(|event| event["data"]["by"] == "alice"), "{answered:#?}");
    office.survives_a_rebuild(&["s"]).await;
}

#[tokio::test]
async fn a28_several_are_answered_at_once_and_a_rejection_is_told_to_the_model_with_its_note() {
    let office = office("").await;
    let run = office.waiting("s", &ALL).await;
    let no = |call: &str, note: &str| json!({"tool_call_id": call, "confirmed": false, "confirmation_note": note});
    let all = json!([no("p", "too much"), no("s", "not I"), {"tool_call_id": "n", "result": "done"}]);
    let run = office.decide(&run, &all).await.expect(200).json();
    assert_eq!(run["requirements"].as_array().map(Vec::len), Some(1), "{run:#}");
    // What is left is answered as a requirement in place of a call.
    let mut left = requirement(&run, "b").clone();
    (left["confirmation"], left["confirmation_note"]) = (json!(false), json!("not Rome"));
    let left = json!([left]).to_string();
    let path = format!("/agents/a/runs/{}/continue", run["run_id"].as_str().expect("an id"));
    let form = [("requirements", left.as_str()), ("stream", "false"), ("user_id", "alice")];
    let run = office.product.post(&path, &form).await.expect(200).json();
    assert_eq!(run["status"], "COMPLETED", "{run:#}");
    assert_eq!(office.ledger.calls().len(), 1, "only what waited for nobody was called");
    let request = office.model.requests().pop().expect("a request");
    let told: Vec<_> = request.messages().iter().filter(|message| message["role"] == "tool").collect();
    for (message, note) in told[1..].iter().zip(["too much", "not Rome", "not I"]) {
        let text = message["content"].as_str().expect("a text");
        assert!(text.contains("rejected") && text.contains(note), "{text}");
    }
    let again = office.decide(&run, &all).await.expect(409);
    assert!(again.text().contains("COMPLETED"), "{}", again.text());
}

#[tokio::test]
async fn a28_an_approved_call_that_a_kill_cuts_off_is_not_made_again_until_somebody_says_so() {
    let mut office = office("").await;
    office.ledger.push(Reply::raw(200, "text/plain", "late").delay(std::time::Duration::from_secs(3600)));
    let run = office.waiting("s", &ALL[1..2]).await;
    let [approval] = &office.approvals("status=pending").await[..] else { panic!("one waits") };
    office.resolve(approval, "", &json!({"status": "approved", "resolved_by": "boss"})).await.expect(200);
    office.ledger.wait_for(1).await;
    office.product.kill_hard();
    office.product.start().await;
    let id = run["run_id"].as_str().expect("an id");
    let run = office.product.settled(id).await;
    assert_eq!((&run["status"], &requirement(&run, "p")["kind"]), (&json!("PAUSED"), &json!("in_doubt")));
    assert_eq!(office.calls_of("pay").len(), 1);
    let pending = office.approvals("status=pending").await;
    assert_eq!((pending.len(), &pending[0]["pause_type"]), (1, &json!("in_doubt")), "{pending:#?}");
    assert_ne!(pending[0]["id"], approval["id"]);
    let body = json!({"status": "approved", "resolution_data": {"result": "seen on the account"}});
    office.resolve(&pending[0], "", &body).await.expect(200);
    let run = office.product.settled(id).await;
    assert_eq!((&run["status"], result_of(&run, "p")), (&json!("COMPLETED"), &json!("seen on the account")));
    assert_eq!(office.calls_of("pay").len(), 1);
}

#[tokio::test]
async fn a28_approvals_are_a_queue_of_ones_own_and_to_resolve_one_is_to_decide() {
    let mut office = office("expires_in_s = 3600\n").await;
    let run = office.waiting("s", &ALL).await;
    assert_eq!(office.approvals("user_id=bob").await, Vec::<Value>::new());
    assert_eq!(office.product.get("/approvals/count?user_id=bob").await.expect(200).json(), json!({"count": 0}));
    let all = office.approvals("user_id=alice&status=pending").await;
    assert_eq!(office.product.get("/approvals/count?user_id=alice").await.expect(200).json(), json!({"count": 3}));
    let of = |kind: &str| all.iter().find(|one| one["pause_type"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    let pay = of("confirmation");
    assert_eq!((&pay["tool_name"], &pay["tool_args"]), (&json!("pay"), &json!({"sum": 1.10})));
    assert_eq!((&pay["run_id"], &pay["run_status"]), (&run["run_id"], &json!("PAUSED")));
    let left = pay["expires_at"].as_i64().expect("a moment") - pay["created_at"].as_i64().expect("a moment");
    assert_eq!(left, 3600);
    office.rebuild().await;
    assert_eq!(office.approvals("user_id=alice&status=pending").await, all);

    let yes = json!({"status": "approved", "resolved_by": "boss"});
    office.resolve(pay, "?user_id=bob", &yes).await.expect(404);
    for (body, field) in [
        (json!({}), "status"),
        (json!({"status": "perhaps"}), "status"),
        (json!({"status": "approved", "resolution_data": 5}), "resolution_data"),
        (json!({"status": "approved", "resolved_by": 7}), "resolved_by"),
    ] {
        let refused = office.resolve(pay, "", &body).await.expect(422);
        assert!(refused.text().contains(field), "{body}: {}", refused.text());
    }
    for kind in ["user_input", "external_execution"] {
        let refused = office.resolve(of(kind), "", &yes).await.expect(422);
        assert!(refused.text().contains("resolution_data"), "{}", refused.text());
    }
    office.is_not_deleted(pay, "approval_pending").await;
    let done = office.resolve(pay, "", &yes).await.expect(200).json();
    assert_eq!((&done["status"], &done["resolved_by"]), (&json!("approved"), &json!("boss")));
    for again in [&yes, &json!({"status": "rejected"})] {
        office.resolve(pay, "", again).await.expect(409);
    }
    let filled = json!({"status": "approved", "resolution_data": {"values": {"days": 2, "why": "rest"}}});
    office.resolve(of("user_input"), "?user_id=alice", &filled).await.expect(200);
    office.resolve(of("external_execution"), "", &json!({"status": "rejected"})).await.expect(200);
    let run = office.product.settled(run["run_id"].as_str().expect("an id")).await;
    assert_eq!(run["status"], "COMPLETED", "it goes on by itself: {run:#}");
    assert_eq!((office.calls_of("pay").len(), office.calls_of("book").len()), (1, 1));
    office.is_not_deleted(pay, "approval_kept").await;
    let status = |one: &Value| one["status"].clone();
    let ended: Vec<_> = office.approvals("user_id=alice").await.iter().map(status).collect();
    assert_eq!(ended.iter().filter(|status| **status == "approved").count(), 2, "{ended:?}");
    assert_eq!(office.approvals("status=rejected").await.len(), 1);
    office.product.get("/approvals/no-such-approval").await.expect(404);
    for bad in ["status=later", "page=0", "limit=0", "pause_type=x"] {
        office.product.get(&format!("/approvals?{bad}")).await.expect(422);
    }
}

/// Until the clock has passed a moment.
#[expect(clippy::disallowed_methods, reason = "the product goes by the wall clock")]
async fn passed(moment: &Value) {
    let at = moment.as_u64().expect("epoch seconds");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    while now() <= at {
        tokio::time::sleep(POLL).await;
    }
}

#[tokio::test]
async fn a28_a_wait_ends_in_time_also_when_the_process_was_dead_at_that_moment() {
    // Side by side, as each waits for its moment.
    let cases = [("reject", false), ("reject", true), ("cancel", false), ("cancel", true)];
    join_all(cases.map(async |(on_expiry, is_dead)| {
        let mut office = office(&format!("expires_in_s = 1\non_expiry = \"{on_expiry}\"\n")).await;
        let run = office.waiting("s", &ALL[1..2]).await;
        let expires_at = requirement(&run, "p")["expires_at"].clone();
        office.product.kill_hard();
        if is_dead {
            passed(&expires_at).await;
        }
        office.product.start().await;
        let id = run["run_id"].as_str().expect("an id");
        let ended = loop {
            let ended = office.product.settled(id).await;
            if ended["status"] != "PAUSED" {
                break ended;
            }
            tokio::time::sleep(POLL).await;
        };
        match on_expiry {
            "reject" => {
                assert_eq!(ended["status"], "COMPLETED", "{ended:#}");
                assert!(result_of(&ended, "p").as_str().expect("told").contains("in time"), "{ended:#}");
            }
            _ => {
                assert_eq!((&ended["status"], &ended["cancellation_stage"]), (&json!("CANCELLED"), &json!("PAUSED")));
                assert!(ended["cancellation_reason"].as_str().expect("why").contains("in time"), "{ended:#}");
            }
        }
        assert_eq!(office.ledger.calls().len(), 0, "nothing was made that nobody approved");
        let [approval] = &office.approvals("").await[..] else { panic!("one approval") };
        assert_eq!(approval["status"], "expired", "{approval:#}");
        let late = json!([{"tool_call_id": "p", "confirmed": true}]);
        office.decide(&ended, &late).await.expect(409);
        office.resolve(approval, "", &json!({"status": "approved"})).await.expect(409);
        assert_eq!(office.events_of("expired").len(), 1);
    }))
    .await;
}

#[tokio::test]
async fn a28_a_decision_that_cannot_be_taken_is_refused_by_name_and_changes_nothing() {
    let office = office("").await;
    let run = office.waiting("s", &ALL).await;
    let before = office.product.events().len();
    let path = format!("/agents/a/runs/{}/continue", run["run_id"].as_str().expect("an id"));
    let yes = json!([{"tool_call_id": "p", "confirmed": true}]).to_string();
    for (user, session) in [("bob", "s"), ("alice", "another")] {
        let form = [("tools", yes.as_str()), ("user_id", user), ("session_id", session)];
        office.product.post(&path, &form).await.expect(404);
    }
    office.product.post("/agents/a/runs/no-run/continue", &[("tools", &yes)]).await.expect(404);
    let twice = json!([{"tool_call_id": "p", "confirmed": true}, {"tool_call_id": "p", "confirmed": false}]);
    let field = |value: Value| json!([{"tool_call_id": "b", "user_input_schema": [{"name": "days", "value": value}]}]);
    for (status, tools, named) in [
        (422, json!({}), "tools"),
        (422, json!([]), "tools"),
        (422, json!([{"confirmed": true}]), "tools[0].tool_call_id"),
        (422, json!([{"tool_call_id": "p"}]), "tools"),
        (422, json!([{"tool_call_id": "p", "confirmed": "yes"}]), "tools[0].confirmed"),
        (422, json!([{"tool_call_id": 5, "confirmed": true}]), "tools[0].tool_call_id"),
        (422, json!([{"tool_call_id": "b", "user_input_schema": [{"value": 1}]}]), "tools[0].user_input_schema[0]"),
        (422, json!([{"tool_call_id": "p", "result": "paid"}]), "`p`"),
        (422, json!([{"tool_call_id": "p", "confirmed": true, "tool_args": {"sum": "all"}}]), "sum"),
        (422, json!([{"tool_call_id": "b", "confirmed": true}]), "`days`"),
        (422, field(json!(3)), "`why`"),
        (422, json!([{"tool_call_id": "s", "confirmed": true}]), "result"),
        (409, json!([{"tool_call_id": "none", "confirmed": true}]), "`none`"),
        (409, json!([{"tool_call_id": "n", "result": "other"}]), "`n`"),
        (409, twice, "`p`"),
    ] {
        let refused = office.decide(&run, &tools).await;
        assert_eq!(refused.status, status, "{tools}: {}", refused.text());
        assert!(refused.text().contains(named), "{tools}: {}", refused.text());
    }
    office.product.post(&path, &[]).await.expect(422);
    assert_eq!(office.product.events().len(), before, "nothing was recorded");
    assert_eq!(office.approvals("status=pending").await.len(), 3);
    assert_eq!(office.ledger.calls().len(), 1);
    // Answered once, it is not answered otherwise.
    office.decide(&run, &json!([{"tool_call_id": "p", "confirmed": true}])).await.expect(200);
    let other = office.decide(&run, &json!([{"tool_call_id": "p", "confirmed": false}])).await.expect(409);
    assert!(other.text().contains("tools[0]"), "{}", other.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a28_the_command_line_decides_through_the_same_door() {
    let office = office("").await;
    let run = office.waiting("s", &ALL).await;
    let id = run["run_id"].as_str().expect("an id");
    let listed = office.product.run(&["approvals", "list", "--status", "pending", "--run", id]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("external_execution") && listed.contains("3 of 3"), "{listed}");
    for arguments in [
        &["--call", "p", "--approve", "--arguments", r#"{"sum":2}"#][..],
        &["--call", "b", "--input", "days=4", "--input", "why=work"],
        &["--call", "s", "--reject", "--note", "no pen"],
    ] {
        let arguments = [&["runs", "continue", id][..], arguments].concat();
        let output = office.product.run(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let run = office.product.settled(id).await;
    assert_eq!(run["status"], "COMPLETED", "{run:#}");
    assert_eq!(office.calls_of("pay"), [r#"{"sum":2}"#]);
    assert!(office.calls_of("book")[0].contains(r#""days":4"#));
    let replay = office.product.run(&["replay", id]);
    assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a28_what_waits_is_decided_through_every_door_also_while_other_calls_of_its_turn_are_made() {
    let office = office("").await;
    office.ledger.rule(|call| (call.path == "/note").then(|| Reply::default().hang()));
    office.model.push(Reply::calls(&ALL));
    let id = office.product.begin("a", "s", "go").await;
    while office.approvals("status=pending").await.len() < 3 {
        tokio::time::sleep(POLL).await;
    }
    let path = format!("/runs/{id}");
    let run = office.product.get(&path).await.expect(200).json();
    assert_eq!((&run["status"], run["requirements"].as_array().map(Vec::len)), (&json!("RUNNING"), Some(3)), "{run:#}");
    let yes = json!([{"tool_call_id": "p", "confirmed": true}]).to_string();
    let form = [("tools", yes.as_str()), ("stream", "false"), ("background", "true")];
    let door = format!("/agents/a/runs/{id}/continue");
    assert_eq!(office.product.post(&door, &form).await.expect(202).json()["status"], "RUNNING");
    let otherwise = [("tools", r#"[{"tool_call_id": "p", "confirmed": false}]"#), ("stream", "false")];
    assert_eq!(office.product.post(&door, &otherwise).await.expect(409).json()["error_id"], "step_not_in_doubt");
    office.ledger.wait_for(2).await;
    assert_eq!(office.calls_of("pay"), [r#"{"sum":1.10}"#], "it does not wait for the others");
    let left = office.product.get(&path).await.json();
    assert_eq!(left["requirements"].as_array().map(Vec::len), Some(2), "{left:#}");
}
