//! Whole folders of agent files, good and bad.

use std::fs;

use reenact_events::{
    agent::{Effect, Guarded, ToolKind, WhenBusy},
    hold::{HoldSpec, InputField, Needs, OnExpiry},
};
use serde_json::Value;

use super::*;

const GOOD: &str = r#"
id = "support"
name = "Support"
instructions = """Be brief."""

[model]
provider = "openai"
id = "gpt-5-mini"
base_url = "http://127.0.0.1:8811/v1"
api_key_env = "NOT_SET"
temperature = 0.7

[history]
runs = 5

[limits]
tool_calls = 7

[queue]
priority = 80
paused_holds_session = true
when_busy = "reject"

[[tools]]
type = "http"
name = "refund"
description = "Refunds an order."
method = "POST"
url = "http://127.0.0.1:9000/refunds"
requires_confirmation = false
headers = { authorization = "env:REFUND_TOKEN" }
parameters = { type = "object", properties = { order = { type = "string" } }, required = ["order"] }

[[tools]]
type = "builtin"
name = "calculator"
"#;

fn load(files: &[(&str, &str)]) -> Result<Vec<AgentSpec>, Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let prefix = format!("{}/", dir.path().display());
    load_agents_with(dir.path(), &Environment::of(&[("OPENAI_API_KEY", "sk-x")]))
        .map_err(|errors| errors.iter().map(|error| error.to_string().replace(&prefix, "")).collect())
}

fn problems(text: &str) -> Vec<String> {
    load(&[("a.toml", text)]).unwrap_err()
}

#[test]
fn a_schema_for_answers_stands_in_the_file_or_in_another() {
    let inline = format!("output_schema = {{ type = \"object\", required = [\"n\"] }}\n{DEMO}");
    let beside = format!("output_schema = \"n.json\"\n{DEMO}");
    let schema = r#"{"type":"object","required":["n"]}"#;
    let agents = load(&[("a.toml", &inline), ("b.toml", &beside), ("n.json", schema)]).unwrap();
    for agent in &agents {
        let read = agent.output_schema.as_ref().map(RawJson::value);
        assert_eq!(read, serde_json::from_str(schema).ok(), "{}", agent.id);
    }
}

#[test]
fn a_schema_that_cannot_be_used_is_told_with_its_place() {
    for (said, other, because) in [
        ("{ type = \"text\" }", "{}", "the schema is invalid at `/type`"),
        ("3", "{}", "must be a JSON Schema or the name of a file with one, but is integer"),
        ("\"none.json\"", "{}", "none.json` cannot be read"),
        ("\"n.json\"", "{", "n.json` is not valid JSON"),
        ("\"n.json\"", "[]", "n.json` holds no JSON Schema: it must be a JSON object"),
        (
            "\"n.json\"",
            r#"{"minimum": "x"}"#,
            "n.json` holds no JSON Schema that can be used: the schema is invalid at `/minimum`",
        ),
    ] {
        let file = format!("output_schema = {said}\n{DEMO}");
        let problems = load(&[("a.toml", &file), ("n.json", other)]).unwrap_err();
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.starts_with("a.toml:1:1: `output_schema`: ") && problem.contains(because), "{problem}");
    }
}

const DEMO: &str = "[model]\nprovider = \"demo\"\n";

#[test]
fn a_whole_file_is_read_with_its_defaults() {
    let agents = load(&[("b.toml", DEMO), ("a.toml", GOOD), ("notes.md", "x"), (".hidden.toml", "x")]).unwrap();
    let [support, plain] = &agents[..] else { panic!("{agents:?}") };
    assert_eq!((support.id.as_str(), plain.id.as_str(), plain.name.as_str()), ("support", "b", "b"));
    assert_eq!(support.model.temperature_milli, Some(700));
    assert_eq!((support.model.timeout_s, support.model.retries, support.history_runs), (120, 2, 5));
    assert_eq!(support.limits, Limits { tool_calls: 7, turns: 20, timeout_s: 3600 });
    assert_eq!(plain.limits, Limits { tool_calls: 50, turns: 20, timeout_s: 3600 });
    assert_eq!(support.queue, QueueSpec { priority: 80, paused_holds_session: true, when_busy: WhenBusy::Reject });
    assert_eq!(plain.queue, QueueSpec::default());
    let [refund, calculator] = &support.tools[..] else { panic!("{:?}", support.tools) };
    assert_eq!((refund.effect, refund.timeout_s), (Effect::AtMostOnce, 30));
    assert!(matches!(&refund.kind, ToolKind::Http { headers, .. } if headers.len() == 1));
    assert_eq!((calculator.effect, &calculator.kind), (Effect::ReadOnly, &ToolKind::Builtin));
}

