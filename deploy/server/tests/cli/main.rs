//! The program as a person starts it: real processes, sockets and signals.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

fn reenact(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reenact"));
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    reenact(folder).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a command that must succeed.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What a command that must fail says, after its exit status was checked.
fn refused(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

/// A server that was started and is ready.
struct Server {
    child: Child,
    url: String,
    // Kept open: a server that writes to a closed pipe would fail.
    _out: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut command = reenact(folder);
        command.args(["serve", "--listen", "127.0.0.1:0", "--drain-s", "5"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        let mut line = String::new();
        while out.read_line(&mut line).unwrap() > 0 {
            if let Some((_, address)) = line.trim_end().split_once("listens on ") {
                address.clone_into(&mut url);
            }
            if line.contains("try it") {
                return Self { child, url, _out: out };
            }
            line.clear();
        }
        let ended = child.wait().unwrap();
        panic!("it ended with {ended} before it was ready");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, as the test wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_first_conversation_works_from_an_empty_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = Server::start(folder);
    let url = server.url.clone();
    let answer = done(folder, &["run", "demo", "What is 6*7?", "--session", "s", "--url", &url]);
    assert!(answer.contains("calculator says: 42"), "{answer}");
    let whole: Value =
        serde_json::from_str(&done(folder, &["run", "demo", "and you?", "--session", "s", "--json", "--url", &url]))
            .unwrap();
    assert_eq!(whole["status"], "COMPLETED");
    let run_id = whole["run_id"].as_str().unwrap();

    let runs = done(folder, &["runs", "list", "--json", "--url", &url]);
    assert_eq!(runs.lines().count(), 2, "one object a line");
    assert!(done(folder, &["runs", "list", "--url", &url]).contains("2 of 2"));
    assert!(done(folder, &["runs", "show", run_id, "--url", &url]).contains("and you?"));
    assert!(done(folder, &["runs", "cancel", run_id, "--url", &url]).contains("COMPLETED"));
    assert!(
        refused(folder, &["runs", "continue", run_id, "--retry", "--url", &url], 1).contains("waits for no decision")
    );
    assert!(done(folder, &["sessions", "show", "s", "--url", &url]).contains("What is 6*7?"));
    assert!(refused(folder, &["run", "nobody", "x", "--url", &url], 1).contains("Agent not found"));

    // The log can be read beside the server, and after it.
    let events = done(folder, &["events", "list", "--json", "--run", run_id]);
    let kinds: Vec<_> =
        events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].to_string()).collect();
    assert!(kinds[0].contains("run.queued") && kinds.last().unwrap().contains("run.completed"), "{kinds:?}");
    assert!(refused(folder, &["serve", "--listen", "127.0.0.1:0"], 1).contains("is in use by process"));
    assert!(done(folder, &["doctor"]).contains("is in use by process"));
    server.signal("TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(done(folder, &["events", "list", "--json", "--run", run_id]), events);
    done(folder, &["doctor"]);
    assert!(done(folder, &["replay", run_id]).contains("the same: "));
    let replayed: Value = serde_json::from_str(&done(folder, &["replay", run_id, "--json"])).unwrap();
    assert_eq!((&replayed["same"], replayed["events"].as_u64()), (&Value::Bool(true), Some(kinds.len() as u64)));
    assert!(refused(folder, &["replay", "nobody"], 1).contains("is not in this log"));

    let server = Server::start(folder);
    done(folder, &["sessions", "delete", "s", "--url", &server.url]);
    assert!(done(folder, &["sessions", "list", "--url", &server.url]).contains("0 of 0"));
}

#[test]
fn a_person_at_a_stream_stays_with_the_run_when_the_server_is_killed_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::start(folder);
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    let mut command = reenact(folder);
    command.args(["run", "demo", "count to 30 then What is 6*7?", "--url", &server.url]);
    let mut client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Some words came: the answer is half told.
    let mut out = client.stdout.take().unwrap();
    let mut heard = vec![0; 1];
    out.read_exact(&mut heard).unwrap();
    server.signal("KILL");
    drop(server);
    let mut again = reenact(folder);
    again.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
    let child = again.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
    out.read_to_end(&mut heard).unwrap();
    let ended = client.wait_with_output().unwrap();
    let mut child = child;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(text(&heard).contains("42"), "{}", text(&heard));
    assert!(text(&ended.stderr).contains("the connection broke"));
}

#[test]
fn what_cannot_be_done_is_told_with_its_remedy_and_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (code, arguments, wanted) in [
        (1, vec!["serve", "--listen", &address], "another `reenact serve`"),
        (1, vec!["serve", "--listen", "0.0.0.0:0"], "--allow-unauthenticated"),
        (1, vec!["serve", "--agents", "nowhere"], "nowhere"),
        (1, vec!["serve", "--auth", "jwt"], "not in this version"),
        (2, vec!["serve", "--database", "mysql://localhost/x"], "`sqlite` or `postgres://"),
        (2, vec!["serve", "--database", "postgres://localhost/x"], "names no user"),
        (1, vec!["serve", "--database", "postgres://me:hush@127.0.0.1:1/x"], "`--database`"),
        (2, vec!["serve", "--listen", "here"], "127.0.0.1:7777"),
        (2, vec!["serve", "--nonsense"], "--nonsense"),
        (2, vec!["runs", "continue", "r"], "--retry"),
        (1, vec!["config", "--config", "missing.toml"], "missing.toml"),
        (1, vec!["runs", "list", "--url", "http://127.0.0.1:1"], "is `reenact serve` running?"),
        (1, vec!["events", "list"], "--data"),
    ] {
        let told = refused(folder, &arguments, code);
        assert!(told.contains(wanted), "{arguments:?}: {told}");
    }
    std::fs::create_dir_all(folder.join("foreign/log")).unwrap();
    std::fs::write(folder.join("foreign/log/log.db"), "something else").unwrap();
    let told = refused(folder, &["serve", "--listen", "127.0.0.1:0", "--data", "foreign"], 1);
    assert!(told.contains("is not a log of reenact"), "{told}");
    std::fs::write(folder.join("reenact.toml"), "listen = \"127.0.0.1:1\"\nnonsense = 1\n").unwrap();
    assert!(refused(folder, &["config"], 1).contains("`reenact.toml` line 2: there is no key `nonsense`"));
}

#[test]
fn what_reads_the_log_takes_the_configuration_as_serve_does() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // In the file, over it in the environment, over that on the command line.
    std::fs::write(folder.join("reenact.toml"), "data = \"from-file\"\n").unwrap();
    assert!(refused(folder, &["events", "list"], 1).contains("`from-file`"));
    let mut command = reenact(folder);
    command.args(["events", "list"]).env("REENACT_DATA", "from-environment");
    assert!(text(&command.output().unwrap().stderr).contains("`from-environment`"));
    assert!(refused(folder, &["events", "list", "--data", "said"], 1).contains("`said`"));
    std::fs::write(folder.join("other.toml"), "log = \"nowhere\"\n").unwrap();
    for arguments in [["events", "list", "--config", "other.toml"], ["dead-letters", "list", "--config", "other.toml"]]
    {
        assert!(refused(folder, &arguments, 1).contains("`other.toml` line 1: `log` cannot be `nowhere`"));
    }
}

#[test]
fn the_configuration_is_shown_with_its_sources_and_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("reenact.toml"), "drain_s = 9\n").unwrap();
    let mut command = reenact(folder);
    command.args(["config", "--json", "--data", "here"]).env("REENACT_SECURITY_KEY", "hush");
    let shown = text(&command.output().unwrap().stdout);
    assert!(!shown.contains("hush"));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["data"]["source"], "command line");
    assert_eq!(shown["drain-s"]["value"], "9");
    assert_eq!(shown["drain-s"]["source"], "`reenact.toml` line 1");
    assert_eq!(shown["listen"]["source"], "default");
    assert!(done(folder, &["completions", "bash"]).contains("reenact"));
}
