//! Who works when not everybody can: users take turns, and who only waits keeps nobody else from working.

use std::time::Duration;

use reenact_tests::stub::{LedgerStub, ModelRequest, ModelStub, Reply};
use reqwest::Method;

use crate::support::{Product, agent_with_model};

fn message(request: &ModelRequest) -> String {
    request.messages().last().and_then(|last| last["content"].as_str()).unwrap_or_default().to_owned()
}

async fn begin_as(product: &Product, user: &str, session: &str, message: &str) -> String {
    let fields =
        [("message", message), ("session_id", session), ("user_id", user), ("background", "true"), ("stream", "false")];
    let ticket = product.post("/agents/a/runs", &fields).await.expect(202).json();
    ticket["run_id"].as_str().expect("a ticket names its run").to_owned()
}

/// A model that never answers the message `hold`.
async fn holding_model() -> ModelStub {
    let model = ModelStub::start().await;
    model.rule(|request| (message(request) == "hold").then(|| Reply::default().hang()));
    model.otherwise(Reply::text("done"));
    model
}

/// An agent with a tool that must not be called twice.
fn paying_agent(model: &ModelStub, tool: &LedgerStub) -> String {
    format!(
        "{}[[tools]]\ntype = \"http\"\nname = \"pay\"\ndescription = \"Pays.\"\nmethod = \"POST\"\nurl = \"{}\"\n\
         parameters = {{ type = \"object\" }}\n",
        agent_with_model(&model.base_url()),
        tool.url("/pay")
    )
}