#[test]
fn fallbacks_are_models_like_the_first_in_their_order() {
    let second = "[[model.fallbacks]]\nprovider = \"openai\"\nid = \"x\"\nretries = 0\n";
    let file = format!(
        "{DEMO}{second}[[model.fallbacks]]\nprovider = \"demo\"\n[[tools]]\ntype = \"builtin\"\nname = \"sleep\""
    );
    let agent = load(&[("a.toml", &file)]).unwrap().remove(0);
    let models: Vec<_> =
        agent.models().map(|model| (model.provider.as_str(), model.id.as_str(), model.retries)).collect();
    assert_eq!(models, [("demo", "demo", 2), ("openai", "x", 0), ("demo", "demo", 2)]);
    assert_eq!((agent.model_at(1).unwrap().id.as_str(), agent.model_at(3)), ("x", None));
}

#[test]
fn every_problem_of_every_file_is_told_with_its_place() {
    let errors = load(&[
        ("a.toml", "colour = 1\n[model]\nprovider = \"demo\"\n[limits]\nturns = 0\ntool_calls = \"x\"\n"),
        ("b.toml", "id = \"a\"\n[model]\nprovider = \"bedrock\"\nid = \"g\"\n"),
        ("c.toml", "id = \n"),
    ])
    .unwrap_err();
    assert_eq!(errors.len(), 6, "{errors:#?}");
    assert!(errors[0].starts_with("a.toml:1:1: `colour`: unknown key; allowed here are `id`, `name`"), "{}", errors[0]);
    assert_eq!(errors[1], "a.toml:5:1: `limits.turns`: must be a whole number from 1 to 1000, but is 0");
    assert_eq!(errors[2], "a.toml:6:1: `limits.tool_calls`: must be a whole number from 0 to 10000, but is a string");
    assert!(errors[3].starts_with("b.toml:1:1: `id`: the id `a` is taken by `a.toml` already"), "{}", errors[3]);
    assert_eq!(
        errors[4],
        "b.toml:3:1: `model.provider`: `bedrock` is not known; allowed are `openai`, `anthropic`, `gemini`, `demo`"
    );
    assert!(errors[5].starts_with("c.toml:1:"), "{}", errors[5]);
}

