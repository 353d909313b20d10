//! The states: each node scrubs its own, and the erasure waits for those that own partitions.
//!
//! A partition that changes hands meanwhile might be restored from a snapshot that was not removed yet. So it counts
//! only when the same nodes own the same partitions, under the same claims, before it was asked for and after all did it.

use std::time::{Duration, Instant};

use reenact_events::{NodeId, Owner, keys::Scrubs};

use super::{PAUSE, Trouble, report::Done, work::Work};

/// How long it is waited for before something else is done in between.
const WITHIN: Duration = Duration::from_secs(10);

/// What was asked of all nodes.
pub(super) struct Round {
    number: u64,
    /// Who owned what just before.
    owners: Vec<Owner>,
}

/// Nodes that own partitions and have not done a round, by name.
fn missing<'r>(scrubs: &Scrubs, round: &'r Round) -> Vec<&'r NodeId> {
    let mut names: Vec<_> = round.owners.iter().map(|owner| &owner.node).collect();
    names.sort();
    names.dedup();
    names.retain(|name| scrubs.done.get(*name).is_none_or(|done| *done < round.number));
    names
}

fn listed<'n>(names: impl IntoIterator<Item = &'n NodeId>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl Work<'_> {
    pub(super) async fn scrub_states(&self) -> Result<Done, Trouble> {
        let mut rounds = self.erasures.rounds.lock().await;
        let round = match rounds.remove(&self.user) {
            Some(round) => round,
            None => self.ask().await?,
        };
        self.erasures.scrub.notify_one();
        let waited = self.wait(&round).await?;
        self.check_owners(&round.owners).await?;
        match waited {
            Ok(scrubs) => Ok(told(&scrubs, &round)),
            Err(trouble) => {
                rounds.insert(self.user.clone(), round);
                Err(trouble)
            }
        }
    }

    async fn ask(&self) -> Result<Round, Trouble> {
        let owners = self.services.log.owners().await?;
        Ok(Round { number: self.erasures.ring.table().ask_scrub().await?, owners })
    }

    /// How far everybody is once all owners have done a round, or whom it is waited for.
    async fn wait(&self, round: &Round) -> Result<Result<Scrubs, Trouble>, Trouble> {
        let began = Instant::now();
        loop {
            let scrubs = self.erasures.ring.table().scrubs().await?;
            let missing = missing(&scrubs, round);
            if missing.is_empty() {
                return Ok(Ok(scrubs));
            }
            if began.elapsed() > WITHIN {
                let missing = listed(missing);
                return Ok(Err(Trouble(format!(
                    "nodes that own partitions have not scrubbed their states yet: {missing}"
                ))));
            }
            tokio::time::sleep(PAUSE.1).await;
        }
    }

    async fn check_owners(&self, before: &[Owner]) -> Result<(), Trouble> {
        let now = self.services.log.owners().await?;
        let changed =
            || Trouble("partitions changed hands while states were scrubbed: it is asked for once more".to_owned());
        if now == before { Ok(()) } else { Err(changed()) }
    }
}

/// What is said of a round that all owners have done.
fn told(scrubs: &Scrubs, round: &Round) -> Done {
    let (done, others): (Vec<_>, Vec<_>) = scrubs.done.iter().partition(|(_, done)| **done >= round.number);
    let done = listed(done.into_iter().map(|(name, _)| name));
    let runs = "runs of theirs in sessions that belong to nobody, until the states are folded anew: stop the node and \
                remove `state` in its data directory";
    let remains = if others.is_empty() {
        runs.to_owned()
    } else {
        let others = listed(others.into_iter().map(|(name, _)| name));
        format!(
            "{runs}; the data directories of nodes that own nothing now, which scrub before they serve again: {others}"
        )
    };
    (
        format!(
            "snapshots removed, and the stores of states of {} partitions written anew, by {done}",
            round.owners.len()
        ),
        Some(remains),
    )
}

#[cfg(test)]
mod tests {
    use reenact_events::{PartitionId, Term};

    use super::*;

    fn owner(partition: u32, node: &str) -> Owner {
        Owner { partition: PartitionId(partition), term: Term(1), node: NodeId::trusted(node), endpoint: None }
    }

    #[test]
    fn owners_are_waited_for_and_the_others_are_named() {
        let owners = vec![owner(0, "a"), owner(1, "b"), owner(2, "a")];
        let round = Round { number: 3, owners };
        let done = |nodes: &[(&str, u64)]| Scrubs {
            asked: 3,
            done: nodes.iter().map(|(node, round)| (NodeId::trusted(node), *round)).collect(),
        };
        assert_eq!(listed(missing(&done(&[]), &round)), "`a`, `b`");
        assert_eq!(listed(missing(&done(&[("a", 3), ("b", 2)]), &round)), "`b`");
        let all = done(&[("a", 3), ("b", 4), ("c", 1)]);
        assert!(missing(&all, &round).is_empty());
        let (done, remains) = told(&all, &round);
        assert!(done.ends_with("by `a`, `b`") && remains.is_some_and(|remains| remains.ends_with("again: `c`")));
    }
}
