//! AgentOS's API as Agno's own Python client uses it: `client.py` speaks to `reenact serve` and checks what
//! the client makes of the answers. What it checks, and what fails, is shown by the script itself.

mod described;
mod due_times;
mod server;

use std::{path::Path, process::Command, time::Duration};

use reenact_tests::stub::{LedgerStub, Reply};
use server::{Server, python};
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/client.py");

/// Runs a check of the script against a server.
fn satisfied(server: &Server, check: &str, arguments: &[&str]) {
    let output = Command::new(python())
        // Agno looks for settings in the environment: there are to be none.
        .env_clear()
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args([SCRIPT, server.url(), check])
        .args(arguments)
        .output()
        .expect("Python starts");
    // The client only logs an event that it does not know and goes on, so silence is asked for too.
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "`{check}` of Agno's client failed:\n{said}");
}

fn satisfied_by_the_built_in_agent(check: &str) {
    let folder = TempDir::new().expect("a folder");
    satisfied(&Server::start(folder.path()), check, &[]);
}

#[test]
fn the_configuration_and_the_agents_are_found() {
    satisfied_by_the_built_in_agent("discovery");
}

#[test]
fn a_run_is_started_and_its_output_read() {
    satisfied_by_the_built_in_agent("blocking_runs");
}

#[test]
fn a_run_is_streamed_as_typed_events() {
    satisfied_by_the_built_in_agent("streamed_runs");
}

#[test]
fn files_go_there_and_come_back_as_agnos_media() {
    satisfied_by_the_built_in_agent("media");
}

#[test]
fn sessions_are_made_read_changed_and_deleted() {
    satisfied_by_the_built_in_agent("sessions");
}

#[test]
fn sessions_are_listed_page_by_page() {
    satisfied_by_the_built_in_agent("pages");
}

#[test]
fn a_run_is_cancelled() {
    satisfied_by_the_built_in_agent("cancelling");
}

#[test]
fn a_run_in_the_background_is_polled() {
    satisfied_by_the_built_in_agent("polled");
}

#[test]
fn a_stream_that_was_left_is_resumed() {
    satisfied_by_the_built_in_agent("resumed");
}

#[test]
fn another_run_goes_on_from_a_message_and_says_so() {
    satisfied_by_the_built_in_agent("forked");
}

#[test]
fn what_waits_in_the_queue_is_seen_cancelled_and_queued_again() {
    let folder = TempDir::new().expect("a folder");
    satisfied(&Server::start_with(folder.path(), &[("REENACT_MAX_CONCURRENCY", "1")]), "queued", &[]);
}

/// A folder with the demo agent, and with one that takes one message of a session at a time.
fn with_a_single_minded_agent() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    write(folder.path(), "demo", "[model]\nprovider = \"demo\"\n[[tools]]\ntype = \"builtin\"\nname = \"sleep\"\n");
    let single = "[[tools]]\ntype = \"builtin\"\nname = \"sleep\"\n[queue]\nwhen_busy = \"reject\"\n";
    write(folder.path(), "single", &format!("[model]\nprovider = \"demo\"\n{single}"));
    folder
}

#[test]
fn a_full_queue_and_a_busy_session_refuse() {
    let folder = with_a_single_minded_agent();
    let settings = [("REENACT_MAX_CONCURRENCY", "1"), ("REENACT_MAX_QUEUE_DEPTH", "1")];
    satisfied(&Server::start_with(folder.path(), &settings), "full", &[]);
}

#[test]
fn a_request_with_a_key_is_one_run() {
    satisfied(&Server::start(with_a_single_minded_agent().path()), "keyed", &[]);
}

#[test]
fn a_server_that_is_not_there_is_told_from_one_that_refuses() {
    satisfied_by_the_built_in_agent("nobody_there");
}