#[test]
fn each_mistake_names_its_key_and_what_is_allowed() {
    for (text, key, message) in [
        ("", "model", "missing"),
        ("model = 1", "model", "must be a table, but is an integer"),
        ("[model]\nid = \"x\"", "model.provider", "`openai`, `anthropic`, `gemini`, `demo`"),
        ("[model]\nprovider = \"opnai\"\nid = \"x\"", "model.provider", "`opnai` is not known"),
        ("[model]\nprovider = \"openai\"", "model.id", "missing"),
        (
            "[model]\nprovider = \"openai\"\nid = \"x\"\napi_key_env = \"NOPE\"",
            "model.api_key_env",
            "`NOPE` is not set",
        ),
        (
            "[model]\nprovider = \"openai\"\nid = \"x\"\napi_key_env = \"sk-1234\"",
            "model.api_key_env",
            "never the secret",
        ),
        ("[model]\nprovider = \"openai\"\nid = \"x\"\nbase_url = \"localhost\"", "model.base_url", "is not a URL"),
        ("[model]\nprovider = \"openai\"\nid = \"x\"\nbase_url = \"ftp://h\"", "model.base_url", "`http://`"),
        ("[model]\nprovider = \"openai\"\nid = \"x\"\nbase_url = \"http://u:p@h\"", "model.base_url", "password"),
        ("[model]\nprovider = \"openai\"\nid = \"x\"\ntemperature = 3", "model.temperature", "from 0 to 2"),
        ("[model]\nprovider = \"openai\"\nid = \"x\"\ntemperature = nan", "model.temperature", "from 0 to 2"),
        ("[model]\nprovider = \"demo\"\nbase_url = \"http://h\"", "model.base_url", "no meaning"),
        ("[model]\nprovider = \"demo\"\nfallbacks = 1", "model.fallbacks", "[[model.fallbacks]]"),
        ("[model]\nprovider = \"demo\"\n[model.fallbacks]\nid = \"x\"", "model.fallbacks", "[[model.fallbacks]]"),
        ("[model]\nprovider = \"demo\"\n[[model.fallbacks]]\nid = \"x\"", "model.fallbacks[0].provider", "missing"),
        (
            "[model]\nprovider = \"demo\"\n[[model.fallbacks]]\nprovider = \"demo\"\nfallbacks = []",
            "model.fallbacks[0].fallbacks",
            "unknown key",
        ),
        (
            &format!("[model]\nprovider = \"demo\"\n{}", "[[model.fallbacks]]\nprovider = \"demo\"\n".repeat(9)),
            "model.fallbacks",
            "at most 8",
        ),
        (
            "[model]\nprovider = \"openai\"\nid = \"x\"\napi_key_file = \"/nowhere/key\"",
            "model.api_key_file",
            "failed to read the file `/nowhere/key`",
        ),
        (
            "[model]\nprovider = \"openai\"\nid = \"x\"\napi_key_file = \"/nowhere/key\"\napi_key_env = \"OPENAI_API_KEY\"",
            "model.api_key_file",
            "beside `api_key_env`",
        ),
        ("[model]\nprovider = \"demo\"\napi_key_file = \"k\"", "model.api_key_file", "no meaning"),
        ("id = \"Nope\"\n[model]\nprovider = \"demo\"", "id", "^[a-z0-9][a-z0-9-_]*$"),
        ("id = \"a\"\nid = \"b\"", "", "duplicate key"),
    ] {
        assert_one(text, key, message);
    }
}

#[test]
fn tools_say_that_their_calls_wait_for_somebody() {
    let http = "[[tools]]\ntype = \"http\"\nmethod = \"POST\"\nurl = \"http://h\"\n";
    let schema = "parameters = { type = \"object\", required = [\"a\", \"b\"], properties = { a = { type = \"integer\" }, \
                  b = { type = \"string\", description = \"Why.\" } } }\n";
    let file = format!(
        "{DEMO}{http}name = \"c\"\nrequires_confirmation = true\nexpires_in_s = 60\non_expiry = \"cancel\"\n\
         {http}name = \"i\"\nrequires_user_input = true\nuser_input_fields = [\"b\"]\n{schema}\
         [[tools]]\ntype = \"external_execution\"\nname = \"e\"\n{schema}[[tools]]\ntype = \"builtin\"\nname = \"sleep\""
    );
    let agent = load(&[("a.toml", &file)]).unwrap().remove(0);
    let holds: Vec<_> = agent.tools.iter().map(|tool| tool.hold.clone()).collect();
    let held = |needs| HoldSpec { needs, expires_in_s: None, on_expiry: OnExpiry::Reject };
    let confirmed = HoldSpec { expires_in_s: Some(60), on_expiry: OnExpiry::Cancel, ..held(Needs::Confirmation) };
    let field = InputField { name: "b".into(), field_type: "str".into(), description: Some("Why.".into()) };
    let filled = held(Needs::Input { fields: vec![field] });
    assert_eq!(holds, [Some(confirmed), Some(filled), Some(held(Needs::Execution)), None]);
    let asked = agent.tools[1].for_model();
    let shown = asked.parameters.value();
    assert_eq!((&shown["properties"]["b"], &shown["required"]), (&Value::Null, &serde_json::json!(["a"])));
    assert_eq!(agent.tools[2].for_model().parameters, agent.tools[2].parameters, "nobody fills in anything of it");
}

