//! Parts in processes of their own: how they are started, and what they say about themselves.

use std::{
    future::Future,
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{Figures, claims, commits, crowd, growth};

/// Does a part's work and prints its figures, for [`measure`] to read.
pub(crate) fn work(name: &str, folder: &Path) {
    let figures = match name {
        "alone" => run(commits::alone(folder)),
        "together" => run(commits::together(folder)),
        "together untimed" => run(commits::together_untimed(folder)),
        "growth" => run(growth::grow(folder)),
        "gather half" => run(crowd::gather_half(folder)),
        "gather" => run(crowd::gather(folder)),
        "open-store" => run(crowd::open_store(folder)),
        "replay" => run(crowd::replay(folder)),
        "start" => run(crowd::start(folder)),
        "resident" => run(crowd::resident(folder)),
        "claims" => run(claims::whole(folder)),
        other => panic!("there is no part `{other}`"),
    };
    for (name, value) in figures {
        println!("{name} {value}");
    }
}

fn run(part: impl Future<Output = Figures>) -> Figures {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime").block_on(part)
}

/// Starts a part and waits for its figures.
pub(crate) fn measure(name: &str, folder: &Path) -> Figures {
    let program = std::env::current_exe().expect("this program");
    read(Command::new(program).args(["part", name]).arg(folder))
}

/// How many times a part asked the kernel to force a file to disk, and its figures; `None` without `strace`.
pub(crate) fn traced(name: &str, folder: &Path) -> Option<(f64, Figures)> {
    let trace = folder.join("trace");
    let figures = read_if_there(
        Command::new("strace")
            .args(["-f", "--seccomp-bpf", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-qqq", "-o"])
            .arg(&trace)
            .arg(std::env::current_exe().expect("this program"))
            .args(["part", name])
            .arg(folder),
    )?;
    let text = std::fs::read_to_string(&trace).expect("strace's output");
    // A call that was interrupted by another thread's has a second line, without the bracket.
    let calls = text.lines().filter(|line| line.contains("sync(")).count();
    Some((calls as f64, figures))
}

fn read(command: &mut Command) -> Figures {
    read_if_there(command).expect("this program can be started")
}

fn read_if_there(command: &mut Command) -> Option<Figures> {
    let output = match command.stderr(Stdio::inherit()).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{command:?} cannot be started: {error}"),
    };
    assert!(output.status.success(), "{command:?} ended with {}", output.status);
    let text = String::from_utf8(output.stdout).expect("figures are text");
    let figure =
        |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.parse().expect("a number")));
    Some(text.lines().filter_map(figure).collect())
}

/// A folder below `target/`, on the disk that the project is on.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// The bytes that this process has in memory of its own; pages of files that are mapped are not among them.
pub(crate) fn resident_bytes() -> f64 {
    1024.0 * number_of("/proc/self/status", "RssAnon:")
}

/// The bytes of mapped files, the program's own code among them, that are in memory. The kernel takes them away when
/// it needs room.
pub(crate) fn mapped_bytes() -> f64 {
    1024.0 * number_of("/proc/self/status", "RssFile:")
}

/// The bytes that this process gave to the kernel to write, into whatever file.
pub(crate) fn written_bytes() -> f64 {
    number_of("/proc/self/io", "wchar:")
}

fn number_of(file: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(file).expect("Linux tells a process about itself");
    let value = text.lines().find_map(|line| line.strip_prefix(name)).expect("it is told");
    value.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}
