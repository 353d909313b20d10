//! Agents, one for each thing that an agent can say.

use reenact_events::{
    AgentId, RawJson,
    agent::{AgentSpec, Effect, Guarded, GuardrailSpec, Limits, ModelSpec, QueueSpec, ToolKind, ToolSpec, WhenBusy},
    event::ComponentRegistered,
    hold::{HoldSpec, InputField, Needs, OnExpiry},
};

use super::{Named, json, user};

/// Each as it is registered.
pub(super) fn registered() -> Vec<Named> {
    let registered = |spec: AgentSpec| ComponentRegistered { version: spec.version(), spec, own: false };
    vec![
        ("full", registered(agent()).into()),
        ("least", registered(bare_agent()).into()),
        ("queue", registered(queued_agent()).into()),
        ("rejecting", registered(rejecting_agent()).into()),
        ("fallbacks", registered(with_fallbacks()).into()),
        ("output_schema", registered(with_schema()).into()),
        ("session_state", registered(with_state()).into()),
        ("guardrails", registered(with_guardrails()).into()),
        ("key_file", registered(with_key_file()).into()),
        ("holds", registered(holding_agent()).into()),
        ("own", ComponentRegistered { version: agent().version_of(user().as_ref()), spec: agent(), own: true }.into()),
    ]
}

pub(super) fn agent() -> AgentSpec {
    let tool = |name: &str, effect, kind| ToolSpec {
        name: name.to_owned(),
        description: "Does it.".to_owned(),
        parameters: RawJson::parse(r#"{"type":"object","properties":{"n":{"type":"number","maximum":1e3}}}"#)
            .expect("is JSON"),
        effect,
        timeout_s: 30,
        kind,
        hold: None,
    };
    let headers = vec![("authorization".to_owned(), "env:TOKEN".to_owned())];
    let http = ToolKind::Http { method: "POST".to_owned(), url: "http://127.0.0.1:9/do".to_owned(), headers };
    AgentSpec {
        id: AgentId::trusted("travel"),
        name: "Travel".to_owned(),
        description: Some("Plans trips.".to_owned()),
        instructions: Some("Be brief.\nBe kind.".to_owned()),
        model: ModelSpec {
            provider: "openai".to_owned(),
            id: "gpt-x".to_owned(),
            base_url: Some("http://127.0.0.1:8080/v1".to_owned()),
            api_key_env: Some("OPENAI_API_KEY".to_owned()),
            api_key_file: None,
            temperature_milli: Some(700),
            max_tokens: Some(1024),
            timeout_s: 60,
            retries: 2,
        },
        fallbacks: Vec::new(),
        tools: vec![
            tool("calculator", Effect::ReadOnly, ToolKind::Builtin),
            tool("book", Effect::Idempotent, http.clone()),
            tool("pay", Effect::Reconcile, http.clone()),
            tool("post", Effect::AtMostOnce, http),
        ],
        history_runs: 3,
        limits: Limits { tool_calls: 20, turns: 10, timeout_s: 600 },
        queue: QueueSpec::default(),
        output_schema: None,
        session_state: None,
        add_session_state_to_context: false,
        guardrails: Vec::new(),
    }
}

fn bare_agent() -> AgentSpec {
    let model =
        ModelSpec { base_url: None, api_key_env: None, temperature_milli: None, max_tokens: None, ..agent().model };
    AgentSpec { description: None, instructions: None, model, tools: Vec::new(), ..agent() }
}

fn queued_agent() -> AgentSpec {
    AgentSpec { queue: QueueSpec { priority: 80, paused_holds_session: true, ..QueueSpec::default() }, ..bare_agent() }
}

fn rejecting_agent() -> AgentSpec {
    AgentSpec { queue: QueueSpec { when_busy: WhenBusy::Reject, ..QueueSpec::default() }, ..bare_agent() }
}

fn with_schema() -> AgentSpec {
    AgentSpec { output_schema: json(r#"{"type":"object","required":["city"]}"#), ..bare_agent() }
}

fn with_state() -> AgentSpec {
    AgentSpec { session_state: json(r#"{"city":"Rome"}"#), add_session_state_to_context: true, ..bare_agent() }
}

fn with_guardrails() -> AgentSpec {
    let guardrail = |name: &str, on| GuardrailSpec {
        name: name.to_owned(),
        on,
        url: "http://127.0.0.1:9/ask".to_owned(),
        headers: vec![("authorization".to_owned(), "env:TOKEN".to_owned())],
        timeout_s: 10,
        retries: 2,
    };
    let guardrails = vec![guardrail("words", Guarded::Input), guardrail("cards", Guarded::Output)];
    AgentSpec { guardrails, ..bare_agent() }
}

fn with_fallbacks() -> AgentSpec {
    let second = ModelSpec { provider: "gemini".to_owned(), retries: 0, ..agent().model };
    AgentSpec { fallbacks: vec![second, bare_agent().model], ..agent() }
}

fn holding_agent() -> AgentSpec {
    let hold = |needs, expires_in_s, on_expiry| Some(HoldSpec { needs, expires_in_s, on_expiry });
    let field = InputField { name: "n".into(), field_type: "float".into(), description: None };
    let mut tools = agent().tools;
    tools[1].hold = hold(Needs::Input { fields: vec![field] }, Some(3600), OnExpiry::Reject);
    tools[2].hold = hold(Needs::Confirmation, Some(60), OnExpiry::Cancel);
    tools[3].hold = hold(Needs::Execution, None, OnExpiry::Reject);
    tools[3].kind = ToolKind::External;
    AgentSpec { tools, ..agent() }
}

fn with_key_file() -> AgentSpec {
    let file = Some("/run/secrets/key".to_owned());
    AgentSpec { model: ModelSpec { api_key_file: file, ..bare_agent().model }, ..bare_agent() }
}
