//! `reenact log accept-loss`: what a partition has lost, told exactly, and accepted when somebody says so.

use anyhow::{Context, bail};
use chrono::{DateTime, SecondsFormat};
use clap::Args;
use reenact_events::{
    Offset, PartitionId, Timestamp,
    event::{Loss, LossOf},
};
use serde_json::json;

use super::{
    evidence::{self, Witness},
    survey::{OpenRun, Survey},
    target::Target,
};
use crate::cli::{
    log_source::At,
    output::{self, kind, table},
};

/// Said when only a state store could tell more, and a node is at work on it.
const NOTHING_TOLD: &str = "nothing is lost as far as the log itself can tell, and a state store cannot be asked while a node uses it: stop \
     that node first";

/// Show what a partition has lost, or accept it.
///
/// The nodes refuse such a partition, because going on would do again what was done. Accepting is one event of the
/// log: with it each run that is open there ends with `history_lost`, and none of its tools is called again.
#[derive(Debug, Args)]
pub(in crate::cli) struct AcceptLoss {
    /// Which, as the refusal names it.
    #[arg(long, value_name = "NUMBER")]
    partition: u32,
    /// Accept what is shown; without it nothing is changed.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    at: At,
}

/// What is lost and what is left.
struct Found {
    partition: PartitionId,
    /// As the log itself tells.
    told: Vec<Loss>,
    /// As a state store or a snapshot tells.
    seen: Vec<Loss>,
    left: Survey,
    /// Why the state store that is there was not asked.
    unasked: Option<String>,
}

impl AcceptLoss {
    pub(in crate::cli) async fn execute(self, json: bool) -> anyhow::Result<()> {
        let (config, partition) = (self.at.config()?, PartitionId(self.partition));
        let target = Target::open(&config).await?;
        let told = target.lost(partition).await.context("this cannot be accepted")?;
        let left = Survey::of(target.log(), partition).await?;
        // A node that refuses what the log itself tells goes on by itself, so it may be up, and have its directory.
        let held = target.hold_state(&config);
        let held = if told.is_empty() { Ok(held.context(NOTHING_TOLD)?) } else { held };
        let witness = match held {
            Ok(_) => evidence::witness(&config, target.log(), partition, &left).await?,
            Err(_) => None,
        };
        let unasked = held.err().map(|error| format!("{error:#}"));
        let found = Found { unasked, ..Found::of(partition, told, witness.as_ref(), left) };
        if found.losses().next().is_none() {
            return found.nothing(json);
        }
        if !self.yes {
            return found.tell(json, None);
        }
        if found.told.is_empty() {
            let alive = target.served_by().await?;
            if !alive.is_empty() {
                bail!(
                    "nodes are alive that may be serving partition {partition}: stop all nodes of this log first ({})",
                    alive.join(", ")
                );
            }
        }
        let lease = target.accept(partition, found.told.clone(), found.seen.clone()).await?;
        found.tell(json, Some(lease.claim_offset()))
    }
}

impl Found {
    /// Where the log itself tells of lost events, a witness only names the runs among them.
    fn of(partition: PartitionId, mut told: Vec<Loss>, witness: Option<&Witness>, left: Survey) -> Self {
        let seen = match (told.iter_mut().find(|loss| loss.of == LossOf::Events), witness) {
            (Some(loss), Some(witness)) => {
                loss.runs = witness.runs(&left);
                None
            }
            (None, Some(witness)) => Some(witness.loss(&left)),
            (_, None) => None,
        };
        Self { partition, told, seen: seen.into_iter().collect(), left, unasked: None }
    }

    fn losses(&self) -> impl Iterator<Item = &Loss> {
        self.told.iter().chain(&self.seen)
    }

    /// Nothing is lost, or nothing any more.
    fn nothing(&self, json: bool) -> anyhow::Result<()> {
        let partition = self.partition;
        match &self.left.last {
            Some(last) if self.left.is_accepted && json => self.tell(json, Some(last.offset)),
            Some(last) if self.left.is_accepted => {
                let offset = last.offset;
                output::lines([format!("what partition {partition} had lost was accepted already, at offset {offset}")])
            }
            _ => bail!(
                "nothing is lost in partition {partition}, as far as can be told from here. When a node refuses it \
                 because of its state store or of a snapshot, run this with that node's configuration (`--data`)"
            ),
        }
    }

    fn tell(&self, json: bool, accepted: Option<Offset>) -> anyhow::Result<()> {
        if json { output::json(&self.value(accepted)) } else { output::lines(self.lines(accepted)) }
    }

    fn lines(&self, accepted: Option<Offset>) -> Vec<String> {
        let partition = self.partition;
        let mut lines = vec![format!("partition  {partition}")];
        lines.push(match &self.left.last {
            None => "kept       nothing".to_owned(),
            Some(last) => {
                let at = time(last.event.at);
                format!("kept       events up to offset {} of term {}, the last of {at}", last.offset, last.term)
            }
        });
        lines.extend(self.losses().map(|loss| {
            let what = named(loss.of);
            format!("lost       {what} from offset {} to before {}: {}", loss.from, loss.until, loss.reason)
        }));
        if self.losses().any(|loss| loss.of == LossOf::Events) {
            let (left, gone) = (self.left.open.len(), self.losses().map(|loss| loss.runs.len()).sum::<usize>());
            lines.push(format!(
                "open runs  {left} of which events are left, {gone} of which none is, as far as is known"
            ));
            let row = |(run, open): (_, &OpenRun)| {
                let last = kind(&open.last).to_owned();
                vec![format!("{run}"), open.session.to_string(), last, time(open.at)]
            };
            let mut rows: Vec<_> = self.left.open.iter().map(row).collect();
            rows.extend(self.losses().flat_map(|loss| &loss.runs).map(|run| {
                vec![run.run_id.to_string(), run.session_id.to_string(), "none is left".to_owned(), time(run.queued_at)]
            }));
            if !rows.is_empty() {
                lines.extend(table(&["RUN", "SESSION", "LAST EVENT", "TIME"], &rows));
            }
        }
        if let Some(why) = &self.unasked {
            lines.push(format!(
                "NOT ASKED  the state store, which alone knows of runs of which no event is left: {why}. To have them \
                 named, stop the node and say this again before anything is accepted"
            ));
        }
        lines.push(match accepted {
            Some(offset) => format!(
                "accepted with the event at offset {offset}, which names the runs of which no event is left: nobody \
                 will know them. The next node that takes partition {partition} ends the others that are open with \
                 `history_lost`"
            ),
            None => "nothing is changed: say `--yes` to go on without what is lost".to_owned(),
        });
        lines
    }

    fn value(&self, accepted: Option<Offset>) -> serde_json::Value {
        let run = |(run, open): (_, &OpenRun)| {
            json!({
                "run_id": run, "session_id": open.session, "last_event": &*open.last, "last_event_at": time(open.at),
            })
        };
        let last = self.left.last.as_ref();
        json!({
            "partition": self.partition,
            "last": last.map(|last| {
                json!({ "offset": last.offset, "term": last.term, "time": time(last.event.at) })
            }),
            "lost": self.losses().collect::<Vec<_>>(),
            "open_runs": self.left.open.iter().map(run).collect::<Vec<_>>(),
            "state_not_asked": self.unasked,
            "accepted_at": accepted,
        })
    }
}

fn named(of: LossOf) -> &'static str {
    match of {
        LossOf::Events => "events",
        LossOf::Commands => "commands",
    }
}

fn time(at: Timestamp) -> String {
    DateTime::from_timestamp_millis(at.0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}