#[tokio::test]
async fn a_run_that_waits_for_a_decision_is_continued() {
    let ledger = LedgerStub::start().await;
    ledger.otherwise(Reply::raw(200, "text/plain", "never").delay(Duration::from_secs(3600)));
    for (calls, how) in [(1, "blocking"), (2, "streaming")] {
        let folder = TempDir::new().expect("a folder");
        write_agent(folder.path(), &ledger.url("/refunds"));
        let server = Server::start(folder.path());
        let run = begin(&server).await;
        ledger.wait_for(calls).await;
        // Killed in the middle of a call that may have happened: nobody but a person can know.
        drop(server);
        let server = Server::start(folder.path());
        paused(&server, &run).await;
        satisfied(&server, "continued", &["shop", &run, "s", how]);
    }
}

/// An agent whose tools wait for people: `pay` for a confirmation, `book` for what somebody fills in, and `sign` is
/// done by somebody.
fn desk(ledger: &LedgerStub) -> TempDir {
    ledger.otherwise(Reply::raw(200, "text/plain", "booked"));
    let http = |name: &str| {
        let url = ledger.url(&format!("/{name}"));
        format!("[[tools]]\ntype = \"http\"\nname = \"{name}\"\nurl = \"{url}\"\nmethod = \"POST\"\n")
    };
    let agent = format!(
        "[model]\nprovider = \"demo\"\n{}requires_confirmation = true\n{}requires_user_input = true\n\
         user_input_fields = [\"days\"]\nparameters = {{ type = \"object\", required = [\"days\"], \
         properties = {{ days = {{ type = \"integer\" }} }} }}\n[[tools]]\ntype = \"external_execution\"\n\
         name = \"sign\"\n",
        http("pay"),
        http("book")
    );
    let folder = TempDir::new().expect("a folder");
    write(folder.path(), "desk", &agent);
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_people_are_agnos_requirements_and_are_decided_with_its_means() {
    let ledger = LedgerStub::start().await;
    satisfied(&Server::start(desk(&ledger).path()), "people", &[]);
    assert_eq!(ledger.calls().len(), 2, "what was rejected or done elsewhere was not called");
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_are_a_queue_that_decides() {
    let ledger = LedgerStub::start().await;
    satisfied(&Server::start(desk(&ledger).path()), "approved", &[]);
    assert_eq!(ledger.calls().len(), 1, "what was approved was called once");
}

/// Gives the folder an agent.
fn write(folder: &Path, name: &str, agent: &str) {
    let agents = folder.join("agents");
    std::fs::create_dir_all(&agents).expect("the folder is writable");
    std::fs::write(agents.join(format!("{name}.toml")), agent).expect("the folder is writable");
}

fn write_agent(folder: &Path, url: &str) {
    let agent = format!(
        "[model]\nprovider = \"demo\"\n[[tools]]\ntype = \"http\"\nname = \"refund\"\nurl = \"{url}\"\n\
         method = \"POST\"\neffect = \"at_most_once\"\ndescription = \"Refunds.\"\n\
         parameters = {{ type = \"object\", properties = {{}} }}\n"
    );
    write(folder, "shop", &agent);
}

async fn begin(server: &Server) -> String {
    let form = [("message", "refund {}"), ("session_id", "s"), ("background", "true"), ("stream", "false")];
    let form = form.iter().fold(reqwest::multipart::Form::new(), |form, (name, value)| form.text(*name, *value));
    let request = reqwest::Client::new().post(format!("{}/agents/shop/runs", server.url())).multipart(form);
    let ticket = request.send().await.expect("an answer").text().await.expect("a body");
    let ticket: serde_json::Value = serde_json::from_str(&ticket).expect("JSON");
    ticket["run_id"].as_str().unwrap_or_else(|| panic!("{ticket}")).to_owned()
}

async fn paused(server: &Server, run: &str) {
    let url = format!("{}/runs/{run}", server.url());
    let status = async {
        loop {
            let run = reqwest::get(&url).await.expect("an answer").text().await.expect("a body");
            if run.contains("\"status\":\"PAUSED\"") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), status).await.expect("the run comes to wait");
}
