//! What the description of the API says of every route alike: what a parameter of a well-known name may be, that
//! nothing in a query or a form is null, and how a malformed request is answered. It is said in one place, so that a
//! new route has it without a word.

use std::collections::BTreeSet;

use reenact_events::{
    event::RunStatus,
    ids::ID_BYTES_MAX,
    schedule::{CatchUp, Overlap},
};
use reenact_projections::fold::approvals::STATUSES;
use serde_json::Value;
use utoipa::openapi::{
    OpenApi, Ref, RefOr, Required, ResponseBuilder,
    content::ContentBuilder,
    path::{Operation, PathItem},
    schema::{ArrayItems, KnownFormat, Object, Schema, SchemaFormat, SchemaType, Type},
};

use super::{
    approvals,
    idempotency::KEY_BYTES_MAX,
    paging::{LIMIT_MAX, PAGE_MAX},
    projections::{GENERATION_MAX, WAIT_S_MAX},
    queue, retention, sessions,
};

/// The ids that a request may name.
const IDS: [&str; 10] = [
    "agent_id",
    "approval_id",
    "component_id",
    "job_id",
    "run_id",
    "schedule_id",
    "session_id",
    "user_id",
    "resolved_by",
    "session_ids",
];
/// No control characters, as [`reenact_events::ids`] has it.
const ID: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";
const FORMS: [&str; 2] = ["application/x-www-form-urlencoded", "multipart/form-data"];

/// The description with what holds of all routes.
#[must_use]
pub fn completed(mut api: OpenApi) -> OpenApi {
    let (mut forms, mut bodies) = (BTreeSet::new(), BTreeSet::new());
    for item in api.paths.paths.values_mut() {
        for operation in operations(item) {
            complete(operation);
            for (kind, body) in bodies_of(operation) {
                if FORMS.contains(&kind) { &mut forms } else { &mut bodies }.insert(body);
            }
        }
    }
    let Some(components) = &mut api.components else { return api };
    for (name, schema) in &mut components.schemas {
        let RefOr::T(Schema::Object(body)) = schema else { continue };
        let (is_form, is_body) = (forms.contains(name), bodies.contains(name));
        for (field, schema) in body.properties.iter_mut().filter(|_| is_form || is_body) {
            describe(schema, &|object| restrict(object, field, name), is_form);
        }
    }
    api
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, post, patch, delete, .. } = item;
    [get, post, patch, delete].into_iter().flatten()
}

fn complete(operation: &mut Operation) {
    let id = operation.operation_id.clone().unwrap_or_default();
    let parameters = operation.parameters.get_or_insert_default();
    for parameter in parameters.iter_mut() {
        let RefOr::T(parameter) = parameter else { continue };
        let name = parameter.name.clone();
        if let Some(schema) = &mut parameter.schema {
            describe(schema, &|object| restrict(object, &name, &id), true);
            if parameter.required == Required::True {
                // What is empty is not there.
                describe(schema, &|object| object.min_length = Some(1), true);
            }
        }
    }
    if !parameters.is_empty() || operation.request_body.is_some() {
        refused(operation, "422", "Malformed: `detail` names each field that is at fault");
    }
}

/// Says that the operation may be refused with this status, unless it says so itself.
fn refused(operation: &mut Operation, status: &str, description: &str) {
    let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    let response = ResponseBuilder::new().description(description).content("application/json", error).build();
    operation.responses.responses.entry(status.to_owned()).or_insert_with(|| response.into());
}

/// The kinds of body that an operation takes, each with the name of its schema.
fn bodies_of(operation: &Operation) -> Vec<(&str, String)> {
    let Some(RefOr::T(body)) = &operation.request_body else { return Vec::new() };
    let named = body.content.iter().filter_map(|(kind, content)| {
        let RefOr::T(content) = content else { return None };
        let Some(RefOr::Ref(schema)) = &content.schema else { return None };
        Some((kind.as_str(), schema.ref_location.rsplit('/').next().unwrap_or_default().to_owned()))
    });
    named.collect()
}

/// Applies `restrict` to the schema, or to its items. What is a text on the wire is never null.
fn describe(schema: &mut RefOr<Schema>, restrict: &dyn Fn(&mut Object), is_text: bool) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            if is_text {
                never_null(&mut object.schema_type);
            }
            restrict(object);
        }
        RefOr::T(Schema::Array(array)) => {
            if is_text {
                never_null(&mut array.schema_type);
            }
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                describe(items, restrict, is_text);
            }
        }
        _ => {}
    }
}

fn never_null(types: &mut SchemaType) {
    if let SchemaType::Array(several) = types {
        several.retain(|kind| !matches!(kind, Type::Null));
        if let [one] = several.as_slice() {
            *types = SchemaType::Type(one.clone());
        }
    }
}

/// What a field of this name may be, of a parameter of this operation or of a body of this name.
fn restrict(object: &mut Object, name: &str, of: &str) {
    if IDS.contains(&name) {
        object.pattern = Some(ID.to_owned());
        object.max_length = Some(ID_BYTES_MAX);
    }
    match name {
        "session_ids" => object.min_length = Some(1),
        "Idempotency-Key" => {
            object.pattern = Some("^[!-~]([ -~]*[!-~])?$".to_owned());
            object.max_length = Some(KEY_BYTES_MAX);
        }
        "starting_date" | "ending_date" => object.format = Some(SchemaFormat::KnownFormat(KnownFormat::Date)),
        "generation" => between(object, 1, GENERATION_MAX.into()),
        "wait_s" => between(object, 0, WAIT_S_MAX),
        "page" => between(object, 1, PAGE_MAX),
        "limit" => between(object, 1, LIMIT_MAX),
        "older_than_days" => between(object, 0, retention::DAYS_MAX.into()),
        "keep_newest" => between(object, 0, retention::NEWEST_MAX),
        "message_index" => between(object, 0, u32::MAX.into()),
        _ => {}
    }
    if let Some(words) = words(name, of) {
        object.enum_values = Some(words.into_iter().map(Value::from).collect());
    }
}

fn between(object: &mut Object, least: usize, most: u64) {
    object.minimum = Some(least.into());
    object.maximum = usize::try_from(most).ok().map(Into::into);
}

/// The words that there are for a field.
fn words(name: &str, of: &str) -> Option<Vec<&'static str>> {
    fn first<T>(choices: &[(&'static str, T)]) -> Vec<&'static str> {
        choices.iter().map(|(word, _)| *word).collect()
    }
    let words = match (name, of) {
        ("type" | "session_types", _) => first(&sessions::TYPES),
        ("sort_order", _) => vec!["asc", "desc"],
        ("sort_by", "list_queue_jobs") => vec!["created_at"],
        ("sort_by", _) => first(&sessions::list::SORTS),
        ("status", "list_approvals") => STATUSES.to_vec(),
        ("status", "list_queue_jobs") => first(&queue::WORDS),
        ("status", "ApprovalResolve") => vec!["approved", "rejected"],
        ("status", _) => RunStatus::ALL.iter().map(|status| status.as_str()).collect(),
        ("overlap", _) => first(&Overlap::WORDS),
        ("catch_up", _) => first(&CatchUp::WORDS),
        ("method", "ScheduleCreate" | "ScheduleUpdate") => vec!["POST"],
        ("pause_type", _) => first(&approvals::PAUSE_TYPES),
        ("source_type", _) => first(&approvals::SOURCE_TYPES),
        ("approval_type", _) => first(&approvals::APPROVAL_TYPES),
        _ => return None,
    };
    Some(words)
}
