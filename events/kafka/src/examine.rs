//! What keeps a log from working on a cluster, found out by reading alone: for `reenact doctor`.
//!
//! It asks what a start asks, in the same order, and makes nothing. What only writing can show (the right to
//! write, a clock that is ahead of the broker's) is said to be left to the start.

use rdkafka::{Offset as At, admin::AdminOptions, consumer::Consumer, error::KafkaError};
use reenact_events::{LogError, PartitionId, Timestamp};

use crate::{
    ConnectError, Options,
    client::Trouble,
    connect::Session,
    reader::{self, ASK, Consuming},
    survey::Survey,
};

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// A start works, but somebody should look.
    Doubtful,
    /// A start does not work.
    Wrong,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How it went.
    pub verdict: Verdict,
    /// What is there, and what to do when it is not as it should be.
    pub text: String,
}

fn fine(check: &'static str, text: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Fine, text: text.into() }
}

fn doubtful(check: &'static str, text: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Doubtful, text: text.into() }
}

fn wrong(check: &'static str, error: &ConnectError) -> Finding {
    Finding { check, verdict: Verdict::Wrong, text: error.to_string() }
}

/// Makes all checks, in order; those that need what failed before are left out. Also whether a log is there that
/// can be read. Blocks.
#[must_use]
pub fn examine(options: &Options) -> (Vec<Finding>, bool) {
    let trouble = Trouble::default();
    let session = match Session::open(options, &trouble) {
        Ok(session) => session,
        Err(error) => return (vec![wrong("kafka settings", &error)], false),
    };
    let mut findings = vec![fine("kafka settings", "every property can be used")];
    let survey = match session.survey() {
        Ok(survey) => survey,
        // Whoever is let in and may not look at the settings was answered before.
        Err(error) => {
            findings.push(wrong("kafka brokers", &error));
            return (findings, false);
        }
    };
    findings.push(brokers(options, &survey));
    findings.extend(session.topics(&survey));
    if let Err(error) = session.refuse_another(&survey) {
        findings.push(wrong("kafka log", &error));
    }
    if survey.found.contains_key(&options.topics().events) {
        findings.push(session.beginnings(&survey));
        findings.push(session.clock(&survey));
    }
    if !survey.found.is_empty() {
        findings.push(session.reading(&survey));
    }
    findings.push(session.group());
    let is_fine = findings.iter().all(|finding| finding.verdict != Verdict::Wrong);
    (findings, is_fine && survey.missing(&options.topics()).is_empty())
}

fn brokers(options: &Options, survey: &Survey) -> Finding {
    let check = "kafka brokers";
    match survey.brokers {
        1 => doubtful(check, format!("one broker at `{}`: what it loses is lost; three lose nothing", options.brokers)),
        count => fine(check, format!("{count} brokers answer at `{}`", options.brokers)),
    }
}

