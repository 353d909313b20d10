//! The worked examples of `deploy/examples`, run as their readers run them.

use std::{
    collections::BTreeSet,
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::{deployment::Deployment, topic};

/// Where the tests of this profile are built.
fn profile() -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    test.ancestors().nth(2).expect("tests are in a folder of cargo's").to_owned()
}

/// Something that set-up makes, unless the environment names another.
fn tool(variable: &str, made: &str) -> PathBuf {
    let tool = env::var_os(variable).map_or_else(|| profile().with_file_name("tools").join(made), PathBuf::from);
    let missing = "run `cargo xtask verify packages python kafka java` first, or name it in";
    assert!(tool.exists(), "`{}` is not there: {missing} `{variable}`", tool.display());
    tool
}

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples").join(path)
}

/// One of the Java examples.
pub(crate) fn java(class: &str) -> Command {
    let out = tool("REENACT_JAVA_EXAMPLES", "java-examples");
    let mut java = Command::new("java");
    java.arg("-cp").arg(format!("{0}/classes:{0}/lib/*", out.display())).arg(format!("dev.reenact.examples.{class}"));
    java
}

fn python() -> Command {
    let mut python = Command::new(tool("REENACT_PYTHON", "python/bin/python"));
    python.env("PYTHONDONTWRITEBYTECODE", "1").arg(example("python/publish.py"));
    python
}

/// What a program printed that must succeed.
pub(crate) fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        tokio::task::block_in_place(|| command.output()).unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?} ended with {status}:\n{complaint}");
    String::from_utf8(stdout).expect("UTF-8")
}

/// The example starts a run that completes, and when it asks once more with the same id, nothing happens. `named`
/// is how it is told the id.
async fn starts_a_run_once(deployment: &Deployment, name: &str, program: impl Fn() -> Command, named: &[&str]) {
    let (session, id) = (format!("of {name}"), format!("asked by {name}"));
    let ask = |options: &[&str]| -> Value {
        let arguments = [&deployment.brokers, &deployment.prefix, "demo", &session, "What is 6*7?"];
        let said = done(program().args(arguments).args(options));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    };
    let named = [named, &[&id]].concat();
    let first = ask(&named);
    assert_eq!((&first["outcome"], &first["command_id"]), (&"accepted".into(), &Value::from(&*id)), "{first}");
    assert_eq!(first["session_id"], *session);
    let again = ask(&named);
    assert_eq!((&again["outcome"], &again["run_id"]), (&"duplicate".into(), &first["run_id"]), "{again}");
    // Without the id it is a new request.
    let other = ask(&[]);
    assert_eq!(other["outcome"], "accepted", "{other}");
    assert_ne!(other["run_id"], first["run_id"]);
    for answer in [first, other] {
        let run = deployment.settled(&answer).await;
        assert_eq!(run["status"], "COMPLETED", "{run:#}");
        assert!(run["content"].as_str().is_some_and(|content| content.contains("42")), "{run:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_starts_a_run_once_and_is_told() {
    let deployment = Deployment::start(2).await;
    let kcat = || Command::new(example("kcat.sh"));
    let rust = || Command::new(profile().join("examples/publish"));
    starts_a_run_once(&deployment, "kcat", kcat, &[]).await;
    starts_a_run_once(&deployment, "rust", rust, &[]).await;
    starts_a_run_once(&deployment, "java", || java("Publish"), &[]).await;
    starts_a_run_once(&deployment, "python", python, &["--id"]).await;
    starts_a_run_once(&deployment, "cloudevents", python, &["--cloudevents", "--id"]).await;

    // The examples' partitioners differ from each other, so that some of the commands had to be passed on.
    let records = topic::records(&deployment.brokers, &deployment.topic("commands"));
    let places = |id: &str| -> BTreeSet<i32> {
        let named = records.iter().filter(|record| {
            let value: Value = serde_json::from_slice(&record.value).expect("all are JSON");
            value["id"] == id || record.headers.get("ce_id").is_some_and(|known| known == id)
        });
        named.map(|record| record.partition).collect()
    };
    assert_eq!(places("asked by java").len(), 1, "murmur2 is the runtime's own");
    assert_eq!(places("asked by kcat").len(), 2, "CRC32 is another");
}
