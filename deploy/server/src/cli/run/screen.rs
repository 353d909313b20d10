//! What a person sees of a run: the answer on standard output, everything about it on standard error.

use std::io::Write;

use anyhow::{anyhow, bail};
use serde_json::Value;

use crate::cli::output::{short, text};

const SHOWN_CHARS: usize = 100;

/// The terminal, and how far the run was shown.
#[derive(Debug, Default)]
pub(in crate::cli) struct Screen {
    run: Option<(String, String)>,
    last_index: Option<u64>,
    in_line: bool,
    tokens: Option<u64>,
}

impl Screen {
    /// The run and its session, once known.
    pub(super) fn run(&self) -> Option<(String, String)> {
        self.run.clone()
    }

    /// The last index that was shown, `-1` for none.
    pub(super) fn last_index(&self) -> i64 {
        self.last_index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1)
    }

    /// Shows a frame.
    pub(super) fn frame(&mut self, name: &str, data: &Value) -> anyhow::Result<()> {
        self.last_index = data["event_index"].as_u64().or(self.last_index);
        if let (Some(run), Some(session)) = (data["run_id"].as_str(), data["session_id"].as_str()) {
            self.run = Some((run.to_owned(), session.to_owned()));
        }
        let tool = &data["tool"];
        match name {
            "RunContent" => self.words(text(data, "content")),
            "ModelRequestCompleted" => self.end_line(),
            "attempt_restarted" => self.note("the answer is begun again; what stands above it is void"),
            "ToolCallStarted" => {
                let arguments = short(&tool["tool_args"].to_string(), SHOWN_CHARS);
                self.note(&format!("→ {} {arguments}", text(tool, "tool_name")))
            }
            "ToolCallCompleted" => {
                self.note(&format!("✓ {}: {}", text(tool, "tool_name"), short(text(tool, "result"), SHOWN_CHARS)))
            }
            "ToolCallError" => {
                self.note(&format!("✗ {}: {}", text(tool, "tool_name"), short(text(data, "error"), SHOWN_CHARS)))
            }
            "error" => Err(anyhow!("{}", text(data, "error"))),
            "RunCompleted" => {
                self.tokens = data["metrics"]["total_tokens"].as_u64();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn words(&mut self, words: &str) -> anyhow::Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(words.as_bytes())?;
        out.flush()?;
        self.in_line = !words.ends_with('\n');
        Ok(())
    }

    fn end_line(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.in_line) {
            writeln!(std::io::stdout().lock())?;
        }
        Ok(())
    }

    /// Tells something about the run.
    pub(super) fn note(&mut self, note: &str) -> anyhow::Result<()> {
        self.end_line()?;
        writeln!(std::io::stderr().lock(), "  {note}")?;
        Ok(())
    }

    /// Tells how the run ended, and how to go on.
    pub(in crate::cli) fn close(&mut self, last: &Value) -> anyhow::Result<()> {
        self.end_line()?;
        let (run, session) = self.run.clone().unwrap_or_default();
        match text(last, "event") {
            "RunError" => bail!("{} ({})", text(last, "content"), text(last, "error_type")),
            "RunCancelled" => bail!("the run was stopped: {}", text(last, "reason")),
            "RunPaused" => bail!("{}\n{}", text(last, "content"), how_to_continue(&run)),
            _ => {}
        }
        let tokens = self.tokens.map(|tokens| format!(" · {tokens} tokens")).unwrap_or_default();
        self.note(&format!("run {run} · session {session}{tokens}"))
    }
}

/// What to do about a paused run.
pub(super) fn how_to_continue(run: &str) -> String {
    format!(
        "the run waits for a decision about a tool call: look with `reenact runs show {run}`, then decide with \
         `{}`",
        crate::cli::decide::how_to_decide(run)
    )
}