impl Session<'_> {
    /// The topics that are there are as they must be, and the others can be made.
    fn topics(&self, survey: &Survey) -> Vec<Finding> {
        let (check, topics) = ("kafka topics", self.options.topics());
        if let Some(refusal) = survey.refusal(self.options) {
            return vec![wrong(check, &refusal)];
        }
        let missing = survey.missing(&topics);
        if missing.is_empty() {
            let partitions = survey.partitions(&topics).unwrap_or_default();
            return vec![fine(
                check,
                format!("`{}.*` are as they must be, {partitions} partitions", self.options.prefix),
            )];
        }
        let asking = AdminOptions::new().request_timeout(Some(ASK)).validate_only(true);
        let names: Vec<_> = missing.iter().map(|wanted| format!("`{}`", wanted.name)).collect();
        vec![match self.ask_to_create(survey, &missing, &asking) {
            Ok(()) => fine(check, format!("the first start makes {}", names.join(", "))),
            Err(error) => wrong(check, &error),
        }]
    }

    /// The events are there from the first on.
    fn beginnings(&self, survey: &Survey) -> Finding {
        let (check, topics) = ("kafka events", self.options.topics());
        let cut = || {
            let (reader, mut cut) = (self.to_the_end()?, Vec::new());
            for partition in (0..survey.partitions(&topics).unwrap_or_default()).map(PartitionId) {
                let (low, _) = reader::bounds(&reader, &topics.events, partition)?;
                if low.0 > 0 {
                    cut.push(format!("partition {partition} begins at offset {low}"));
                }
            }
            Ok::<_, LogError>(cut)
        };
        match cut() {
            Err(error) => Finding { check, verdict: Verdict::Wrong, text: error.to_string() },
            Ok(cut) if cut.is_empty() => fine(check, "every partition begins with its first event"),
            Ok(cut) => doubtful(
                check,
                format!(
                    "{}: the events before were deleted, and a node without a state or snapshot that has seen them \
                     cannot start",
                    cut.join(", ")
                ),
            ),
        }
    }

    /// An owner's clock is near the brokers': an event from the future shows that this one is behind.
    fn clock(&self, survey: &Survey) -> Finding {
        let check = "kafka clock";
        let max_ms = self.options.clock_skew_max_ms.unwrap_or(i64::MAX);
        let newest = match self.newest_event(survey) {
            Ok(newest) => newest,
            Err(error) => return Finding { check, verdict: Verdict::Wrong, text: error.to_string() },
        };
        let Some(newest) = newest else {
            return fine(check, "there is no event to compare it with; the first claim compares it with the broker's");
        };
        let behind_ms = newest.0.saturating_sub(self.options.clock.now().0);
        if behind_ms <= max_ms {
            return fine(check, "it is not behind; whether it is ahead shows at the first claim");
        }
        let text = format!(
            "this machine's clock is {behind_ms} ms behind that of whoever wrote the newest event, at most {max_ms} ms \
             are allowed: set both by NTP"
        );
        Finding { check, verdict: Verdict::Wrong, text }
    }

    fn newest_event(&self, survey: &Survey) -> Result<Option<Timestamp>, LogError> {
        let (topics, reader) = (self.options.topics(), self.to_the_end()?);
        let mut newest = None;
        for partition in (0..survey.partitions(&topics).unwrap_or_default()).map(PartitionId) {
            let bounds = reader::bounds(&reader, &topics.events, partition)?;
            let last = reader::last(&reader, &topics.events, partition, bounds)?;
            newest = newest.max(last.map(|last| last.recorded.event.at));
        }
        Ok(newest)
    }

    /// A reader that says where a topic ends.
    fn to_the_end(&self) -> Result<Consuming, LogError> {
        let mut config = self.options.reader();
        config.set("enable.partition.eof", "true");
        reader::consumer(&config, &Trouble::default())
    }

    /// Every topic that is there may be read.
    fn reading(&self, survey: &Survey) -> Finding {
        let check = "kafka rights";
        let may_read = |topic: &str| {
            let reader = self.to_the_end().map_err(|error| error.to_string())?;
            let list = reader::place(topic, PartitionId(0), At::End).map_err(|error| error.to_string())?;
            reader.assign(&list).map_err(|error| error.to_string())?;
            match reader.poll(ASK) {
                Some(Err(KafkaError::PartitionEOF(_)) | Ok(_)) => Ok(()),
                Some(Err(error)) => Err(error.to_string()),
                None => Err(format!("no answer within {} s", ASK.as_secs())),
            }
        };
        for topic in survey.found.keys() {
            if let Err(why) = may_read(topic) {
                let text = format!(
                    "topic `{topic}` cannot be read ({why}): allow this user all operations on topics that begin with \
                     `{}.`",
                    self.options.prefix
                );
                return Finding { check, verdict: Verdict::Wrong, text };
            }
        }
        fine(check, "what is there can be read; the right to write shows at the first claim")
    }

    /// The group may be joined, as far as looking at it shows.
    fn group(&self) -> Finding {
        let (check, prefix, topics) = ("kafka group", &self.options.prefix, self.options.topics());
        let looked = reader::consumer(&self.options.member(), &Trouble::default()).and_then(|consumer| {
            let failed = |error| reader::unavailable("it cannot be looked at", &error);
            let list = reader::place(&topics.commands, PartitionId(0), At::Invalid).map_err(failed)?;
            reader::patiently(|| consumer.committed_offsets(list.clone(), ASK)).map_err(failed)?;
            Ok(())
        });
        match looked {
            Ok(()) => fine(check, format!("group `{prefix}` can be looked at")),
            Err(error) => Finding {
                check,
                verdict: Verdict::Wrong,
                text: format!("group `{prefix}`: {error}; this user needs `Read` on it to be a member"),
            },
        }
    }
}
