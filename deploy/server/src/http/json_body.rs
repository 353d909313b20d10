//! JSON bodies, read field by field so that a fault names its field and opaque objects stay byte for byte.

use std::collections::BTreeMap;

use axum::extract::{FromRequest, Request};
use reenact_events::{RawJson, ids::IdError};
use serde_json::Value;

use super::{
    error::{ApiError, Fault},
    state::App,
};

/// A JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonBody(BTreeMap<String, RawJson>);

impl FromRequest<App> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        Self::read(&app.room().take(&parts.headers, body).await?.bytes)
    }
}

impl JsonBody {
    fn read(bytes: &[u8]) -> Result<Self, ApiError> {
        let invalid = |error: &dyn std::fmt::Display| {
            ApiError::malformed(Fault::new("body", "", "json_invalid", format!("the body is not valid JSON: {error}")))
        };
        let text = std::str::from_utf8(bytes).map_err(|error| invalid(&error))?;
        // The whole tree is read once strictly: raw values alone let lone surrogates pass.
        let tree: Value = serde_json::from_str(text).map_err(|error| invalid(&error))?;
        if !tree.is_object() {
            return Err(ApiError::malformed(Fault::new("body", "", "dict_type", "the body should be a JSON object")));
        }
        serde_json::from_str(text).map(Self).map_err(|error| invalid(&error))
    }

    /// A fault of this field.
    #[must_use]
    pub fn fault(&self, name: &str, kind: &'static str, msg: impl Into<String>) -> ApiError {
        ApiError::malformed(Fault::new("body", name, kind, msg))
    }

    /// The fields that it has.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A field, whatever it is; `null` is as if it was not there.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.0.get(name).map(RawJson::value).filter(|value| !value.is_null())
    }

    /// A text; `null` is as if it was not there.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self, name: &str) -> Result<Option<String>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "string_type", "Input should be a valid string")),
        }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn required(&self, name: &str) -> Result<String, ApiError> {
        self.text(name)?.ok_or_else(|| self.fault(name, "missing", "Field required"))
    }

    /// A whole number; `null` is as if it was not there.
    ///
    /// # Errors
    /// When it is something else, or does not fit.
    pub fn number<T: TryFrom<i64>>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let wrong = || self.fault(name, "int_parsing", "Input should be a valid integer");
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_i64().and_then(|number| T::try_from(number).ok()).ok_or_else(wrong).map(Some)
    }

    /// A truth value; `null` is as if it was not there.
    ///
    /// # Errors
    /// When it is something else.
    pub fn truth(&self, name: &str) -> Result<Option<bool>, ApiError> {
        let wrong = || self.fault(name, "bool_parsing", "Input should be a valid boolean");
        self.value(name).map(|value| value.as_bool().ok_or_else(wrong)).transpose()
    }

    /// An id, checked; an empty one is as if it was not there.
    ///
    /// # Errors
    /// When it is no text, too long, or holds control characters.
    pub fn id<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, IdError>) -> Result<Option<T>, ApiError> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        let id = text.as_deref().map(parse).transpose();
        id.map_err(|error| self.fault(name, "value_error", format!("`{name}` cannot be used: {error}")))
    }

    /// An object, byte for byte; `null` is as if it was not there.
    ///
    /// # Errors
    /// When it is something else.
    pub fn object(&self, name: &str) -> Result<Option<RawJson>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(_)) => Ok(self.0.get(name).cloned()),
            Some(_) => Err(self.fault(name, "dict_type", "Input should be a valid dictionary")),
        }
    }

    /// A list of texts that must be there.
    ///
    /// # Errors
    /// When it is missing, no list, or holds something else than texts.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, ApiError> {
        let wrong = || self.fault(name, "list_type", "Input should be a valid list of strings");
        match self.value(name) {
            None => Err(self.fault(name, "missing", "Field required")),
            Some(Value::Array(items)) => {
                items.into_iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use reenact_events::SessionId;

    use super::*;

    #[test]
    fn bodies_that_are_no_object_are_422() {
        for bad in [b"".as_slice(), b"[]", b"null", b"{", b"{\"a\":NaN}", b"{\"a\":\"\\ud800\"}", b"\xff"] {
            assert_eq!(JsonBody::read(bad).unwrap_err().status, 422);
        }
    }

    #[test]
    fn objects_stay_byte_for_byte_and_wrong_types_name_their_field() {
        let body = JsonBody::read(br#"{"a":{"n":1.10,"m":9007199254740993},"b":5,"c":null,"d":["x",1]}"#).unwrap();
        assert_eq!(body.object("a").unwrap().unwrap().as_str(), r#"{"n":1.10,"m":9007199254740993}"#);
        assert_eq!(body.text("c").unwrap(), None);
        assert!(body.text("b").is_err() && body.object("b").is_err() && body.texts("d").is_err());
        assert!(body.required("nothing").is_err());
        assert_eq!(body.id("nothing", SessionId::parse).unwrap(), None);
    }
}
