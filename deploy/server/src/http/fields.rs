//! Named texts from a query or a form, read into types with the faults that AgentOS's clients know.

use std::{ops::RangeInclusive, str::FromStr};

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use percent_encoding::percent_decode_str;
use reenact_events::{RawJson, ids::IdError};
use serde_json::Value;

use super::error::{ApiError, Fault};

/// Named texts, in order. Of texts with one name the last counts, where one is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    place: &'static str,
    fields: Vec<(String, String)>,
}

impl Fields {
    /// Fields of a form.
    #[must_use]
    pub fn of_body(fields: Vec<(String, String)>) -> Self {
        Self { place: "body", fields }
    }

    /// Reads `a=1&b=2`, strictly: bytes that are not UTF-8 are a fault, not a replacement character.
    ///
    /// # Errors
    /// When a name or value is not UTF-8.
    pub fn parse(place: &'static str, text: &str) -> Result<Self, ApiError> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let fields = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(place, name, name)?, decode(place, name, value)?))
        });
        Ok(Self { place, fields: fields.collect::<Result<_, ApiError>>()? })
    }

    /// With the user whom the query names, who would be nobody if they were looked for in the form alone.
    ///
    /// # Errors
    /// When the form names another one.
    pub fn with_user_of(mut self, query: &Self) -> Result<Self, ApiError> {
        const USER: &str = "user_id";
        match (query.text(USER), self.text(USER)) {
            (Some(named), None) => self.fields.push((USER.to_owned(), named.to_owned())),
            (Some(named), Some(other)) if named != other => {
                return Err(query.fault(USER, "value_error", "the query and the form name different users"));
            }
            _ => {}
        }
        Ok(self)
    }

    /// Every name with its text.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A fault of the field `name`.
    #[must_use]
    pub fn fault(&self, name: &str, kind: &'static str, msg: impl Into<String>) -> ApiError {
        ApiError::malformed(Fault::new(self.place, name, kind, msg))
    }

    /// The field, if it is there and not empty.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let last = self.fields.iter().rev().find(|(field, _)| field == name);
        last.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Every text of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The field, which must be there.
    ///
    /// # Errors
    /// When it is missing or empty.
    pub fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.text(name).ok_or_else(|| self.fault(name, "missing", "Field required"))
    }

    /// A truth value, `default` when it is not there.
    ///
    /// # Errors
    /// When it is neither of the usual words.
    pub fn truth(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        let Some(text) = self.text(name) else { return Ok(default) };
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Ok(true),
            "false" | "0" | "no" | "off" | "f" | "n" => Ok(false),
            _ => Err(self.fault(name, "bool_parsing", "Input should be a valid boolean: `true` or `false`")),
        }
    }

    /// A whole number in `range`.
    ///
    /// # Errors
    /// When it is no number or outside.
    pub fn number<T>(&self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>, ApiError>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wanted = || format!("Input should be a whole number from {} to {}", range.start(), range.end());
        match text.trim().parse::<T>() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            Ok(_) => Err(self.fault(name, "out_of_range", wanted())),
            Err(_) => Err(self.fault(name, "int_parsing", wanted())),
        }
    }

    /// An id, checked.
    ///
    /// # Errors
    /// When it is too long or holds control characters.
    pub fn id<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, IdError>) -> Result<Option<T>, ApiError> {
        let id = self.text(name).map(parse).transpose();
        id.map_err(|error| self.fault(name, "value_error", format!("`{name}` cannot be used: {error}")))
    }

    /// One of a few words.
    ///
    /// # Errors
    /// When it is another word.
    pub fn one_of<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let choice = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
        choice.map(Some).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| format!("'{word}'")).collect();
            self.fault(name, "enum", format!("Input should be {}", words.join(" or ")))
        })
    }

    /// A JSON value. `NaN`, `Infinity`, numbers that no double holds, lone surrogates and nesting deeper
    /// than 127 are no JSON here; everything else is kept byte for byte.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn json(&self, name: &str) -> Result<Option<(Value, RawJson)>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let read = serde_json::from_str::<Value>(text).and_then(|value| Ok((value, RawJson::parse(text)?)));
        read.map(Some).map_err(|error| self.fault(name, "json_invalid", format!("`{name}` is not valid JSON: {error}")))
    }

    /// A JSON object; `null` is as if the field was not there.
    ///
    /// # Errors
    /// When it is no JSON or something else.
    pub fn object(&self, name: &str) -> Result<Option<RawJson>, ApiError> {
        match self.json(name)? {
            None | Some((Value::Null, _)) => Ok(None),
            Some((Value::Object(_), raw)) => Ok(Some(raw)),
            Some(_) => Err(self.fault(name, "dict_type", format!("`{name}` should be a JSON object"))),
        }
    }
}

