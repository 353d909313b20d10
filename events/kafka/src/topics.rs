//! The deployment's topics: what they are called, how they must be set, and why.

/// The names of the deployment's topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topics {
    /// What anybody asks.
    pub commands: String,
    /// What happened.
    pub events: String,
    /// What publishers are told.
    pub replies: String,
    /// Words of unfinished answers.
    pub live: String,
    /// Records of the command topic that are no commands.
    pub dead_letter: String,
    /// Who owns what; its first record names the log.
    pub owners: String,
}

impl Topics {
    /// The topics of the deployment that this prefix names.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        let name = |topic: &str| format!("{prefix}.{topic}");
        Self {
            commands: name("commands"),
            events: name("events"),
            replies: name("replies"),
            live: name("live"),
            dead_letter: name("dead-letter"),
            owners: name("owners"),
        }
    }

    /// Each topic with how it must be.
    pub(crate) fn wanted(&self) -> Vec<Wanted<'_>> {
        let per_partition = |name, settings| Wanted { name, partitions: Partitions::AsTheLog, settings, keeps: true };
        let few = |name, partitions, settings, keeps| Wanted {
            name,
            partitions: Partitions::Few(partitions),
            settings,
            keeps,
        };
        vec![
            per_partition(&self.commands, COMMANDS),
            per_partition(&self.events, EVENTS),
            // One, so that answers come in the order of their commits.
            few(&self.replies, 1, REPLIES, true),
            few(&self.live, 3, LIVE, false),
            few(&self.dead_letter, 1, DEAD_LETTER, true),
            few(&self.owners, 1, OWNERS, true),
        ]
    }
}

/// How a topic must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) partitions: Partitions,
    pub(crate) settings: &'static [Setting],
    /// What it holds must survive a broker.
    pub(crate) keeps: bool,
}

/// How many partitions a topic has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partitions {
    /// As many as the log.
    AsTheLog,
    /// So many when it is created; any number is right.
    Few(i32),
}

/// A topic's setting: what it is created with, what is required, and why.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) created: &'static str,
    required: Option<(Rule, &'static str)>,
}

#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Just this.
    Is(&'static str),
    /// At least this number; -1 is endless.
    AtLeast(i64),
}

const fn must(name: &'static str, value: &'static str, why: &'static str) -> Setting {
    Setting { name, created: value, required: Some((Rule::Is(value), why)) }
}

const fn at_least(name: &'static str, created: &'static str, least: i64, why: &'static str) -> Setting {
    Setting { name, created, required: Some((Rule::AtLeast(least), why)) }
}

const fn made(name: &'static str, created: &'static str) -> Setting {
    Setting { name, created, required: None }
}

/// The longest name that Kafka gives a topic.
const NAME_BYTES_MAX: usize = 249;
const EVENT_RECORD_BYTES: i64 = 640 * 1024;
const DAY_MS: i64 = 86_400_000;

const NO_UNCLEAN: Setting = must(
    "unclean.leader.election.enable",
    "false",
    "a replica that is behind must never become the leader: it would take acknowledged records back",
);
const COMMANDS: &[Setting] = &[
    must("cleanup.policy", "delete", "compaction would drop commands that share a key"),
    at_least("retention.ms", "604800000", DAY_MS, "a command must outlive an outage of a day"),
    at_least("retention.bytes", "-1", i64::MAX, "commands that were not read yet must not be dropped"),
    // A file that is written to is kept whole, also when all that is in it was deleted.
    made("segment.ms", "86400000"),
    at_least("max.message.bytes", "1048588", EVENT_RECORD_BYTES, "a command may have 512 KiB beside its headers"),
    NO_UNCLEAN,
];
const EVENTS: &[Setting] = &[
    must("cleanup.policy", "delete", "compaction would destroy history"),
    at_least("retention.ms", "-1", i64::MAX, "events are the truth and are kept for ever"),
    at_least("retention.bytes", "-1", i64::MAX, "events are the truth and are kept for ever"),
    at_least("max.message.bytes", "1048588", EVENT_RECORD_BYTES, "an event may have 512 KiB beside its headers"),
    must("message.timestamp.type", "LogAppendTime", "a moment must be found again by time"),
    NO_UNCLEAN,
];
const REPLIES: &[Setting] = &[
    must("cleanup.policy", "delete", "every answer stands for itself"),
    at_least("retention.ms", "86400000", 600_000, "a publisher must have time to read its answer"),
];
const LIVE: &[Setting] = &[
    must("cleanup.policy", "delete", "every frame stands for itself"),
    made("retention.ms", "900000"),
    made("segment.ms", "900000"),
];
const DEAD_LETTER: &[Setting] = &[
    must("cleanup.policy", "delete", "every dead letter stands for itself"),
    at_least("retention.ms", "-1", 7 * DAY_MS, "a dead letter must wait for somebody to look"),
    at_least("max.message.bytes", "2097152", 2_000_000, "a dead letter is a whole record with headers of ours"),
    NO_UNCLEAN,
];
const OWNERS: &[Setting] = &[must("cleanup.policy", "compact", "only the latest owner of a partition counts")];

