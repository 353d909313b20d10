//! Parts in processes of their own: how they are started, and what they say about themselves.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tempfile::TempDir;

use crate::Size;

/// What one part measured, by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// How often it is looked how much memory a process has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Starts a part and waits for its figures.
pub(crate) fn measure(name: &str, place: &str, size: Size) -> Figures {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["part", name, place]).args(size.args()).stderr(Stdio::inherit());
    let output = command.output().expect("this program can be started");
    assert!(output.status.success(), "{command:?} ended with {}", output.status);
    let text = String::from_utf8(output.stdout).expect("figures are text");
    let figure =
        |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.parse().expect("a number")));
    text.lines().filter_map(figure).collect()
}

/// Figures by name.
pub(crate) fn named<const N: usize>(figures: [(&str, f64); N]) -> Figures {
    figures.map(|(name, value)| (name.to_owned(), value)).into()
}

/// A folder below `target/`, on the disk that the project is on.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// The kernel counts in hundredths of a second.
const TICKS_PER_S: f64 = 100.0;

/// The seconds that this process had of the processors, its threads together.
pub(crate) fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("Linux tells a process about itself");
    let (_, fields) = text.rsplit_once(") ").expect("the name stands in brackets");
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / TICKS_PER_S
}

/// Watches the memory that this process has of its own; pages of files that are mapped are not among it.
pub(crate) struct Watched {
    base: f64,
    is_over: Arc<AtomicBool>,
    watch: JoinHandle<f64>,
}

impl Watched {
    /// From now on.
    pub(crate) fn begin() -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let over = is_over.clone();
        let watch = std::thread::spawn(move || {
            let mut most = resident_bytes();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                most = most.max(resident_bytes());
            }
            most
        });
        Self { base: resident_bytes(), is_over, watch }
    }

    /// The most bytes beyond those of the beginning.
    pub(crate) fn end(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.watch.join().expect("looks") - self.base
    }
}

fn resident_bytes() -> f64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux tells a process about itself");
    let value = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it is told");
    1024.0 * value.split_whitespace().next().and_then(|number| number.parse::<f64>().ok()).expect("a number")
}
