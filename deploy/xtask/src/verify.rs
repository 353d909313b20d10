//! `cargo xtask verify`: every check, each with its time, all of them even after one has failed.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use anyhow::bail;
use reenact_kafka_rig::OLDER_VERSION;

use crate::{deny, java, kafka, packages, place::Place, python, simulate::Seeds, task::Task};

const SIMULATED_SEEDS: u64 = 1_000;

/// What a check does.
type Check = Box<dyn FnOnce(&Place) -> anyhow::Result<()>>;
/// Checks by their names, in the order of running.
type Checks = Vec<(&'static str, Check)>;

/// How one check went.
struct Outcome {
    name: &'static str,
    took: Duration,
    error: Option<anyhow::Error>,
}

/// Runs the checks that are named, or all, and tells which failed.
pub(crate) fn run(place: &Place, only: &[String]) -> anyhow::Result<()> {
    let checks = chosen(checks(place), only)?;
    let count = checks.len();
    let numbered = checks.into_iter().enumerate();
    let outcomes: Vec<_> =
        numbered.map(|(index, (name, check))| run_one(place, name, check, &format!("{}/{count}", index + 1))).collect();
    println!("\n{}", summary(&outcomes));
    let failed: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.error.is_some()).map(|outcome| outcome.name).collect();
    if !failed.is_empty() {
        bail!("{} of {count} checks failed: {}", failed.len(), failed.join(", "));
    }
    Ok(())
}

fn checks(place: &Place) -> Checks {
    let cargo = |args: &[&str]| command(place.cargo(args));
    let tests = place.cargo(&["test", "--workspace", "--no-fail-fast"]);
    let older = place.cargo(&["test", "--workspace", "--test", "contract", "kafka_one"]);
    let docs = place.cargo(&["doc", "--workspace", "--no-deps"]);
    vec![
        ("packages", Box::new(packages::set_up)),
        ("python", Box::new(python::set_up)),
        ("kafka", Box::new(kafka::set_up)),
        ("java", Box::new(java::set_up)),
        ("format", cargo(&["fmt", "--all", "--check"])),
        ("clippy", cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])),
        // With the tests, because their dependencies bring features: without them everything is built again.
        ("build", cargo(&["build", "--workspace", "--bins", "--tests"])),
        ("tests", command(for_tests(tests, place))),
        // The oldest Kafka that is promised; everything else runs on the one that is pinned.
        ("kafka-older", command(older.env("REENACT_KAFKA_VERSION", OLDER_VERSION))),
        ("simulation", command(for_tests(Seeds::first(SIMULATED_SEEDS).task(place), place))),
        ("docs", command(docs.env("RUSTDOCFLAGS", "--deny warnings"))),
        ("dependencies", Box::new(deny::check)),
    ]
}

fn chosen(mut checks: Checks, only: &[String]) -> anyhow::Result<Checks> {
    let names: Vec<_> = checks.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("there is no check `{unknown}`, only {}", names.join(", "));
    }
    checks.retain(|(name, _)| only.is_empty() || only.iter().any(|chosen| chosen == name));
    Ok(checks)
}

fn command(task: Task) -> Check {
    Box::new(|_| {
        println!("$ {}", task.line());
        task.run()
    })
}

/// Tells the tests where the product, Agno's client and the examples for the JVM are.
fn for_tests(task: Task, place: &Place) -> Task {
    let task = task.env("REENACT_BIN", place.product()).env("REENACT_PYTHON", python::interpreter(place));
    task.env("REENACT_JAVA_EXAMPLES", java::folder(place))
}

fn run_one(place: &Place, name: &'static str, check: Check, number: &str) -> Outcome {
    println!("\n── {number} {name}");
    let start = Instant::now();
    let error = check(place).err();
    if let Some(error) = &error {
        println!("{name}: {error:#}");
    }
    Outcome { name, took: start.elapsed(), error }
}

fn summary(outcomes: &[Outcome]) -> String {
    let mut text = String::from("── summary\n");
    for Outcome { name, took, error } in outcomes {
        let verdict = if error.is_some() { "FAILED" } else { "ok" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14} {verdict:<7} {:>7.1} s", took.as_secs_f64());
    }
    let total: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
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
            summary(&outcomes),
            "── summary\n\
             format         ok          1.5 s\n\
             clippy         FAILED      1.5 s\n\
             all                        3.0 s"
        );
    }
}