impl Setting {
    /// What is wrong with the value that the topic has, if anything is.
    pub(crate) fn fault(&self, topic: &str, value: &str) -> Option<String> {
        let (rule, why) = self.required?;
        let (fits, wanted) = match rule {
            Rule::Is(wanted) => (value.eq_ignore_ascii_case(wanted), wanted.to_owned()),
            Rule::AtLeast(i64::MAX) => (value == "-1", "-1".to_owned()),
            Rule::AtLeast(least) => {
                let enough = value.parse::<i64>().is_ok_and(|value| value == -1 || value >= least);
                (enough, format!("at least {least}"))
            }
        };
        let name = self.name;
        let text = || format!("topic `{topic}` has `{name}={value}`, which must be {wanted}: {why}");
        (!fits).then(text)
    }
}

/// What is wrong with names that begin so, if anything is. Kafka's rules: a name is also a folder's.
pub(crate) fn prefix_fault(prefix: &str) -> Option<String> {
    let is_legal = |character: &char| character.is_ascii_alphanumeric() || ".-_".contains(*character);
    if let Some(character) = prefix.chars().find(|character| !is_legal(character)) {
        let escaped = character.escape_debug();
        return Some(format!("`{escaped}` is none of the letters `a`-`z`, `A`-`Z`, the digits, `.`, `_` and `-`"));
    }
    let topics = Topics::new(prefix);
    let longest = topics.wanted().iter().map(|wanted| wanted.name.len()).max().unwrap_or_default();
    let over = longest.saturating_sub(NAME_BYTES_MAX);
    (over > 0).then(|| {
        let most = prefix.len().saturating_sub(over);
        format!("it has {} characters, and a topic's name has room for {most}", prefix.len())
    })
}

/// What is wrong with a topic's replicas on a cluster of so many brokers, if anything is. A cluster of one
/// broker can have no second replica.
pub(crate) fn replication_fault(topic: &str, replicas: usize, in_sync: i64, brokers: usize) -> Option<String> {
    let least = brokers.min(3);
    if replicas < least {
        return Some(format!(
            "topic `{topic}` has {replicas} replicas, which must be at least {least} on {brokers} brokers: a broker \
             that dies would take acknowledged records with it"
        ));
    }
    let least = if replicas >= 3 { 2 } else { 1 };
    (in_sync < least).then(|| {
        format!(
            "topic `{topic}` has `min.insync.replicas={in_sync}`, which must be at least {least} with {replicas} \
             replicas: an acknowledged record must be on more than one broker"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(topic: &str, name: &str, value: &str) -> Option<String> {
        let topics = Topics::new("p");
        let wanted = topics.wanted().into_iter().find(|wanted| wanted.name == topic).expect(topic);
        wanted.settings.iter().find(|setting| setting.name == name).expect(name).fault(topic, value)
    }

    #[test]
    fn what_a_topic_is_created_with_is_what_it_must_be() {
        for wanted in Topics::new("p").wanted() {
            for setting in wanted.settings {
                assert_eq!(setting.fault(wanted.name, setting.created), None);
            }
        }
    }

    #[test]
    fn an_unsafe_setting_is_named_with_the_reason() {
        for (topic, name, value) in [
            ("p.events", "cleanup.policy", "compact"),
            ("p.events", "retention.ms", "604800000"),
            ("p.events", "max.message.bytes", "1000"),
            ("p.commands", "retention.ms", "1000"),
            ("p.events", "unclean.leader.election.enable", "true"),
        ] {
            let fault = fault(topic, name, value).expect(name);
            assert!(fault.contains(topic) && fault.contains(&format!("`{name}={value}`")), "{fault}");
        }
        assert_eq!(fault("p.commands", "retention.ms", "-1"), None);
    }

    #[test]
    fn a_prefix_that_kafka_would_not_take_is_told_with_the_rule() {
        for fine in ["reenact", "team.a_b-7", &"x".repeat(237)] {
            assert_eq!(prefix_fault(fine), None);
        }
        assert!(prefix_fault("a b").is_some_and(|fault| fault.contains("` `") && fault.contains("`a`-`z`")));
        assert!(prefix_fault("zoë").is_some_and(|fault| fault.contains("`ë`")));
        assert!(prefix_fault(&"x".repeat(238)).is_some_and(|fault| fault.contains("room for 237")));
    }

    #[test]
    fn one_broker_needs_no_second_replica_and_three_do() {
        assert_eq!(replication_fault("t", 1, 1, 1), None);
        assert_eq!(replication_fault("t", 3, 2, 3), None);
        assert_eq!(replication_fault("t", 3, 2, 9), None);
        assert!(replication_fault("t", 1, 1, 3).is_some_and(|fault| fault.contains("at least 3")));
        assert!(replication_fault("t", 3, 1, 3).is_some_and(|fault| fault.contains("min.insync.replicas=1")));
    }
}
