//! A process and what it says.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ExitStatus},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use tokio::sync::watch;

/// Everything that the processes of a deployment have said, line by line.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<String>>);

impl Heard {
    fn line(&self, line: &str) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(line);
        text.push('\n');
    }

    pub(super) fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How far a process has come.
#[derive(Clone, Default)]
struct Stage {
    url: String,
    ready: bool,
    silent: bool,
}

/// A process from its start to its end.
pub(super) struct Life {
    child: Child,
    stage: watch::Receiver<Stage>,
    readers: Vec<JoinHandle<()>>,
}

impl Life {
    pub(super) fn of(mut child: Child, heard: &Heard) -> Self {
        let (told, stage) = watch::channel(Stage::default());
        heard.line(&format!("=== process {} ===", child.id()));
        let out = child.stdout.take().expect("it is piped");
        let err = child.stderr.take().expect("it is piped");
        let reader = |pipe: Box<dyn Read + Send>, told: Option<watch::Sender<Stage>>| {
            let heard = heard.clone();
            std::thread::spawn(move || listen(pipe, &heard, told.as_ref()))
        };
        let readers = vec![reader(Box::new(out), Some(told)), reader(Box::new(err), None)];
        Self { child, stage, readers }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn url(&self) -> String {
        self.stage.borrow().url.clone()
    }

    /// Waits until it serves; false when it ended before it did.
    pub(super) async fn ready(&self) -> bool {
        let mut stage = self.stage.clone();
        stage.wait_for(|stage| stage.ready || stage.silent).await.is_ok_and(|stage| stage.ready)
    }

    pub(super) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// Ends it, if it has not ended, and hears it out.
    pub(super) fn kill(mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().expect("a child can be waited for");
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader does not panic");
        }
    }
}

fn listen(pipe: Box<dyn Read + Send>, heard: &Heard, told: Option<&watch::Sender<Stage>>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        heard.line(&text);
        if let Some(told) = told {
            told.send_modify(|stage| {
                if let Some((_, url)) = text.split_once(" listens on ") {
                    url.clone_into(&mut stage.url);
                }
                stage.ready |= text.contains("  try it ");
            });
        }
        line.clear();
    }
    if let Some(told) = told {
        told.send_modify(|stage| stage.silent = true);
    }
}
