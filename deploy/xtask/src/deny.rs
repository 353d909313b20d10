//! cargo-deny: licences, sources and bans of every dependency, against `deny.toml`.

use crate::place::Place;

/// Pinned, so that a release of it cannot turn a green build red.
const VERSION: &str = "0.20.2";

/// Checks all dependencies. Advisories are not asked for: their database comes by git from one host, which
/// not every machine reaches; those that we live with are listed in `deny.toml`.
pub(crate) fn check(place: &Place) -> anyhow::Result<()> {
    let folder = place.tools("cargo-deny");
    let program = folder.join("bin").join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX));
    let installed = place.program(&program).args(&["--version"]);
    if !installed.succeeds()? {
        install(place)?;
    }
    let check = place.program(&program).args(&["--locked", "check", "bans", "licenses", "sources"]);
    println!("$ {}", check.line());
    check.run()
}

/// Builds it in its debug profile: that takes 73 s of processor time, one minute on two idle cores, and a check
/// then takes 3 s, so there is nothing to gain from optimising it.
fn install(place: &Place) -> anyhow::Result<()> {
    let folder = place.tools("cargo-deny");
    let install = place.cargo(&["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--root"]);
    println!("installing cargo-deny {VERSION} into `{}`, once", folder.display());
    install.args(&[&folder]).args(&["--target-dir"]).args(&[folder.join("build")]).run()
}
