//! Where the server is: the URL that people give, without ever showing its password.

use std::{fmt, sync::Arc, time::Duration};

use tokio_postgres::config::{Config, Host, SslMode};

use super::Names;

/// How long a connection may take to be made.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long what was sent may stay without a sign that it came.
const SILENCE: Duration = Duration::from_secs(15);
/// The longest name that PostgreSQL tells apart.
const NAME_BYTES_MAX: usize = 63;

/// A database on a server, and the schema in it that holds the views.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    pub(super) config: Config,
    pub(super) schema: String,
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl PostgresAddress {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// # Errors
    /// With what is wrong in it, for people; the URL itself is not in there, because it holds a password.
    pub fn parse(url: &str, schema: &str) -> Result<Self, String> {
        let shape = "it must be `postgres://USER:PASSWORD@HOST:PORT/DATABASE`";
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            format!("{reason}; {shape}, with `?sslmode=require` where the way there is not trusted")
        })?;
        if config.get_hosts().is_empty() {
            return Err(format!("it names no host; {shape}"));
        }
        if config.get_user().is_none() {
            return Err(format!("it names no user; {shape}"));
        }
        if schema.is_empty() || schema.len() > NAME_BYTES_MAX || schema.starts_with("pg_") || schema.contains('\0') {
            return Err(format!(
                "the schema `{schema}` must have 1 to {NAME_BYTES_MAX} bytes and not begin with `pg_`"
            ));
        }
        config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(SILENCE).keepalives_idle(SILENCE);
        if config.get_application_name().is_none() {
            config.application_name("reenact");
        }
        Ok(Self { config, schema: schema.to_owned() })
    }

    /// Whether what is sent is to be encrypted, and the server to prove who it is.
    pub(super) fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }

    /// The same database with another schema.
    pub(crate) fn with_schema(&self, schema: &str) -> Self {
        Self { config: self.config.clone(), schema: schema.to_owned() }
    }

    /// Beside the views' schema, the one that holds the keys of users' content: generations of views are renamed into
    /// each other's place, and keys stay.
    ///
    /// # Errors
    /// When its name would be too long.
    pub fn of_keys(&self) -> Result<Self, String> {
        let schema = format!("{}-keys", self.schema);
        if schema.len() > NAME_BYTES_MAX {
            let over = schema.len() - NAME_BYTES_MAX;
            return Err(format!(
                "the schema of keys `{schema}` beside `{}` would be {over} bytes too long",
                self.schema
            ));
        }
        Ok(self.with_schema(&schema))
    }

    /// The schema that holds the views.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// As errors name it.
    pub(super) fn names(&self) -> Names {
        Names { database: self.shown().into(), schema: self.schema.clone() }
    }

    fn shown(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let ports = self.config.get_ports().iter().map(ToString::to_string).collect::<Vec<_>>();
        let port = if ports.is_empty() { "5432".to_owned() } else { ports.join(",") };
        let user = self.config.get_user().unwrap_or_default();
        let database = self.config.get_dbname().unwrap_or(user);
        format!("postgres://{user}@{hosts}:{port}/{database} schema {}", self.schema)
    }
}

/// The names of an address, shared.
pub(super) fn shared(address: &PostgresAddress) -> Arc<Names> {
    Arc::new(address.names())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let address = PostgresAddress::parse("postgres://app:secret@db.example:6000/views", "acme").expect("is one");
        assert_eq!(format!("{address:?}"), "postgres://app@db.example:6000/views schema acme");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for url in [
            "postgres://app:secret@db:port/views",
            "postgres://app:secret@db/views?sslrootcert=x",
            "postgres://app:secret@",
            "mysql://app:secret@db/views",
            "postgres:///views",
        ] {
            let error = PostgresAddress::parse(url, "reenact").expect_err("is none");
            assert!(!error.contains("secret"), "{error}");
            assert!(error.contains("postgres://USER"), "{error}");
        }
        let long = "x".repeat(64);
        for schema in ["", "pg_views", &long] {
            assert!(PostgresAddress::parse("postgres://app@db/views", schema).is_err());
        }
    }
}
