//! What the machine must have beyond Rust: programs and headers that only Debian's packages bring here.
//!
//! Only what is missing is installed, and only where that needs no question: as root, with `apt-get`. Everywhere
//! else the error names what to install.

use anyhow::bail;

use crate::place::Place;

/// One package, and how we know that it is not needed.
#[derive(Debug)]
pub(crate) struct Need {
    package: &'static str,
    /// A command that succeeds when it is there.
    probe: &'static [&'static str],
}

/// For the broker, for the database, for the client library that is compiled, and for the examples that publish with kcat and Java.
pub(crate) const FOR_TESTS: &[Need] = &[
    Need { package: "openjdk-17-jdk-headless", probe: &["javac", "-version"] },
    Need { package: "maven", probe: &["mvn", "-version"] },
    Need { package: "kcat", probe: &["kcat", "-V"] },
    Need { package: "g++", probe: &["c++", "--version"] },
    Need { package: "make", probe: &["make", "--version"] },
    Need { package: "pkg-config", probe: &["pkg-config", "--version"] },
    Need { package: "openssl", probe: &["openssl", "version"] },
    Need { package: "libssl-dev", probe: &["pkg-config", "--exists", "openssl"] },
    Need { package: "zlib1g-dev", probe: &["pkg-config", "--exists", "zlib"] },
    POSTGRESQL,
];

/// For the bench that AgentOS stands beside.
pub(crate) const FOR_BENCH: &[Need] = &[POSTGRESQL];

/// Its programs stand in a folder for each version, which is not in the path.
const POSTGRESQL: Need = Need {
    package: "postgresql",
    probe: &["sh", "-c", "ls /usr/lib/postgresql/*/bin/postgres || command -v postgres"],
};

/// Installs what is missing of those.
pub(crate) fn set_up(place: &Place, needs: &[Need]) -> anyhow::Result<()> {
    let missing = missing(place, needs)?;
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    let by_hand = format!("install these packages and try again: {}", missing.join(" "));
    if !place.program("apt-get").args(&["--version"]).succeeds()? {
        bail!("there is no `apt-get` here: {by_hand} (these are Debian's names)");
    }
    if !is_root(place)? {
        bail!("only root may install packages: {by_hand} (`sudo apt-get install {}`)", missing.join(" "));
    }
    println!("installing {}", missing.join(" "));
    apt_get(place, &["update", "--quiet"])?;
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    apt_get(place, &[&install[..], &missing].concat())
}

/// Headers are looked for with `pkg-config`; where that is missing too, they are asked for as well, which is harmless.
fn missing(place: &Place, needs: &[Need]) -> anyhow::Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for Need { package, probe } in needs {
        let (program, args) = (probe[0], &probe[1..]);
        if !place.program(program).args(args).succeeds()? {
            missing.push(*package);
        }
    }
    Ok(missing)
}

/// `id -u` says 0.
fn is_root(place: &Place) -> anyhow::Result<bool> {
    place.program("sh").args(&["-c", "test \"$(id -u)\" = 0"]).succeeds()
}

fn apt_get(place: &Place, args: &[&str]) -> anyhow::Result<()> {
    place.program("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive").run()
}
