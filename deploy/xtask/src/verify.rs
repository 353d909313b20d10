//! `cargo xtask verify`: every check, each with its time, all of them even after one has failed.
//!
//! What waits most of the time runs beside what computes, in lanes: downloads beside the build, tests that wait for
//! brokers and time-outs beside the others. What they print follows when they have ended.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use reenact_kafka_rig::OLDER_VERSION;

use crate::{deny, java, kafka, packages, place::Place, python, simulate::Seeds, task::Task};

const SIMULATED_SEEDS: u64 = 1_000;

/// The tests that are not in `cargo test --workspace`, because they have lanes of their own: two options for those that
/// stop nodes and brokers, then those that wait for brokers, then the simulation.
const APART: &[&str] =
    &["--test", "chaos", "--test", "log", "--test", "publishers", "--test", "product_kafka", "--test", "simulation"];

/// How many of them run at once: they wait for brokers and time-outs, so there may be more than there are cores.
const APART_AT_ONCE: &str = "3";

/// What a check does.
enum Work {
    Own(fn(&Place) -> anyhow::Result<()>),
    Command(Task),
}

struct Check {
    name: &'static str,
    work: Work,
}

/// Checks that run in order.
type Lane = Vec<Check>;

/// What runs at once: each lane of `aside` beside `seen`.
struct Phase {
    seen: Lane,
    aside: Vec<Lane>,
}

/// One phase after the other.
struct Plan(Vec<Phase>);

/// How one check went.
struct Outcome {
    name: &'static str,
    took: Duration,
    error: Option<anyhow::Error>,
}

/// Runs the checks that are named, or all, and tells which failed.
pub(crate) fn run(place: &Place, only: &[String]) -> anyhow::Result<()> {
    let began = Instant::now();
    let outcomes = plan(place).chosen(only)?.run(place)?;
    println!("\n{}", summary(&outcomes, began.elapsed()));
    let failed: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.error.is_some()).map(|outcome| outcome.name).collect();
    if !failed.is_empty() {
        bail!("{} of {} checks failed: {}", failed.len(), outcomes.len(), failed.join(", "));
    }
    Ok(())
}

fn plan(place: &Place) -> Plan {
    Plan(vec![
        Phase { seen: vec![own("packages", |place| packages::set_up(place, packages::FOR_TESTS))], aside: Vec::new() },
        built(place),
        tested(place),
    ])
}

fn own(name: &'static str, work: fn(&Place) -> anyhow::Result<()>) -> Check {
    Check { name, work: Work::Own(work) }
}

fn command(name: &'static str, task: Task) -> Check {
    Check { name, work: Work::Command(task) }
}

fn built(place: &Place) -> Phase {
    // With the tests, because their dependencies bring features: without them everything is built again.
    let build = place.cargo(&["build", "--workspace", "--bins", "--tests", "--examples"]);
    // On its own, because `--tests` lets cargo forget what is named beside it.
    let apart = place.cargo(&[&["build", "--workspace"], APART].concat());
    Phase {
        seen: vec![
            command("format", place.cargo(&["fmt", "--all", "--check"])),
            command("build", build),
            command("build-apart", apart),
        ],
        aside: vec![vec![
            own("python", |place| python::FOR_TESTS.set_up(place)),
            own("kafka", kafka::set_up),
            own("java", java::set_up),
        ]],
    }
}

fn tested(place: &Place) -> Phase {
    let all = place.cargo(&["test", "--workspace", "--no-fail-fast"]);
    let apart = |names: &[&str]| {
        let task = place.cargo(&[&["test", "--workspace", "--no-fail-fast"], names].concat());
        for_tests(task, place).env("RUST_TEST_THREADS", APART_AT_ONCE)
    };
    let older = place.cargo(&["test", "--workspace", "--test", "contract", "kafka_one"]);
    let clippy = place.cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]);
    let docs = place.cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings");
    Phase {
        seen: vec![
            command("tests", for_tests(all, place)),
            command("clippy", clippy),
            command("docs", docs),
            own("dependencies", deny::check),
        ],
        // One lane: with two, nodes and brokers on two cores wait so long for their turn that they are taken for dead.
        aside: vec![vec![
            command("chaos", apart(&APART[..2])),
            command("brokers", apart(&APART[2..8])),
            // The oldest Kafka that is promised; everything else runs on the one that is pinned.
            command("kafka-older", older.env("REENACT_KAFKA_VERSION", OLDER_VERSION)),
            command("simulation", for_tests(Seeds::first(SIMULATED_SEEDS).task(place), place)),
        ]],
    }
}

