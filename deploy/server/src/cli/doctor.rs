//! `reenact doctor`: looks for what keeps `serve` from working, and says what to do about each thing.

mod checks;
mod on_kafka;

use serde::Serialize;
use serde_json::json;

use super::{options::Configured, output, told::Told};
use crate::{config::Config, progress, wiring};

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Ok,
    /// `serve` works, but something will not.
    Warning,
    /// `serve` will not work.
    Failure,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: String,
    verdict: Verdict,
    /// What is there, and what to do when it is not as it should be.
    text: String,
}

impl Finding {
    fn new(check: &str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { check: check.to_owned(), verdict, text: text.into() }
    }
}

/// Makes all checks; fails when one of them does.
pub(super) async fn examine(options: &Configured, as_json: bool) -> anyhow::Result<()> {
    let findings = {
        let _telling = progress::while_alive(|| "examining".to_owned());
        findings(options).await
    };
    if as_json {
        output::json(&json!({"findings": findings}))?;
    } else {
        output::lines(findings.iter().map(|finding| {
            let mark = match finding.verdict {
                Verdict::Ok => "ok  ",
                Verdict::Warning => "warn",
                Verdict::Failure => "FAIL",
            };
            format!("{mark}  {:<15} {}", finding.check, finding.text)
        }))?;
    }
    if findings.iter().any(|finding| finding.verdict == Verdict::Failure) {
        return Err(Told.into());
    }
    Ok(())
}

async fn findings(options: &Configured) -> Vec<Finding> {
    let config = match options.config() {
        Ok(config) => config,
        Err(error) => return vec![Finding::new("configuration", Verdict::Failure, error.to_string())],
    };
    let mut findings = vec![Finding::new("configuration", Verdict::Ok, "every value can be used")];
    findings.push(checks::data_directory(&config.data));
    findings.push(checks::free_disk(&config.data));
    findings.extend(checks::log(&config).await);
    findings.extend(checks::database(&config).await);
    findings.push(Finding::new("sqlite", Verdict::Ok, reenact_embedded::sqlite_version()));
    findings.push(checks::address(&config).await);
    findings.extend(agents(&config).await);
    findings
}

async fn agents(config: &Config) -> Vec<Finding> {
    let agents = match wiring::agents(config) {
        Ok(agents) => agents,
        Err(error) => return vec![Finding::new("agents", Verdict::Failure, error.to_string())],
    };
    let names: Vec<_> = agents.iter().map(|agent| agent.id.as_str()).collect();
    let mut findings = vec![Finding::new("agents", Verdict::Ok, names.join(", "))];
    for agent in &agents {
        for model in agent.models() {
            findings.extend(checks::model(agent, model).await);
        }
    }
    findings
}