#[test]
fn each_mistake_in_a_tool_names_its_key_and_what_is_allowed() {
    let http = "[[tools]]\ntype = \"http\"\nname = \"t\"\nmethod = \"POST\"\nurl = \"http://h\"\n";
    let asks = format!("{http}requires_user_input = true\n");
    let fields = "parameters = { type = \"object\", properties = { a = { type = \"string\" } } }";
    for (tool, key, message) in [
        ("tools = 1", "tools", "[[tools]]"),
        ("[[tools]]\nname = \"x\"", "tools[0].type", "`http`, `builtin`"),
        ("[[tools]]\ntype = \"mcp\"", "tools[0].type", "not supported yet"),
        ("[[tools]]\ntype = \"rpc\"", "tools[0].type", "`http`, `builtin`"),
        ("[[tools]]\ntype = \"builtin\"\nname = \"fly\"", "tools[0].name", "`calculator`, `current_time`, `sleep`"),
        ("[[tools]]\ntype = \"builtin\"\nname = \"sleep\"\nurl = \"http://h\"", "tools[0].url", "unknown key"),
        (&format!("{http}effect = \"maybe\""), "tools[0].effect", "`read_only`, `idempotent`"),
        (&format!("{http}requires_user_input = true"), "tools[0].user_input_fields", "at least one"),
        (&format!("{http}user_input_fields = [\"a\"]\n{fields}"), "tools[0].user_input_fields", "no meaning"),
        (&format!("{asks}user_input_fields = [\"b\"]\n{fields}"), "tools[0].user_input_fields", "names `b`"),
        (&format!("{asks}user_input_fields = [1]"), "tools[0].user_input_fields", "list of strings"),
        (
            &format!("{asks}requires_confirmation = true\nuser_input_fields = [\"a\"]\n{fields}"),
            "tools[0].requires_user_input",
            "cannot stand beside",
        ),
        (&format!("{http}expires_in_s = 5"), "tools[0].expires_in_s", "no meaning"),
        (&format!("{http}requires_confirmation = true\nexpires_in_s = 0"), "tools[0].expires_in_s", "from 1 to"),
        (
            &format!("{http}requires_confirmation = true\non_expiry = \"wait\""),
            "tools[0].on_expiry",
            "`reject`, `cancel`",
        ),
        ("[[tools]]\ntype = \"external_execution\"\nname = \"t\"\nurl = \"http://h\"", "tools[0].url", "unknown key"),
        (&format!("{http}timeout_s = -1"), "tools[0].timeout_s", "from 1 to"),
        (&format!("{http}parameters = {{ type = \"objekt\" }}"), "tools[0].parameters", "object"),
        (&format!("{http}parameters = {{ type = \"object\", required = 3 }}"), "tools[0].parameters", "invalid"),
        (&format!("{http}parameters = {{ type = \"object\", default = 1979-05-27 }}"), "tools[0].parameters", "date"),
        (&format!("{http}parameters = \"x\""), "tools[0].parameters", "must be a table"),
        (&format!("{http}headers = {{ \"a b\" = \"x\" }}"), "tools[0].headers.a b", "legal name"),
        (&format!("{http}headers = {{ a = \"env:no such\" }}"), "tools[0].headers.a", "environment variable"),
        (&format!("{http}headers = {{ Idempotency-Key = \"1\" }}"), "tools[0].headers.Idempotency-Key", "is set by"),
        (&format!("{http}{http}"), "tools[1].name", "taken by `tools[0]`"),
        (&http.replace("POST", "TRACE"), "tools[0].method", "`GET`, `POST`"),
        (&http.replace("\"t\"", "\"a tool\""), "tools[0].name", "letters"),
        (&http.replace("url = \"http://h\"\n", ""), "tools[0].url", "missing"),
    ] {
        let (before, after) = if tool.starts_with("tools") { (tool, "") } else { ("", tool) };
        assert_one(&format!("{before}\n{DEMO}{after}"), key, message);
    }
}

