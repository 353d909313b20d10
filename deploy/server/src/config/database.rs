//! Where the views are, from what is configured.

use reenact_projections::PostgresAddress;

use super::{ConfigError, Layers, LogPlace};

/// The schema where nothing else names the deployment.
const SCHEMA: &str = "reenact";

/// Where the views are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewsPlace {
    /// In a file in the data directory.
    Sqlite,
    /// On a server that nodes share.
    Postgres(Box<PostgresAddress>),
}

pub(super) fn views_place(layers: &Layers, log: &LogPlace) -> Result<ViewsPlace, ConfigError> {
    let url = layers.text("database").trim();
    if url == "sqlite" {
        return Ok(ViewsPlace::Sqlite);
    }
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        let reason = "it must be `sqlite` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`";
        return Err(layers.refuse("database", reason.to_owned()));
    }
    let schema = match (layers.text("database-schema").trim(), log) {
        ("", LogPlace::Kafka(_)) => layers.text("topic-prefix").trim(),
        ("", LogPlace::Embedded) => SCHEMA,
        (schema, _) => schema,
    };
    let address = PostgresAddress::parse(url, schema).map_err(|reason| layers.refuse("database", reason))?;
    Ok(ViewsPlace::Postgres(Box::new(address)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn place(flags: &[(&'static str, &str)]) -> Result<ViewsPlace, ConfigError> {
        let flags = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Config::from_layers(&Layers::resolve(&flags, &|_| None, None)?).map(|config| config.views)
    }

    fn shown(flags: &[(&'static str, &str)]) -> String {
        format!("{:?}", place(flags).unwrap())
    }

    #[test]
    fn a_deployment_on_kafka_has_the_schema_of_its_topics() {
        let database = ("database", "postgres://app:hush@db/views");
        let kafka = [("log", "kafka://broker:9092"), ("topic-prefix", "acme")];
        assert!(shown(&[database]).contains("schema reenact"));
        assert!(shown(&[database, kafka[0], kafka[1]]).contains("schema acme"));
        assert!(shown(&[database, kafka[0], kafka[1], ("database-schema", "own")]).contains("schema own"));
        assert!(!shown(&[database]).contains("hush"));
        assert_eq!(place(&[]).unwrap(), ViewsPlace::Sqlite);
    }

    #[test]
    fn a_refused_url_is_named_without_its_password() {
        for url in ["mysql://app:hush@db/views", "postgres://app:hush@db:port/views", "postgres://db/views", "views.db"]
        {
            let error = place(&[("database", url)]).unwrap_err().to_string();
            assert!(error.contains("`database`") && error.contains("postgres://USER"), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