#[tokio::test]
async fn one_users_many_runs_do_not_delay_anothers_one() {
    let model = holding_model().await;
    let product = Product::new().agent("a", &agent_with_model(&model.base_url()));
    let product = product.set("REENACT_MAX_CONCURRENCY", 1).started().await;
    let hold = begin_as(&product, "holder", "hold", "hold").await;
    model.wait_for(1).await;
    let mut runs = Vec::new();
    for number in 0..10 {
        runs.push(begin_as(&product, "many", &format!("many {number}"), &format!("many {number}")).await);
    }
    runs.push(begin_as(&product, "one", "one", "one").await);
    product.post(&format!("/agents/a/runs/{hold}/cancel"), &[]).await.expect(200);
    for run in &runs {
        assert_eq!(product.settled(run).await["status"], "COMPLETED");
    }
    let asked: Vec<_> = model.requests().iter().map(message).collect();
    let expected = ["hold", "many 0", "one"].into_iter().map(str::to_owned);
    let rest = (1..10).map(|number| format!("many {number}"));
    assert_eq!(asked, expected.chain(rest).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_user_has_no_more_slots_than_a_user_may_have() {
    let model = holding_model().await;
    let product = Product::new().agent("a", &agent_with_model(&model.base_url()));
    let product = product.set("REENACT_MAX_USER_CONCURRENCY", 1).started().await;
    let hold = begin_as(&product, "u", "hold", "hold").await;
    let waits = begin_as(&product, "u", "other", "waits").await;
    let another = begin_as(&product, "v", "v", "another").await;
    assert_eq!(product.settled(&another).await["status"], "COMPLETED");
    assert_eq!(product.get(&format!("/runs/{waits}")).await.json()["status"], "PENDING");
    product.post(&format!("/agents/a/runs/{hold}/cancel"), &[]).await.expect(200);
    assert_eq!(product.settled(&waits).await["status"], "COMPLETED");
}

#[tokio::test]
async fn a_run_whose_provider_asks_for_patience_has_no_slot_until_it_is_due() {
    let model = ModelStub::start().await;
    model.push(Reply::raw(429, "text/plain", "slow down").header("retry-after", "500"));
    model.otherwise(Reply::text("done"));
    let agent = agent_with_model(&model.base_url()).replace("retries = 0", "retries = 1");
    let mut product = Product::new().agent("a", &agent).set("REENACT_MAX_CONCURRENCY", 1).started().await;
    let patient = product.begin("a", "patient", "first").await;
    model.wait_for(1).await;
    assert_eq!(product.turn("a", "other", "second").await["status"], "COMPLETED");
    product.crash().await;
    assert_eq!(product.turn("a", "other", "third").await["status"], "COMPLETED");
    assert_eq!(product.get(&format!("/runs/{patient}")).await.json()["status"], "RUNNING");

    model.push(Reply::raw(429, "text/plain", "slow down").header("retry-after", "1"));
    let short = product.begin("a", "short", "fourth").await;
    assert_eq!(product.settled(&short).await["status"], "COMPLETED");
    let asked: Vec<_> = model.requests().iter().map(message).collect();
    assert_eq!(asked, ["first", "second", "third", "fourth", "fourth"]);
}

#[tokio::test]
async fn a_paused_run_lets_its_session_go_on_unless_its_agent_says_otherwise() {
    let (model, tool) = (ModelStub::start().await, LedgerStub::start().await);
    model.rule(|request| {
        let last = message(request);
        (last == "pay").then(|| Reply::calls(&[("c", "pay", "{}")]))
    });
    model.otherwise(Reply::text("done"));
    tool.otherwise(Reply::default().hang());
    let pays = paying_agent(&model, &tool);
    let holds = format!("{pays}[queue]\npaused_holds_session = true\n");
    let mut product = Product::new().agent("a", &pays).agent("holds", &holds).started().await;
    let mut paused = Vec::new();
    for agent in ["a", "holds"] {
        paused.push(product.begin(agent, agent, "pay").await);
    }
    tool.wait_for(2).await;
    product.crash().await;
    for run in &paused {
        assert_eq!(product.settled(run).await["status"], "PAUSED");
    }
    let held = product.begin("holds", "holds", "next").await;
    assert_eq!(product.turn("a", "a", "next").await["status"], "COMPLETED");
    assert_eq!(product.get(&format!("/runs/{held}")).await.json()["status"], "PENDING");
    let tools = r#"[{"tool_call_id": "c", "result": "paid"}]"#;
    let path = format!("/agents/holds/runs/{}/continue", paused[1]);
    let output = product.post(&path, &[("tools", tools), ("stream", "false")]).await.expect(200).json();
    assert_eq!(output["status"], "COMPLETED");
    assert_eq!(product.settled(&held).await["status"], "COMPLETED");
}

#[tokio::test]
async fn a_run_of_which_everything_is_decided_is_pending_until_there_is_a_slot() {
    let (model, tool) = (ModelStub::start().await, LedgerStub::start().await);
    model.rule(|request| match &*message(request) {
        "pay" => Some(Reply::calls(&[("c", "pay", "{}")])),
        "hold" => Some(Reply::default().hang()),
        _ => None,
    });
    model.otherwise(Reply::text("done"));
    tool.otherwise(Reply::default().hang());
    let product = Product::new().agent("a", &paying_agent(&model, &tool));
    let mut product = product.set("REENACT_MAX_CONCURRENCY", 1).started().await;
    let decided = product.begin("a", "decided", "pay").await;
    tool.wait_for(1).await;
    product.crash().await;
    assert_eq!(product.settled(&decided).await["status"], "PAUSED");
    let asked = model.requests().len();
    let hold = product.begin("a", "hold", "hold").await;
    model.wait_for(asked + 1).await;
    let path = format!("/agents/a/runs/{decided}/continue");
    let fields =
        [("tools", r#"[{"tool_call_id": "c", "result": "paid"}]"#), ("background", "true"), ("stream", "false")];
    assert_eq!(product.post(&path, &fields).await.expect(202).json()["status"], "PENDING");
    // What its person decided is in the log: a restart does not ask again.
    product.crash().await;
    let shown = product.get(&format!("/runs/{decided}")).await.expect(200).json();
    assert_eq!((&shown["status"], shown.get("requirements")), (&"PENDING".into(), None), "{shown:#}");
    assert_eq!(product.get(&format!("/queue/jobs/{decided}")).await.json()["status"], "queued");
    assert_eq!(product.post(&path, &fields).await.expect(409).json()["error_id"], "not_paused");
    let stream =
        product.request(Method::POST, &format!("/agents/a/runs/{decided}/resume")).send().await.expect("it is up");
    product.post(&format!("/agents/a/runs/{hold}/cancel"), &[]).await.expect(200);
    let streamed = stream.text().await.expect("it ends");
    assert!(streamed.contains("event: RunCompleted"), "{streamed}");
    assert_eq!(product.settled(&decided).await["status"], "COMPLETED");
}

#[tokio::test]
async fn the_queue_tells_what_runs_what_waits_and_what_became_of_it() {
    let model = holding_model().await;
    let product = Product::new().agent("a", &agent_with_model(&model.base_url()));
    let mut product = product.set("REENACT_MAX_CONCURRENCY", 1).started().await;
    let hold = begin_as(&product, "u", "hold", "hold").await;
    let waits = begin_as(&product, "v", "waits", "waits").await;
    model.wait_for(1).await;
    // A slot whose holder died is not counted beside the one that its run has now.
    product.crash().await;
    let stats = product.get("/queue/stats").await.expect(200).json();
    assert_eq!(stats["counts"], serde_json::json!({"queued": 1, "running": 1}));
    assert_eq!(stats["slots_taken"], 1);
    assert!(stats["oldest_queued_age_seconds"].is_u64(), "{stats}");
    let queued = product.get("/queue/jobs?status=queued").await.expect(200).json();
    assert_eq!(queued["meta"]["total_count"], 1);
    let job = &queued["data"][0];
    assert_eq!((&job["id"], &job["component_id"], &job["attempt"]), (&waits.as_str().into(), &"a".into(), &0.into()));
    assert_eq!(job["payload"]["input"], "waits");
    assert_eq!(product.get(&format!("/queue/jobs/{waits}?user_id=u")).await.status, 404);

    product.post(&format!("/agents/a/runs/{hold}/cancel"), &[]).await.expect(200);
    product.settled(&waits).await;
    let stats = product.get("/queue/stats").await.expect(200).json();
    assert_eq!(stats["counts"], serde_json::json!({"cancelled": 1, "completed": 1}));
    assert!(stats["oldest_queued_age_seconds"].is_null(), "{stats}");
    let mut pages = Vec::new();
    for order in ["asc", "desc"] {
        let path = format!("/queue/jobs?status=cancelled&status=completed&sort_order={order}");
        let jobs = product.get(&path).await.expect(200).json()["data"].take();
        let jobs = jobs.as_array().expect("a page").clone();
        assert!(jobs.iter().all(|job| job["completed_at"].is_u64()), "{jobs:#?}");
        pages.push(jobs.iter().map(|job| job["id"].clone()).collect::<Vec<_>>());
    }
    assert!(pages[0].iter().eq(pages[1].iter().rev()) && pages[0].len() == 2, "{pages:?}");
    for wrong in ["status=PENDING", "sort_by=user_id", "sort_order=up", "page=0"] {
        product.get(&format!("/queue/jobs?{wrong}")).await.expect(422);
    }
}

#[tokio::test]
async fn a_run_whose_time_is_over_when_its_node_comes_back_ends_and_asks_nothing_again() {
    let model = holding_model().await;
    let agent = agent_with_model(&model.base_url()) + "[limits]\ntimeout_s = 1\n";
    let mut product = Product::new().agent("a", &agent).started().await;
    let run = product.begin("a", "s", "hold").await;
    model.wait_for(1).await;
    product.kill_hard();
    // Its second passes while nobody is there.
    tokio::time::sleep(Duration::from_secs(1)).await;
    product.start().await;
    let output = product.settled(&run).await;
    assert_eq!((&output["status"], &output["error"]["kind"]), (&"ERROR".into(), &"timeout".into()), "{output:#}");
    assert!(output["content"].as_str().is_some_and(|text| text.contains("`limits.timeout_s` = 1 s")), "{output:#}");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn whoever_finds_the_queue_full_is_told_when_to_come_back() {
    let model = holding_model().await;
    let product = Product::new().agent("a", &agent_with_model(&model.base_url()));
    let product = product.set("REENACT_MAX_CONCURRENCY", 1).set("REENACT_MAX_QUEUE_DEPTH", 1).started().await;
    let hold = product.begin("a", "hold", "hold").await;
    let waits = product.begin("a", "waits", "waits").await;
    let refused = Product::ask(product.background("a", "late", "late")).await.expect(429);
    let seconds = refused.headers["retry-after"].to_str().expect("text").parse::<u32>().expect("seconds");
    assert!((1..=600).contains(&seconds), "{seconds}");
    assert_eq!(refused.json()["error_id"], "queue_full");
    product.post(&format!("/agents/a/runs/{hold}/cancel"), &[]).await.expect(200);
    assert_eq!(product.settled(&waits).await["status"], "COMPLETED");
    assert_eq!(product.turn("a", "late", "late").await["status"], "COMPLETED");
}

#[tokio::test]
async fn a_second_message_does_what_its_agent_says() {
    let model = holding_model().await;
    let policies = ["queue", "reject", "interrupt", "parallel"];
    let product = policies.iter().fold(Product::new(), |product, policy| {
        let queue = format!("[queue]\nwhen_busy = \"{policy}\"\n");
        product.agent(policy, &(agent_with_model(&model.base_url()) + &queue))
    });
    let product = product.started().await;
    let mut held = Vec::new();
    for policy in policies {
        held.push(product.begin(policy, policy, "hold").await);
    }
    model.wait_for(policies.len()).await;
    let second = product.begin("queue", "queue", "second").await;
    let refused = Product::ask(product.background("reject", "reject", "second")).await.expect(409).json();
    assert_eq!(refused["error_id"], "session_busy", "{refused}");
    for policy in ["interrupt", "parallel"] {
        assert_eq!(product.turn(policy, policy, "second").await["status"], "COMPLETED", "{policy}");
    }
    let expected = ["RUNNING", "RUNNING", "CANCELLED", "RUNNING", "PENDING"];
    for (run, expected) in held.iter().chain([&second]).zip(expected) {
        assert_eq!(product.get(&format!("/runs/{run}")).await.json()["status"], expected);
    }
}