fn assert_one(text: &str, key: &str, message: &str) {
    let errors = problems(text);
    let [error] = &errors[..] else { panic!("{text}: {errors:#?}") };
    let named = key.is_empty() || error.contains(&format!(": `{key}`: "));
    assert!(named && error.contains(message), "{text}: {error}");
    assert!(!error.contains("sk-1234"), "{error}");
}

#[test]
fn a_missing_key_is_told_at_load_only_when_the_server_asks_for_one_by_default() {
    let openai = "[model]\nprovider = \"openai\"\nid = \"x\"\n";
    assert!(load(&[("a.toml", openai)]).is_ok(), "`OPENAI_API_KEY` is set");
    assert!(load(&[("a.toml", &format!("{openai}base_url = \"http://h/v1\"\napi_key_env = \"NOPE\""))]).is_ok());
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.toml"), openai).unwrap();
    let errors = load_agents_with(dir.path(), &Environment::of(&[])).unwrap_err();
    assert!(errors[0].message.contains("`OPENAI_API_KEY`"), "{errors:?}");
    for (provider, variable) in [("anthropic", "`ANTHROPIC_API_KEY`"), ("gemini", "`GEMINI_API_KEY`")] {
        fs::write(dir.path().join("a.toml"), openai.replace("openai", provider)).unwrap();
        let errors = load_agents_with(dir.path(), &Environment::of(&[("OPENAI_API_KEY", "sk-x")])).unwrap_err();
        assert!(errors[0].message.contains(variable), "{errors:?}");
    }
}

#[test]
fn a_folder_that_is_not_there_and_a_file_that_is_no_text_are_told() {
    let dir = tempfile::tempdir().unwrap();
    assert!(load_agents(&dir.path().join("nope")).unwrap_err()[0].to_string().contains("nope:1:1: failed to read"));
    fs::write(dir.path().join("a.toml"), b"\xff").unwrap();
    assert!(load_agents(dir.path()).unwrap_err()[0].message.contains("UTF-8"));
}

#[test]
fn the_demo_agent_has_all_built_in_tools() {
    let demo = demo_agent();
    let names: Vec<_> = demo.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((demo.id.as_str(), names), ("demo", vec!["calculator", "current_time", "sleep"]));
}

#[test]
fn a_sessions_first_keys_stand_in_the_file() {
    let file = format!("add_session_state_to_context = true\nsession_state = {{ cart = [], n = 1.5 }}\n{DEMO}");
    let agent = load(&[("a.toml", &file)]).unwrap().remove(0);
    assert!(agent.add_session_state_to_context);
    assert_eq!(agent.session_state.unwrap().as_str(), r#"{"cart":[],"n":1.5}"#);
    let problems = problems(&format!("session_state = {{ day = 2026-11-30 }}\n{DEMO}"));
    assert!(problems[0].contains("`session_state`: holds the date"), "{problems:?}");
}

#[test]
fn guardrails_are_read_with_their_defaults_and_their_mistakes_are_told() {
    let file = format!("{DEMO}[[guardrails]]\nname = \"words\"\non = \"input\"\nurl = \"http://127.0.0.1:9/ask\"\n");
    let agent = load(&[("a.toml", &file)]).unwrap().remove(0);
    let [words] = &agent.guardrails[..] else { panic!("{:?}", agent.guardrails) };
    assert_eq!((words.on, words.timeout_s, words.retries), (Guarded::Input, 10, 2));
    let twice = format!("{file}{}", file.trim_start_matches(DEMO).replace("input", "middle"));
    let problems = problems(&format!("{twice}[[guardrails]]\non = \"output\"\nurl = \"nowhere\"\nlimit = 3\n"));
    for because in [
        "`guardrails[1].on`: `middle` is not known",
        "`guardrails[2].name`: missing",
        "`guardrails[2].limit`",
        "`guardrails[2].url`",
    ] {
        assert!(problems.iter().any(|problem| problem.contains(because)), "{because} in {problems:#?}");
    }
}
