//! Few arenas for a process that lives long.
//!
//! glibc gives the threads that allocate up to eight arenas for each core, and every arena keeps holes of its
//! own: with 100,000 sessions known a third of what the process holds. How many there may be is read from the
//! environment when the process begins, so `serve` begins once more, with the same number and arguments.

use std::{env, ffi::OsStr, os::unix::process::CommandExt, process::Command};

/// What glibc reads.
const VARIABLE: &str = "MALLOC_ARENA_MAX";
/// As many as cores that a small machine has; one more costs memory, one less time.
const ARENAS: &str = "2";

/// Begins the process again with few arenas, unless somebody has said how many; when that does not work, it
/// goes on as it is.
pub(super) fn be_sparing() {
    if !cfg!(target_env = "gnu") || env::var_os(VARIABLE).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut arguments = env::args_os();
    let name = arguments.next();
    let mut again = Command::new(&program);
    again.arg0(name.as_deref().unwrap_or(OsStr::new("reenact"))).args(arguments).env(VARIABLE, ARENAS);
    let error = again.exec();
    eprintln!("`{}` could not begin again with fewer arenas ({error}); it takes more memory", program.display());
}
