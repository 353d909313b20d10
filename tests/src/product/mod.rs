//! The product as its users have it: the program itself, in a folder of its own, killed and started again.
//!
//! Everything that a process says is kept: it is shown when a test fails, and a line that tells of a panic
//! fails the test that made it. Nothing is left running after a test.

mod client;
mod heard;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

pub use client::{Answer, is_open};
use heard::{Heard, Life};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

/// Nothing here takes this long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// How often something is looked at that cannot call back.
pub const POLL: Duration = Duration::from_millis(5);

/// The program. It is built beforehand: a test that builds would wait for the build that runs it.
fn binary() -> PathBuf {
    let built = || {
        let test = std::env::current_exe().expect("a test knows where it is");
        let profile = test.parent().and_then(Path::parent).expect("tests are in `target/PROFILE/deps`");
        profile.join("reenact")
    };
    let binary = std::env::var_os("REENACT_BIN").map_or_else(built, PathBuf::from);
    assert!(
        binary.is_file(),
        "`{}` is not there: run `cargo build -p reenact-server` first, or name the program in `REENACT_BIN`",
        binary.display()
    );
    binary
}

/// Moments and choices of a test that kills: from `REENACT_SEED`, or others in every run. Which moment hits
/// what is not repeatable, as the processes are real, but the moments are.
pub fn dice(test: &str) -> ChaCha8Rng {
    let said = std::env::var("REENACT_SEED").ok().map(|seed| seed.parse().expect("REENACT_SEED is a number"));
    // Of all that the standard library offers, only the keys of its hash maps are random.
    let seed: u64 = said.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("{test}: REENACT_SEED={seed}");
    ChaCha8Rng::seed_from_u64(seed)
}

/// A deployment in a folder of its own.
pub struct Product {
    folder: TempDir,
    settings: Vec<(&'static str, String)>,
    life: Option<Life>,
    heard: Heard,
    http: reqwest::Client,
}

impl Default for Product {
    fn default() -> Self {
        Self::new()
    }
}

impl Product {
    /// A deployment that has never been started, with the built-in agent until it is given others.
    pub fn new() -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client can be made");
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, settings: Vec::new(), life: None, heard: Heard::default(), http }
    }

    /// Gives it an agent: the text of `agents/NAME.toml`.
    pub fn agent(self, name: &str, toml: &str) -> Self {
        self.file(&format!("agents/{name}.toml"), toml)
    }

    /// Gives it a file, by its path in the folder that the program is started in.
    pub fn file(self, path: &str, text: &str) -> Self {
        let file = self.folder.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("the folder is writable");
        std::fs::write(file, text).expect("the folder is writable");
        self
    }

    /// Sets an environment variable of the program, for example `REENACT_DRAIN_S`.
    pub fn set(mut self, name: &'static str, value: impl ToString) -> Self {
        self.settings.push((name, value.to_string()));
        self
    }

    /// What an environment variable of the program was set to.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(set, _)| *set == name).map(|(_, value)| &**value)
    }

    /// Where its data is.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The program with its settings, in its folder, and nothing else of the environment.
    pub fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command.current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command.env("REENACT_LISTEN", "127.0.0.1:0").envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs one of its other commands to the end; the command finds a server that is up.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command();
        if let Some(life) = &self.life {
            command.env("REENACT_URL", life.url());
        }
        command.args(arguments).output().expect("the program can be started")
    }

    /// Every event of the log, read by `reenact events list`.
    pub fn events(&self) -> Vec<serde_json::Value> {
        let output = self.run(&["events", "list", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).expect("UTF-8");
        lines.lines().map(|line| serde_json::from_str(line).expect("one JSON object a line")).collect()
    }

    /// Starts `reenact serve` without waiting for it.
    pub fn spawn(&mut self) {
        assert!(self.life.is_none(), "it is up already");
        let mut command = self.command();
        let child: Child = command.arg("serve").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        self.life = Some(Life::of(child, &self.heard));
    }

    /// Starts `reenact serve` and waits until it is ready.
    pub async fn start(&mut self) {
        self.spawn();
        assert!(self.ready_or_ended().await, "it did not become ready:\n{}", self.heard.text());
    }

    /// Waits until it is ready; false when it ended before it was.
    pub async fn ready_or_ended(&self) -> bool {
        let ready = tokio::time::timeout(PATIENCE, self.up().ready()).await;
        ready.unwrap_or_else(|_| panic!("it neither serves nor ends:\n{}", self.heard.text()))
    }

    /// A started deployment.
    pub async fn started(mut self) -> Self {
        self.start().await;
        self
    }

    fn up(&self) -> &Life {
        self.life.as_ref().expect("it is up")
    }

    /// Where it serves.
    pub fn url(&self) -> String {
        self.up().url()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.up().pid()
    }

    /// Whether it has a process.
    pub fn is_up(&self) -> bool {
        self.life.is_some()
    }

    /// SIGKILL: it gets no time for anything.
    pub fn kill_hard(&mut self) {
        if let Some(life) = self.life.take() {
            life.kill();
        }
    }

    /// SIGTERM: it goes down in order.
    pub fn term(&self) {
        self.signal("TERM");
    }

    /// SIGSTOP: it stands still, with all its connections open.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// SIGCONT: it goes on and does not know that time has passed.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().expect("`kill` is there");
        assert!(sent.success(), "the process is there");
    }

    /// Waits until the process has ended by itself.
    pub async fn ended(&mut self, within: Duration) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.life.as_mut().expect("it is up").has_ended() {
                self.kill_hard();
                return status;
            }
            assert!(began.elapsed() < within, "it did not end within {within:?}:\n{}", self.heard.text());
            tokio::time::sleep(POLL).await;
        }
    }

    /// SIGKILL and a start on the same data.
    pub async fn crash(&mut self) {
        self.kill_hard();
        self.start().await;
    }

    /// Everything that its processes have said.
    pub fn said(&self) -> String {
        self.heard.text()
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        self.kill_hard();
        let said = self.heard.text();
        if std::thread::panicking() {
            eprintln!("--- what the processes said ---\n{said}");
        } else if let Some(line) = said.lines().find(|line| line.contains("panicked at")) {
            panic!("something panicked: {line}\n{said}");
        }
    }
}

/// An agent file with a scripted model and nothing else.
pub fn agent_with_model(base_url: &str) -> String {
    format!("[model]\nprovider = \"openai\"\nid = \"scripted\"\nbase_url = \"{base_url}\"\nretries = 0\n")
}
