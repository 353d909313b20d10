//! What the views cost, in a file and on a server: ratios within one run.
//!
//! * `folding`: batches as the live views fold them, in SQLite and on PostgreSQL, and pages of 100,000 runs.
//! * `rebuild`: another generation of the views from a log of a million events, against reading and decoding that log
//!   alone; with the memory that it takes beyond what the process had.
//! * `lag`: how far the live views are behind the fastest writer of the log, and how soon they have caught up when it stops.
//! * `lists`: pages of sessions and runs of 500 sessions with 200 runs of 50 KB each, against those with 2 runs each.
//!
//! Each part works in a process of its own, which this program starts from itself. Files are below `target/`, on a real
//! disk, and in the page cache when they are read. The targets stand beside the figures; nothing fails.
//!
//! `cargo xtask bench views` does all of it; `-- rebuild` does one part, and `-- rebuild events=100000 lists kib=5` less
//! than all of it.

mod folding;
#[expect(dead_code, reason = "the views' own tests write more kinds of events")]
#[path = "../../../projections/tests/it/history.rs"]
mod history;
mod lag;
mod lists;
mod measured;
mod rebuild;
mod talks;

/// The one that the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Events of the log that is rebuilt from.
    pub(crate) events: u64,
    /// KB of each run in the lists.
    pub(crate) kib: usize,
}

impl Size {
    fn of(args: &[String]) -> Self {
        let number = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        let parsed = |name: &str, usual: u64| number(name).map_or(usual, |text| text.parse().expect("a number"));
        Self { events: parsed("events", 1_000_000), kib: usize::try_from(parsed("kib", 50)).expect("small") }
    }

    /// As [`Size::of`] reads it.
    pub(crate) fn args(self) -> [String; 2] {
        [format!("events={}", self.events), format!("kib={}", self.kib)]
    }
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let size = Size::of(&args);
    if let [part, name, place, ..] = &args[..]
        && part == "part"
    {
        return work(name, place, size);
    }
    let names: Vec<_> = args.iter().filter(|arg| !arg.starts_with("--") && !arg.contains('=')).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| *wanted == name);
    println!("{:<66} {:>10}  {:>8}", "", "", "target");
    if wanted("folding") {
        run(folding::report());
    }
    if wanted("rebuild") {
        rebuild::report(size);
    }
    if wanted("lag") {
        lag::report(size);
    }
    if wanted("lists") {
        run(lists::report(size));
    }
}

/// Does a part's work and prints its figures, for [`measured::measure`] to read.
fn work(name: &str, place: &str, size: Size) {
    let figures = match name {
        "write" => run(rebuild::write(place.as_ref(), size)),
        "decode" => run(rebuild::decode(place.as_ref())),
        "rebuild file" => run(rebuild::in_file(place.as_ref())),
        "rebuild server" => run(rebuild::on_server(place)),
        "lag" => run(lag::lag(place.as_ref(), size)),
        other => panic!("there is no part `{other}`"),
    };
    for (name, value) in figures {
        println!("{name} {value}");
    }
}

fn run<T>(part: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime").block_on(part)
}

/// Prints a line of the table; `-` where nobody set a target.
pub(crate) fn line(what: &str, value: f64, target: &str) {
    println!("{what:<66} {value:>10.3}  {target:>8}");
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