fn decode(place: &'static str, name: &str, text: &str) -> Result<String, ApiError> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| {
        let shown = percent_decode_str(name).decode_utf8_lossy();
        ApiError::malformed(Fault::new(place, &shown, "string_unicode", "Input should be valid UTF-8"))
    })
}

/// The query of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query(pub Fields);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Fields::parse("query", parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// The ids in a request's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathIds(Fields);

impl PathIds {
    /// The id at `{name}`, checked.
    ///
    /// # Errors
    /// When it is too long or holds control characters.
    pub fn get<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, IdError>) -> Result<T, ApiError> {
        self.0.id(name, parse)?.ok_or_else(|| self.0.fault(name, "missing", "Field required"))
    }
}

impl PathIds {
    /// The number at `{name}`.
    ///
    /// # Errors
    /// When it is no number or outside.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<u64, ApiError> {
        self.0.number(name, range)?.ok_or_else(|| self.0.fault(name, "missing", "Field required"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathIds {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| {
            ApiError::malformed(Fault::new("path", "", "string_unicode", "The path should be valid UTF-8"))
        })?;
        let fields = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Self(Fields { place: "path", fields }))
    }
}

#[cfg(test)]
mod tests {
    use reenact_events::SessionId;

    use super::*;

    fn query(text: &str) -> Fields {
        Fields::parse("query", text).unwrap()
    }

    #[test]
    fn escapes_and_plus_are_read_strictly() {
        let fields = query("a=1+2%F0%9F%99%82&b&a=last&=x&&c=%00");
        assert_eq!(fields.text("a"), Some("last"));
        assert_eq!(fields.all("a").next(), Some("1 2🙂"));
        assert_eq!(fields.text("b"), None);
        assert_eq!(fields.text("c"), Some("\0"));
        let error = Fields::parse("query", "name=%ff").unwrap_err();
        assert_eq!(error.status, 422);
    }

    #[test]
    fn numbers_outside_their_range_are_faults() {
        for bad in ["0", "-1", "abc", "1e3", "1000000000", "99999999999999999999999", "1.0", "٣"] {
            let fields = query(&format!("limit={bad}"));
            assert!(fields.number::<u64>("limit", 1..=1000).is_err(), "{bad}");
        }
        assert_eq!(query("limit=1000").number::<u64>("limit", 1..=1000).unwrap(), Some(1000));
        assert_eq!(query("").number::<u64>("limit", 1..=1000).unwrap(), None);
    }

    #[test]
    fn a20_json_that_cannot_be_kept_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for bad in [
            "NaN",
            "Infinity",
            "{\"a\":NaN}",
            "1e400",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "{\"\\ud83d\":1}",
            "{,}",
            "{\"a\":1,}",
            &deep,
        ] {
            let fields = Fields::of_body(vec![("metadata".into(), bad.to_owned())]);
            let error = fields.json("metadata").unwrap_err();
            assert_eq!(error.status, 422, "{bad}");
        }
    }

    #[test]
    fn a20_json_that_can_be_kept_is_kept_byte_for_byte() {
        for good in [
            "{\"\":1}",
            "{\"a\":1,\"a\":2}",
            "{\"n\":9007199254740993,\"z\":-0,\"f\":1.10}",
            "{\"s\":\"\\u0000\\ufffe\u{200f}🙂e\u{301}\"}",
            "{ \"spaced\" : [ ] }",
        ] {
            let fields = Fields::of_body(vec![("metadata".into(), good.to_owned())]);
            assert_eq!(fields.object("metadata").unwrap().unwrap().as_str(), good);
        }
    }

    #[test]
    fn ids_refuse_control_characters() {
        let error = query("session_id=a%00b").id("session_id", SessionId::parse).unwrap_err();
        assert_eq!(error.status, 422);
        assert!(query("session_id=Zo%C3%AB").id("session_id", SessionId::parse).unwrap().is_some());
    }

    #[test]
    fn truth_values_are_the_usual_words() {
        assert!(query("stream=TRUE").truth("stream", false).unwrap());
        assert!(!query("stream=0").truth("stream", true).unwrap());
        assert!(query("stream=").truth("stream", true).unwrap());
        assert!(query("stream=maybe").truth("stream", true).is_err());
    }
}
