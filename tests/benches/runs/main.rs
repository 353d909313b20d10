//! What a run costs on the real log, state store, blobs and views, with a model and a tool that take no time.
//!
//! Every figure is a count or a ratio to something that the same bench measured, since the speed of a machine
//! says nothing about the program. The targets stand beside them; they are for reading, nothing fails.
//!
//! Each part works in a process of its own, which this program starts from itself: what the parts before have
//! left in memory would be counted otherwise. Files are below `target/`, on a real disk, and in the page cache
//! when they are read.
//!
//! `cargo bench -p reenact-tests --bench runs` takes a few minutes; `-- commits`, `-- growth`, `-- crowd`
//! or `-- claims` does one part of it.

mod claims;
mod client;
mod commits;
mod counted;
mod crowd;
mod deployment;
mod growth;
mod part;
mod steps;

/// The one that the program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What one part measured, by name.
pub(crate) type Figures = std::collections::BTreeMap<String, f64>;

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let ["part", name, folder] = args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return part::work(name, folder.as_ref());
    }
    let wanted = |name| args.iter().all(|arg| arg.starts_with("--")) || args.iter().any(|arg| arg == name);
    println!("{:<66} {:>10}  {:>8}", "", "", "target");
    if wanted("commits") {
        commits::report();
    }
    if wanted("growth") {
        growth::report();
    }
    if wanted("crowd") {
        crowd::report();
    }
    if wanted("claims") {
        claims::report();
    }
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
