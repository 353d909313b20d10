//! Tells a person at a terminal what a long piece of work is at. Work of less than a second tells nothing,
//! and so does work whose standard error is no terminal.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

const QUIET: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Shows until it is dropped.
#[derive(Debug)]
pub struct Telling(Option<JoinHandle<()>>);

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// Wipes the line when the task that owns it is dropped.
struct Line(ProgressBar);

impl Drop for Line {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Tells `what` the work is at, again and again, until the result is dropped.
#[must_use]
pub fn while_alive(what: impl Fn() -> String + Send + 'static) -> Telling {
    if !std::io::stderr().is_terminal() {
        return Telling(None);
    }
    Telling(Some(tokio::spawn(async move {
        tokio::time::sleep(QUIET).await;
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        let line = Line(bar);
        loop {
            line.0.set_message(what());
            line.0.tick();
            tokio::time::sleep(TICK).await;
        }
    })))
}
