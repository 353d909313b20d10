//! The brokers' processes: how they are started, and how we make sure that no other process is ever signalled.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Kills the process `$1` when its standard input ends, if that process still names `$2` on its command line.
const REAPER: &str = r#"while read -r _; do :; done
tr '\0' '\n' < "/proc/$1/cmdline" 2>/dev/null | grep -qxF "$2" && kill -9 "$1""#;

/// The files of one node.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    folder: PathBuf,
}

impl Home {
    /// `dir` is absolute: the path of the properties is what a broker's process is known by.
    pub(crate) fn of(dir: &Path, node: u16) -> Self {
        Self { folder: dir.join(format!("n{node}")) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn properties(&self) -> PathBuf {
        self.folder.join("server.properties")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("broker.log")
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join("pid")
    }

    /// Remembers the process that was started last.
    pub(crate) fn record(&self, pid: u32) -> anyhow::Result<()> {
        let file = self.pid_file();
        fs::write(&file, pid.to_string()).with_context(|| format!("`{}` cannot be written", file.display()))
    }

    /// The process that was started last, if it still runs.
    pub(crate) fn running(&self) -> Option<u32> {
        // Without a readable file there is no broker that we may touch.
        let pid = fs::read_to_string(self.pid_file()).ok()?.parse().ok()?;
        is_broker(pid, self).then_some(pid)
    }

    /// The end of what the broker said, for an error.
    pub(crate) fn last_words(&self) -> String {
        const LINES: usize = 12;
        match fs::read(self.log()) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let lines: Vec<_> = text.lines().collect();
                lines[lines.len().saturating_sub(LINES)..].join("\n")
            }
            Err(error) => format!("`{}` cannot be read: {error}", self.log().display()),
        }
    }
}

/// Kills a broker when its owner is gone, whichever way it went: the pipe between them closes with the owner.
#[derive(Debug)]
pub(crate) struct Reaper(Child);

impl Reaper {
    pub(crate) fn of(pid: u32, home: &Home) -> anyhow::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", REAPER, "kafka-reaper", &pid.to_string()]).arg(home.properties());
        // In a group of its own, so that an interrupt at the terminal ends the owner first.
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self(shell.spawn().context("`sh` did not start")?))
    }

    /// Lets the broker live on.
    pub(crate) fn dismiss(mut self) {
        // It has either ended or ends now; there is nothing to be done about one that cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Java that is small and starts fast: these brokers hold little and live for minutes.
fn java(lib: &Path, class: &str, log_level: &str) -> Command {
    let mut java = Command::new("java");
    java.args([
        "-Xms64m",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.net.preferIPv4Stack=true",
    ]);
    java.args(["-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"]);
    java.arg(format!("-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"));
    let kept = kept_classes(lib);
    if kept.is_file() {
        // Another Java than the one that kept them goes without, and says nothing.
        java.arg(format!("-XX:SharedArchiveFile={}", kept.display())).args(["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]);
    }
    java.arg("-cp").arg(lib.join("*")).arg(class).stdin(Stdio::null());
    java
}

/// Where a broker's classes are kept as they lie in memory: with them a start takes a third less.
pub(crate) fn kept_classes(lib: &Path) -> PathBuf {
    lib.with_file_name("classes.jsa")
}

/// Starts preparing a node's data folder; one that is prepared already is left alone.
pub(crate) fn format(lib: &Path, home: &Home, cluster_id: &str) -> anyhow::Result<Child> {
    let mut format = java(lib, "kafka.tools.StorageTool", "warn");
    format.args(["format", "--ignore-formatted", "-t", cluster_id, "-c"]).arg(home.properties());
    let log = log_file(home)?;
    format.stdout(log.try_clone()?).stderr(log).spawn().context("`java` did not start")
}

/// Starts a broker. It is in a process group of its own: an interrupt at the terminal does not reach it. It keeps its
/// classes in a file when it ends in order, if one is given.
pub(crate) fn launch(lib: &Path, home: &Home, keep: Option<&Path>) -> anyhow::Result<Child> {
    let log = log_file(home)?;
    let mut broker = java(lib, "kafka.Kafka", "info");
    if let Some(keep) = keep {
        // What the command line says otherwise stays as it is.
        broker.env("JDK_JAVA_OPTIONS", format!("-XX:ArchiveClassesAtExit={}", keep.display()));
    }
    broker.arg(home.properties()).stdout(log.try_clone()?).stderr(log).process_group(0);
    broker.spawn().context("`java` did not start")
}

fn log_file(home: &Home) -> anyhow::Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(home.log());
    opened.with_context(|| format!("`{}` cannot be written", home.log().display()))
}

/// Runs one of Kafka's own tools and gives back what it printed.
pub(crate) fn tool(lib: &Path, class: &str, args: &[&str]) -> anyhow::Result<String> {
    let output = java(lib, class, "warn").args(args).output().context("`java` did not start")?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("`{class} {}` failed: {}", args.join(" "), String::from_utf8_lossy(&said).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether `pid` is the broker of this home. A number that was recorded may long belong to somebody else; a process
/// that has ended and was not yet waited for has no command line.
pub(crate) fn is_broker(pid: u32, home: &Home) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let properties = home.properties();
    line.split(|byte| *byte == 0).any(|word| word == properties.as_os_str().as_encoded_bytes())
}

/// Whether a process is stopped by a signal.
pub(crate) fn is_paused(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program stands in parentheses and may hold anything; the state comes after it.
    status.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Sends a signal to the broker of this home, and to nothing else.
pub(crate) fn signal(pid: u32, home: &Home, signal: Signal) -> anyhow::Result<()> {
    if !is_broker(pid, home) {
        bail!("process {pid} is not the broker of `{}`", home.folder().display());
    }
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| format!("{pid} is no process id"))?;
    match kill_process(target, signal).map_err(io::Error::from) {
        Ok(()) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("process {pid} cannot be signalled")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_the_recorded_broker_is_never_signalled() {
        let home = Home::of(Path::new("/nowhere"), 1);
        let error = signal(std::process::id(), &home, Signal::KILL).expect_err("it is this test");
        assert!(error.to_string().contains("is not the broker of"), "{error}");
    }
}
