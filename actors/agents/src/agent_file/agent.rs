//! Reads one agent file.

use std::ops::Range;

use reenact_events::{
    AgentId, RawJson,
    agent::{AgentSpec, Limits, QueueSpec, WhenBusy},
};
use toml_edit::Document;

use super::{guardrails, model, problems::Problems, schema, section::Section, tools};
use crate::environment::Environment;

/// Finished runs that the model sees, if the file does not say.
pub(super) const HISTORY_RUNS: u32 = 3;
/// Tool calls in one run, if the file does not say.
pub(super) const TOOL_CALLS: u32 = 50;
/// Model calls in one run, if the file does not say.
pub(super) const TURNS: u32 = 20;
/// Seconds that a run may take, if the file does not say.
pub(super) const TIMEOUT_S: u32 = 3600;

const KEYS: &[&str] = &[
    "id",
    "name",
    "description",
    "instructions",
    "model",
    "history",
    "limits",
    "queue",
    "output_schema",
    "session_state",
    "add_session_state_to_context",
    "guardrails",
    "tools",
];
const ID_BYTES_MAX: usize = 255;

/// What a file holds.
#[derive(Default)]
pub(super) struct Parsed {
    /// The id, also when something else is wrong: it may be another file's too.
    pub(super) id: Option<String>,
    /// Where the id stands.
    pub(super) id_span: Range<usize>,
    /// The agent, if nothing is wrong.
    pub(super) spec: Option<AgentSpec>,
}

pub(super) fn parse(problems: &Problems, environment: &Environment) -> Parsed {
    let document = match Document::parse(problems.text()) {
        Ok(document) => document,
        Err(error) => {
            let message = format!("the file is not valid TOML: {}", error.message().trim());
            problems.add("", error.span().unwrap_or(0..0), message);
            return Parsed::default();
        }
    };
    let root = Section::open(problems, document.as_table(), "", 0..0, KEYS);
    let id = id(&root);
    let spec = spec(&root, id.as_deref(), environment).filter(|_| problems.is_empty());
    Parsed { id, id_span: root.span_of("id"), spec }
}

fn spec(root: &Section<'_>, id: Option<&str>, environment: &Environment) -> Option<AgentSpec> {
    let name = root.text("name");
    let description = root.text("description");
    let instructions = root.text("instructions").filter(|text| !text.trim().is_empty());
    let model = model::read(root, environment);
    let tools = tools::read(root, environment);
    let history_runs = root.section("history", &["runs"]).and_then(|history| history.whole("runs", 0..=1000));
    let limits = limits(root);
    let queue = queue(root);
    let guardrails = guardrails::read(root, environment);
    let output_schema = output_schema(root);
    let session_state = session_state(root);
    let add_session_state_to_context = root.flag("add_session_state_to_context").unwrap_or_default();
    let (model, fallbacks) = model?;
    Some(AgentSpec {
        id: AgentId::trusted(id?),
        name: name.unwrap_or_else(|| id.unwrap_or_default().to_owned()),
        description,
        instructions,
        model,
        fallbacks,
        tools,
        history_runs: history_runs.unwrap_or(HISTORY_RUNS),
        limits,
        queue,
        output_schema,
        session_state,
        add_session_state_to_context,
        guardrails,
    })
}

fn id(root: &Section<'_>) -> Option<String> {
    let given = root.has("id");
    let id = if given { root.text("id")? } else { root.problems().stem() };
    let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let begins_well = id.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
    if begins_well && id.bytes().all(legal) && id.len() <= ID_BYTES_MAX {
        return Some(id);
    }
    let shown = crate::text::preview(&id, 60);
    let whose = if given { "the id" } else { "the file's name, which is the id when `id` is not set," };
    root.note(
        "id",
        format!("{whose} is `{shown}`; it must match ^[a-z0-9][a-z0-9-_]*$ and have at most {ID_BYTES_MAX} characters"),
    );
    None
}

fn limits(root: &Section<'_>) -> Limits {
    let section = root.section("limits", &["tool_calls", "turns", "timeout_s"]);
    let whole = |key, range| section.as_ref().and_then(|limits| limits.whole(key, range));
    Limits {
        tool_calls: whole("tool_calls", 0..=10_000).unwrap_or(TOOL_CALLS),
        turns: whole("turns", 1..=1_000).unwrap_or(TURNS),
        timeout_s: whole("timeout_s", 1..=604_800).unwrap_or(TIMEOUT_S),
    }
}

/// A schema, or the name of the file that holds it.
fn output_schema(root: &Section<'_>) -> Option<RawJson> {
    let item = root.item("output_schema")?;
    let read = match (item.as_str(), item.as_table_like()) {
        (Some(file), _) => schema::read_file(&root.problems().beside(file)),
        (_, Some(table)) => schema::read_any(table),
        _ => Err(format!("must be a JSON Schema or the name of a file with one, but is {}", item.type_name())),
    };
    read.map_err(|problem| root.note("output_schema", problem)).ok()
}

fn session_state(root: &Section<'_>) -> Option<RawJson> {
    let state = schema::object(root.table("session_state")?);
    let state = state.and_then(|state| RawJson::of(&state).map_err(|error| error.to_string()));
    state.map_err(|problem| root.note("session_state", problem)).ok()
}

fn queue(root: &Section<'_>) -> QueueSpec {
    let usual = QueueSpec::default();
    let Some(section) = root.section("queue", &["priority", "paused_holds_session", "when_busy"]) else { return usual };
    QueueSpec {
        priority: section.whole("priority", 0..=100).unwrap_or(usual.priority),
        paused_holds_session: section.flag("paused_holds_session").unwrap_or(usual.paused_holds_session),
        when_busy: match section.word("when_busy", &["queue", "reject", "interrupt", "parallel"]).as_deref() {
            Some("reject") => WhenBusy::Reject,
            Some("interrupt") => WhenBusy::Interrupt,
            Some("parallel") => WhenBusy::Parallel,
            _ => usual.when_busy,
        },
    }
}
