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

fn install(place: &Place) -> anyhow::Result<()> {
    let folder = place.tools("cargo-deny");
    let install = place.cargo(&["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--root"]);
    println!("installing cargo-deny {VERSION} into `{}`, once", folder.display());
    install.args(&[&folder]).args(&["--target-dir"]).args(&[folder.join("build")]).run()
}