/// Tells the tests where the product, Agno's client and the examples for the JVM are.
fn for_tests(task: Task, place: &Place) -> Task {
    let task = task.env("REENACT_BIN", place.product()).env("REENACT_PYTHON", python::FOR_TESTS.interpreter(place));
    task.env("REENACT_JAVA_EXAMPLES", java::folder(place))
}

impl Plan {
    fn chosen(mut self, only: &[String]) -> anyhow::Result<Self> {
        let lanes = || self.0.iter().flat_map(|phase| [&phase.seen].into_iter().chain(&phase.aside));
        let names: Vec<_> = lanes().flatten().map(|check| check.name).collect();
        if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
            bail!("there is no check `{unknown}`, only {}", names.join(", "));
        }
        for phase in &mut self.0 {
            for checks in [&mut phase.seen].into_iter().chain(&mut phase.aside) {
                checks.retain(|check| only.is_empty() || only.iter().any(|chosen| chosen == check.name));
            }
        }
        Ok(self)
    }

    fn run(self, place: &Place) -> anyhow::Result<Vec<Outcome>> {
        let logs = place.tools("verify");
        fs::create_dir_all(&logs).with_context(|| format!("`{}` cannot be made", logs.display()))?;
        let mut outcomes = Vec::new();
        for phase in self.0 {
            outcomes.extend(phase.run(place, &logs)?);
        }
        Ok(outcomes)
    }
}

impl Phase {
    fn run(self, place: &Place, logs: &Path) -> anyhow::Result<Vec<Outcome>> {
        thread::scope(|scope| {
            let beside = |lane: Lane| {
                scope.spawn(move || lane.into_iter().map(|check| check.run_aside(place, logs)).collect::<Vec<_>>())
            };
            let lanes: Vec<_> = self.aside.into_iter().map(beside).collect();
            let mut outcomes: Vec<_> = self.seen.into_iter().map(|check| check.run(place)).collect();
            for lane in lanes {
                outcomes.extend(lane.join().map_err(|_| anyhow!("what ran beside the others panicked"))?);
            }
            Ok(outcomes)
        })
    }
}

impl Check {
    fn run(self, place: &Place) -> Outcome {
        println!("\n── {}", self.name);
        self.timed(|work| match work {
            Work::Own(work) => work(place),
            Work::Command(task) => {
                println!("$ {}", task.line());
                task.run()
            }
        })
    }

    /// Prints what it said when it has ended; what is our own says little, at once.
    fn run_aside(self, place: &Place, logs: &Path) -> Outcome {
        if matches!(self.work, Work::Own(_)) {
            return self.run(place);
        }
        let (name, log) = (self.name, logs.join(self.name));
        println!("\n── {name} runs beside what follows, into `{}`", log.display());
        let outcome = self.timed(|work| match work {
            Work::Own(work) => work(place),
            Work::Command(task) => task.output_to(&File::create(&log)?)?.run(),
        });
        println!("\n── {name}");
        let printed = File::open(&log).and_then(|mut log| io::copy(&mut log, &mut io::stdout().lock()));
        if let Err(error) = printed {
            println!("what it said cannot be read from `{}`: {error}", log.display());
        }
        outcome
    }

    fn timed(self, run: impl FnOnce(Work) -> anyhow::Result<()>) -> Outcome {
        let start = Instant::now();
        let error = run(self.work).err();
        if let Some(error) = &error {
            println!("{}: {error:#}", self.name);
        }
        Outcome { name: self.name, took: start.elapsed(), error }
    }
}

fn summary(outcomes: &[Outcome], total: Duration) -> String {
    let mut text = String::from("── summary\n");
    for Outcome { name, took, error } in outcomes {
        let verdict = if error.is_some() { "FAILED" } else { "ok" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14} {verdict:<7} {:>7.1} s", took.as_secs_f64());
    }
    let _ = write!(text, "{:<14} {:<7} {:>7.1} s", "all", "", total.as_secs_f64());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_failed() {
        let took = Duration::from_millis(1_500);
        let outcomes = [
            Outcome { name: "format", took, error: None },
            Outcome { name: "clippy", took, error: Some(anyhow::anyhow!("no")) },
        ];
        assert_eq!(
            summary(&outcomes, took * 2),
            "── summary\n\
             format         ok          1.5 s\n\
             clippy         FAILED      1.5 s\n\
             all                        3.0 s"
        );
    }
}
