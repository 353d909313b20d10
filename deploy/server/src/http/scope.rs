//! Who asks. This is the one place that decides it: until callers prove who they are, it is the user that
//! they name, or nobody.

use axum::http::StatusCode;
use reenact_events::UserId;
use reenact_projections::query::Scope;

use super::{error::ApiError, fields::Fields};

/// Names that only this program may use.
const RESERVED: &str = "__scheduler__";
const RESERVED_PREFIX: &str = "sa:";

/// Who asks: what they may see, and whose their writes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What they see.
    pub scope: Scope,
    /// Whose their writes are.
    pub user_id: Option<UserId>,
}

/// The caller that the fields name.
///
/// # Errors
/// 422 when the name is no id, 403 when it is a reserved one.
pub fn caller(fields: &Fields) -> Result<Caller, ApiError> {
    caller_of(fields.id("user_id", UserId::parse)?)
}

/// The caller of this name.
///
/// # Errors
/// 403 when it is a reserved one.
pub fn caller_of(user_id: Option<UserId>) -> Result<Caller, ApiError> {
    let Some(user) = user_id else { return Ok(Caller { scope: Scope::Anyone, user_id: None }) };
    if user.as_str() == RESERVED || user.as_str().starts_with(RESERVED_PREFIX) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, format!("the user id `{user}` is reserved")));
    }
    Ok(Caller { scope: Scope::User(user.clone()), user_id: Some(user) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_who_is_named_or_nobody() {
        let named = caller(&Fields::parse("query", "user_id=alice").unwrap()).unwrap();
        assert_eq!(named.scope, Scope::User(UserId::trusted("alice")));
        let nobody = caller(&Fields::parse("query", "").unwrap()).unwrap();
        assert_eq!((nobody.scope, nobody.user_id), (Scope::Anyone, None));
    }

    #[test]
    fn reserved_names_cannot_be_taken() {
        for name in ["sa:x", "__scheduler__"] {
            let fields = Fields::of_body(vec![("user_id".into(), name.into())]);
            assert_eq!(caller(&fields).unwrap_err().status, 403);
        }
    }
}
