//! The deployment's topics as the cluster has them, and whether a log may stand on them. Pure, so that a start
//! judges all of them before it makes one, and `reenact doctor` judges them the same way.

use std::collections::BTreeMap;

use crate::{
    ConnectError, Options, Topics,
    topics::{Wanted, replication_fault},
};

/// A topic that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) partitions: usize,
    /// Of the partition that has the fewest.
    pub(crate) replicas: usize,
    pub(crate) settings: BTreeMap<String, String>,
}

/// The deployment's topics that are there, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) found: BTreeMap<String, Found>,
    pub(crate) brokers: usize,
}

impl Survey {
    /// The topics that are not there.
    pub(crate) fn missing<'a>(&self, topics: &'a Topics) -> Vec<Wanted<'a>> {
        topics.wanted().into_iter().filter(|wanted| !self.found.contains_key(wanted.name)).collect()
    }

    /// How many partitions the log has, if it is there.
    pub(crate) fn partitions(&self, topics: &Topics) -> Option<u32> {
        let known = self.found.get(&topics.events).or_else(|| self.found.get(&topics.commands))?;
        u32::try_from(known.partitions).ok()
    }

    /// Why no log may stand on what is there.
    pub(crate) fn refusal(&self, options: &Options) -> Option<ConnectError> {
        let topics = options.topics();
        // Topics that are half there are a log that somebody has taken a part of: it is not made whole again.
        if self.found.contains_key(&topics.owners) && !self.found.contains_key(&topics.events) {
            let reason = format!("it is gone, and topic `{}` is there: restore it, or delete both", topics.owners);
            return Some(ConnectError::Foreign { topic: topics.events, reason });
        }
        let faults = self.faults(&topics);
        if !faults.is_empty() {
            return Some(ConnectError::UnsafeTopics { faults });
        }
        if let Some(wanted) = options.replication.filter(|wanted| usize::from(*wanted) > self.brokers)
            && options.create
            && !self.missing(&topics).is_empty()
        {
            return Some(ConnectError::TooFewBrokers { brokers: options.brokers.clone(), has: self.brokers, wanted });
        }
        let has = self.partitions(&topics).filter(|has| options.exact_partitions && *has != options.partitions)?;
        Some(ConnectError::Partitions { topic: topics.events, has, wanted: options.partitions })
    }

    /// What is wrong with the topics that are there, one sentence for each setting.
    fn faults(&self, topics: &Topics) -> Vec<String> {
        let mut faults = Vec::new();
        for wanted in topics.wanted() {
            let Some(found) = self.found.get(wanted.name) else { continue };
            let value = |name: &str| found.settings.get(name).map(String::as_str).unwrap_or_default();
            faults.extend(wanted.settings.iter().filter_map(|setting| setting.fault(wanted.name, value(setting.name))));
            if wanted.keeps {
                let in_sync = value("min.insync.replicas").parse().unwrap_or_default();
                faults.extend(replication_fault(wanted.name, found.replicas, in_sync, self.brokers));
            }
        }
        let count = |name: &str| self.found.get(name).map(|found| found.partitions);
        if let (Some(commands), Some(events)) = (count(&topics.commands), count(&topics.events))
            && commands != events
        {
            faults.push(format!(
                "topic `{}` has {commands} partitions and `{}` has {events}: they must have the same number for the \
                 log's whole life",
                topics.commands, topics.events
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reenact_events::Timestamp;

    use super::*;

    fn options(exact_partitions: bool) -> Options {
        let options = Options::new("127.0.0.1:1", Arc::new(Timestamp(0)));
        Options { prefix: "p".to_owned(), partitions: 6, exact_partitions, ..options }
    }

    /// All topics as they are made, with so many partitions.
    fn whole(partitions: usize) -> Survey {
        let found = |wanted: Wanted<'_>| {
            let settings = wanted.settings.iter().map(|setting| (setting.name.to_owned(), setting.created.to_owned()));
            let settings = settings.chain([("min.insync.replicas".to_owned(), "2".to_owned())]).collect();
            (wanted.name.to_owned(), Found { partitions, replicas: 3, settings })
        };
        Survey { found: Topics::new("p").wanted().into_iter().map(found).collect(), brokers: 3 }
    }

    #[test]
    fn a_log_with_another_number_of_partitions_than_asked_for_is_refused_with_both() {
        assert!(whole(6).refusal(&options(true)).is_none());
        assert!(whole(12).refusal(&options(false)).is_none(), "nobody asked for a number");
        let refusal = whole(12).refusal(&options(true)).expect("refused").to_string();
        assert!(refusal.contains("12") && refusal.contains("`--kafka-partitions 6`"), "{refusal}");
    }

    #[test]
    fn more_replicas_than_brokers_are_asked_for_in_vain() {
        let one = Survey { brokers: 1, ..Survey::default() };
        let asked = |replication| Options { replication: Some(replication), ..options(false) };
        let refusal = one.refusal(&asked(3)).expect("refused");
        assert!(refusal.is_passing(), "more brokers may come");
        let told = refusal.to_string();
        assert!(told.contains("`--kafka-replication 3`") && told.contains("`127.0.0.1:1` has 1"), "{told}");
        assert!(!told.contains("credentials"), "{told}");
        assert!(one.refusal(&asked(1)).is_none());
        assert!(whole(6).refusal(&asked(4)).is_none(), "nothing is to be made");
    }

    #[test]
    fn what_is_there_is_judged_also_when_something_is_missing() {
        let mut survey = whole(6);
        survey.found.remove("p.replies");
        assert_eq!(
            survey.missing(&Topics::new("p")).iter().map(|wanted| wanted.name).collect::<Vec<_>>(),
            ["p.replies"]
        );
        assert!(survey.refusal(&options(false)).is_none());
        if let Some(events) = survey.found.get_mut("p.events") {
            events.settings.insert("cleanup.policy".to_owned(), "compact".to_owned());
        }
        let refusal = survey.refusal(&options(false)).expect("refused").to_string();
        assert!(refusal.contains("`cleanup.policy=compact`"), "{refusal}");
    }

    #[test]
    fn events_that_are_gone_are_not_made_anew() {
        let mut survey = whole(6);
        survey.found.remove("p.events");
        let refusal = survey.refusal(&options(false)).expect("refused");
        assert!(matches!(refusal, ConnectError::Foreign { .. }), "{refusal}");
        assert!(Survey::default().refusal(&options(true)).is_none(), "nothing is there: it is all made");
    }
}
