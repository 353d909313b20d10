//! Writes the request of an HTTP tool.
//!
//! Arguments of `GET` and `DELETE` go into the query, one pair for each key: strings as they are, all else
//! as JSON text. Other methods send the arguments' text, untouched, as a JSON body.
//!
//! Who is acting goes into headers. An id that is no legal header text, or holds `%`, is percent-encoded
//! (UTF-8, everything but visible ASCII, and `%`), so that a reader who decodes always gets the id.

use std::{borrow::Cow, collections::BTreeMap};

use reenact_actors::step::ToolCall;
use reqwest::{
    Client, Method, Request, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::value::RawValue;

use crate::environment::{Environment, Secrets};

/// Marks a header's value as the name of an environment variable.
pub(crate) const ENVIRONMENT_PREFIX: &str = "env:";
/// The methods that a tool may have.
pub(crate) const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The headers that every call carries and no agent file may set.
pub(crate) const OWN_HEADERS: &[&str] =
    &["idempotency-key", "x-reenact-run", "x-reenact-session", "x-reenact-user", "host", "content-length"];

/// Where a tool is.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(String, String)],
}

/// A request that is ready, with the secrets in it.
pub(super) struct Prepared {
    pub(super) request: Request,
    pub(super) secrets: Secrets,
}

/// The request that calls the tool.
pub(super) fn call(
    client: &Client,
    environment: &Environment,
    call: &ToolCall,
    endpoint: Endpoint<'_>,
) -> Result<Prepared, String> {
    let method = Method::from_bytes(endpoint.method.as_bytes())
        .map_err(|_| format!("`{}` is not an HTTP method", endpoint.method))?;
    let mut url = parse(endpoint.url)?;
    let in_query = matches!(method, Method::GET | Method::DELETE);
    if in_query {
        add_query(&mut url, &call.arguments)?;
    }
    let (headers, secrets) = headers(environment, call, endpoint.headers)?;
    let mut request = client.request(method, url);
    if !in_query {
        request = request.header("content-type", "application/json").body(call.arguments.to_string());
    }
    finish(request.headers(headers), secrets)
}

/// The request that asks whether the call's token happened.
pub(super) fn question(
    client: &Client,
    environment: &Environment,
    call: &ToolCall,
    endpoint: Endpoint<'_>,
) -> Result<Prepared, String> {
    let (headers, secrets) = headers(environment, call, endpoint.headers)?;
    finish(client.get(parse(endpoint.url)?).headers(headers), secrets)
}

fn finish(request: reqwest::RequestBuilder, secrets: Secrets) -> Result<Prepared, String> {
    let request = request.build().map_err(crate::http::explain)?;
    Ok(Prepared { request, secrets })
}

fn parse(url: &str) -> Result<Url, String> {
    Url::parse(url).map_err(|error| format!("its URL cannot be read: {error}"))
}

fn add_query(url: &mut Url, arguments: &str) -> Result<(), String> {
    let arguments: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(arguments).map_err(|error| format!("its arguments are not a JSON object: {error}"))?;
    if arguments.is_empty() {
        return Ok(());
    }
    let mut query = url.query_pairs_mut();
    for (key, value) in &arguments {
        let text = serde_json::from_str::<String>(value.get());
        query.append_pair(key, text.as_deref().unwrap_or(value.get()));
    }
    Ok(())
}

fn headers(
    environment: &Environment,
    call: &ToolCall,
    declared: &[(String, String)],
) -> Result<(HeaderMap, Secrets), String> {
    let mut headers = HeaderMap::new();
    let mut secrets = Secrets::default();
    for (name, value) in declared {
        let name = HeaderName::try_from(name).map_err(|_| format!("`{name}` is not a header's name"))?;
        headers.insert(name.clone(), declared_value(environment, &name, value, &mut secrets)?);
    }
    let context = &call.context;
    let user = context.user_id.as_ref().map(|user| ("x-reenact-user", user.as_str()));
    let token = context.token.to_string();
    let own = [
        ("idempotency-key", token.as_str()),
        ("x-reenact-run", context.run_id.as_str()),
        ("x-reenact-session", context.session_id.as_str()),
    ];
    for (name, value) in own.into_iter().chain(user) {
        let value = HeaderValue::from_str(&header_text(value)).map_err(|_| format!("`{name}` cannot be sent"))?;
        headers.insert(name, value);
    }
    Ok((headers, secrets))
}

fn declared_value(
    environment: &Environment,
    name: &HeaderName,
    value: &str,
    secrets: &mut Secrets,
) -> Result<HeaderValue, String> {
    let Some(variable) = value.strip_prefix(ENVIRONMENT_PREFIX) else {
        return HeaderValue::from_str(value).map_err(|_| format!("the value of header `{name}` is not legal"));
    };
    let secret = environment
        .get(variable)
        .ok_or_else(|| format!("header `{name}` needs the environment variable `{variable}`, which is not set"))?;
    secrets.add(&secret);
    // A server that echoes its headers may leave the scheme out.
    if let Some((_, bare)) = secret.split_once(' ') {
        secrets.add(bare.trim());
    }
    let mut value = HeaderValue::from_str(&secret)
        .map_err(|_| format!("the environment variable `{variable}` holds what header `{name}` cannot carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// `text` as a header's value, see the module's rule.
fn header_text(text: &str) -> Cow<'_, str> {
    let legal = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    let trimmed = text.trim_matches(' ').len() == text.len();
    if trimmed && text.bytes().all(|byte| legal(byte) || byte == b' ') {
        return text.into();
    }
    let encode = |byte: u8| if legal(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_no_header_can_carry_are_percent_encoded() {
        assert_eq!(header_text("alice smith@example.com"), "alice smith@example.com");
        assert_eq!(header_text("Zoë"), "Zo%C3%AB");
        assert_eq!(header_text("100%"), "100%25");
        assert_eq!(header_text(" a"), "%20a");
        assert_eq!(header_text("a\r\nx: y"), "a%0D%0Ax:%20y");
    }

    #[test]
    fn arguments_in_a_query_keep_their_digits() {
        let mut url = Url::parse("http://h/p?fixed=1").unwrap();
        add_query(&mut url, r#"{"n": 9007199254740993, "s": "a&b", "list": [1, "x"], "none": null}"#).unwrap();
        let pairs: Vec<_> = url.query_pairs().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(pairs, ["fixed=1", r#"list=[1, "x"]"#, "n=9007199254740993", "none=null", "s=a&b"]);
    }
}
