//! `reenact dead-letters`: records of the command topic that are no commands.

use clap::{Args, Subcommand};

use super::log_source::At;
use crate::config::{Kafka, LogPlace};

/// List dead letters, show one, send one again.
#[derive(Debug, Subcommand)]
pub(super) enum DeadLetters {
    /// List them, oldest first.
    List(List),
    /// Show one with its value and headers.
    Show(Show),
    /// Put one among the commands again, with another value if one is given; it stays among the dead letters, and
    /// is refused while it is still no command.
    Redrive(Redrive),
}

/// List dead letters.
#[derive(Debug, Args)]
pub(super) struct List {
    /// From this number on.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    from: u64,
    #[command(flatten)]
    at: At,
}

/// Show a dead letter.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// Its number, as the list tells it.
    number: u64,
    #[command(flatten)]
    at: At,
}

/// Send a dead letter again.
#[derive(Debug, Args)]
pub(super) struct Redrive {
    /// Its number, as the list tells it.
    number: u64,
    /// A file with what is sent in place of its value.
    #[arg(long, value_name = "FILE")]
    value: Option<std::path::PathBuf>,
    #[command(flatten)]
    at: At,
}

impl DeadLetters {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        let at = match &self {
            Self::List(List { at, .. }) | Self::Show(Show { at, .. }) | Self::Redrive(Redrive { at, .. }) => at,
        };
        match at.place()? {
            LogPlace::Kafka(kafka) => on_kafka::execute(self, kafka, json).await,
            LogPlace::Embedded => anyhow::bail!(
                "an embedded log takes no commands from outside and has no dead letters: say where the topics are \
                 with `--log kafka://HOST:PORT`"
            ),
        }
    }
}

#[cfg(not(feature = "kafka"))]
mod on_kafka {
    use super::{DeadLetters, Kafka};

    pub(super) async fn execute(_: DeadLetters, kafka: Kafka, _: bool) -> anyhow::Result<()> {
        Err(crate::wiring::log::no_kafka(&kafka.brokers))
    }
}

#[cfg(feature = "kafka")]
mod on_kafka {
    use std::sync::Arc;

    use anyhow::{Context, anyhow};
    use chrono::{DateTime, SecondsFormat};
    use reenact_events::EventLog;
    use reenact_kafka::{KafkaLog, Letter, Options, letters, redrive};
    use serde_json::{Value, json};

    use super::{DeadLetters, Kafka};
    use crate::{
        cli::output::{self, short, table},
        clock::SystemClock,
        wiring::log::kafka_options,
    };

    pub(super) async fn execute(command: DeadLetters, kafka: Kafka, json: bool) -> anyhow::Result<()> {
        let options =
            Options { create: false, exact_partitions: false, ..kafka_options(&kafka, Arc::new(SystemClock), None) };
        // Says what is wrong when there is no such deployment, and how many partitions it has.
        let partitions = KafkaLog::connect(options.clone()).await?.partitions();
        let work = move || match command {
            DeadLetters::List(list) => tell(&letters(&options, list.from)?, json),
            DeadLetters::Show(show) => describe(&one(&options, show.number)?, json),
            DeadLetters::Redrive(again) => {
                let letter = one(&options, again.number)?;
                let value = again.value.as_ref().map(std::fs::read).transpose();
                let value = value.with_context(|| format!("{:?} cannot be read", again.value.unwrap_or_default()))?;
                let command = redrive(&options, &letter, value.as_deref(), partitions)
                    .with_context(|| format!("dead letter {} was not sent again", again.number))?;
                redriven(again.number, command.as_str(), json)
            }
        };
        tokio::task::spawn_blocking(work).await.context("the command was stopped")?
    }

    fn redriven(number: u64, command: &str, json: bool) -> anyhow::Result<()> {
        if json {
            return output::json(&json!({"number": number, "command_id": command}));
        }
        output::lines([format!(
            "dead letter {number} is among the commands again, as command `{command}`; if that took effect before, \
             nothing happens"
        )])
    }

    fn one(options: &Options, number: u64) -> anyhow::Result<Letter> {
        let found = letters(options, number)?.into_iter().next().filter(|letter| letter.number == number);
        found.ok_or_else(|| anyhow!("there is no dead letter {number}: `reenact dead-letters list` shows them"))
    }

    fn tell(letters: &[Letter], json: bool) -> anyhow::Result<()> {
        if json {
            return output::lines(letters.iter().map(|letter| value(letter).to_string()));
        }
        let row = |letter: &Letter| {
            let from = format!("{}/{} {}", letter.topic, letter.letter.partition, letter.letter.offset);
            let value = String::from_utf8_lossy(letter.letter.value.as_deref().unwrap_or_default()).into_owned();
            let (code, reason) = (letter.letter.code.to_string(), short(&letter.letter.reason, 80));
            vec![letter.number.to_string(), time(letter), from, code, reason, short(&value, 40)]
        };
        let rows: Vec<_> = letters.iter().map(row).collect();
        output::lines(table(&["NUMBER", "TIME", "FROM", "CODE", "REASON", "VALUE"], &rows))?;
        output::lines([format!("{} dead letters", letters.len())])
    }

    fn describe(letter: &Letter, json: bool) -> anyhow::Result<()> {
        if json {
            return output::json(&value(letter));
        }
        let text =
            |bytes: Option<&[u8]>| bytes.map_or("-".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned());
        let known = &letter.letter;
        let mut lines = vec![
            format!("number   {}", letter.number),
            format!("time     {}", time(letter)),
            format!("from     {} partition {} offset {}", letter.topic, known.partition, known.offset),
            format!("code     {}", known.code),
            format!("reason   {}", known.reason),
            format!("key      {}", text(known.key.as_deref())),
        ];
        lines.extend(known.headers.iter().map(|(name, value)| format!("header   {name}: {}", text(value.as_deref()))));
        lines.push(format!("value    {}", text(known.value.as_deref())));
        output::lines(lines)
    }

    fn time(letter: &Letter) -> String {
        DateTime::from_timestamp_millis(letter.at_ms).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Secs, true)
    }

    /// Bytes that are no text are told in base64.
    fn bytes(bytes: Option<&[u8]>) -> Value {
        use base64::{Engine, engine::general_purpose::STANDARD};
        match bytes.map(|bytes| (std::str::from_utf8(bytes), bytes)) {
            None => Value::Null,
            Some((Ok(text), _)) => json!(text),
            Some((Err(_), bytes)) => json!({"base64": STANDARD.encode(bytes)}),
        }
    }

    fn value(letter: &Letter) -> Value {
        let known = &letter.letter;
        let headers: Vec<_> =
            known.headers.iter().map(|(name, value)| json!([name, bytes(value.as_deref())])).collect();
        json!({
            "number": letter.number,
            "time": time(letter),
            "topic": letter.topic,
            "partition": known.partition,
            "offset": known.offset,
            "code": &*known.code,
            "reason": &*known.reason,
            "key": bytes(known.key.as_deref()),
            "headers": headers,
            "value": bytes(known.value.as_deref()),
        })
    }
}
