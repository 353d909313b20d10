//! Where the broker comes from: Maven copies its jars into a folder below `target/`, once per version.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

/// The version that everything is tested with.
pub const DEFAULT_VERSION: &str = "4.3.1";

/// The older version that must work as well.
pub const OLDER_VERSION: &str = "4.0.2";

const POM: &str = include_str!("../pom.xml");

const NO_JAVA: &str =
    "`java` 17 or newer is not to be had: install it (Debian: `apt-get install openjdk-17-jre-headless`)";
const NO_MAVEN: &str = "`mvn` is not to be had: install Maven (Debian: `apt-get install maven`)";

/// The first Java that runs Kafka 4's brokers.
const JAVA_MIN: u32 = 17;

/// Where jars are kept: below the build output, so that they go when it goes.
pub fn default_folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir)).join("kafka")
}

/// The folder with the jars of `version`, filled by Maven if it is not there yet.
pub fn fetch(folder: &Path, version: &str, progress: fn(&str)) -> anyhow::Result<PathBuf> {
    check_version(version)?;
    check_java()?;
    let home = folder.join(version);
    let lib = home.join("lib");
    if lib.is_dir() {
        return Ok(lib);
    }
    fs::create_dir_all(&home).with_context(|| format!("`{}` cannot be made", home.display()))?;
    // Test binaries run at the same time and may all want the same version.
    let lock = File::create(home.join("lock")).with_context(|| format!("`{}` cannot be written", home.display()))?;
    lock.lock().with_context(|| format!("`{}` cannot be locked", home.display()))?;
    if !lib.is_dir() {
        progress(&format!("fetching Apache Kafka {version} with Maven, once"));
        copy_dependencies(&home, version)?;
    }
    Ok(lib)
}

/// Copies into a folder of another name first: `lib` is either whole or not there.
fn copy_dependencies(home: &Path, version: &str) -> anyhow::Result<()> {
    let pom = home.join("pom.xml");
    fs::write(&pom, POM).with_context(|| format!("`{}` cannot be written", pom.display()))?;
    let partial = home.join("lib.partial");
    if partial.is_dir() {
        fs::remove_dir_all(&partial).with_context(|| format!("`{}` cannot be removed", partial.display()))?;
    }
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--file"]).arg(&pom).arg("dependency:copy-dependencies");
    maven.arg("-DincludeScope=runtime").arg(format!("-Dkafka.version={version}"));
    maven.arg(format!("-DoutputDirectory={}", partial.display())).stdin(Stdio::null());
    let output = maven.output().context(NO_MAVEN)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        bail!(
            "Maven could not fetch Apache Kafka {version}: is there such a version, and is Maven Central reachable?\n{said}"
        );
    }
    fs::rename(&partial, home.join("lib")).with_context(|| format!("`{}` cannot be renamed", partial.display()))
}

/// A version becomes part of a path and of a command, so it is checked first.
fn check_version(version: &str) -> anyhow::Result<()> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<_> = version.split('.').collect();
    if parts.len() != 3 || parts[0] != "4" || !parts.iter().all(|part| is_number(part)) {
        bail!("`{version}` is not a version of Apache Kafka 4: give one such as `{DEFAULT_VERSION}`");
    }
    Ok(())
}

fn check_java() -> anyhow::Result<()> {
    let output = Command::new("java").arg("-version").stdin(Stdio::null()).output().context(NO_JAVA)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match java_major(&said) {
        Some(major) if major >= JAVA_MIN => Ok(()),
        Some(major) => bail!("`java` is version {major}: {NO_JAVA}"),
        None => bail!("`java -version` said `{}`: {NO_JAVA}", said.trim()),
    }
}

/// From `openjdk version "17.0.15" 2025-04-15`.
fn java_major(said: &str) -> Option<u32> {
    let version = said.split('"').nth(1)?;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_numbers_that_begin_with_four_are_a_version() {
        for good in ["4.0.2", "4.3.1"] {
            check_version(good).expect("a version");
        }
        for bad in ["3.9.0", "4.3", "4.3.x", "4.3.1/..", "", "4..1"] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_major_version_of_java_is_read_from_what_it_says() {
        assert_eq!(java_major("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK"), Some(17));
        assert_eq!(java_major("java version \"1.8.0_411\""), Some(1));
        assert_eq!(java_major("openjdk version \"25-ea\""), Some(25));
        assert_eq!(java_major("sh: java: not found"), None);
    }

    #[test]
    fn the_pom_names_the_default_version() {
        assert!(POM.contains(&format!("<kafka.version>{DEFAULT_VERSION}</kafka.version>")));
    }
}
