//! The examples for the JVM, compiled by Maven with what they depend on.

use std::path::PathBuf;

use anyhow::Context;

use crate::place::Place;

const POM: &str = "deploy/examples/java/pom.xml";

/// Where classes and jars are, once [`set_up`] has run.
pub(crate) fn folder(place: &Place) -> PathBuf {
    place.tools("java-examples")
}

/// Compiles what has changed.
pub(crate) fn set_up(place: &Place) -> anyhow::Result<()> {
    let out = format!("-Dout={}", folder(place).display());
    let maven = place.program("mvn").args(&["--quiet", "--batch-mode", "--file", POM, "compile", &out]);
    maven.run().context("the examples for the JVM could not be compiled: is Maven Central reachable?")
}
