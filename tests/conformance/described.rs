//! The API is asked all that its description allows, and what it does not allow, by schemathesis: every field of every
//! route wrong in every usual way. What it answers must be what the description says, and nobody else's things may
//! change by it.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::server::{Server, python};

/// Whose things nobody here asks for by name.
const SOMEBODY: &str = "somebody-else";
/// What the agent is told; its call waits for somebody then.
const SUM: &str = "What is 6*7?";
const CAREFUL: &str = "[model]\nprovider = \"demo\"\n[[tools]]\ntype = \"builtin\"\nname = \"calculator\"\n\
                       requires_confirmation = true\n";

#[tokio::test]
async fn whatever_a_request_says_the_answer_is_one_that_the_description_names() {
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("agents")).expect("the folder is writable");
    fs::write(folder.path().join("agents/careful.toml"), CAREFUL).expect("the folder is writable");
    let server = Server::start(folder.path());
    let api = Api { http: reqwest::Client::new(), url: server.url().to_owned() };
    for (user, session) in [(None, "known"), (Some(SOMEBODY), "theirs")] {
        for what in ["waiting", "cancelled"] {
            api.run(&format!("{session}-{what}"), user).await;
        }
    }
    api.cancel("known-cancelled").await;
    let theirs = api.things_of(SOMEBODY).await;
    write_known(folder.path(), &api.things_of("").await);
    fs::write(folder.path().join("lenient.py"), include_str!("lenient.py")).expect("the folder is writable");
    let output = Command::new(python())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-m", "schemathesis.cli", "run", &api.path("/openapi.json")])
        .current_dir(folder.path())
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "not all is as it is described:\n{said}");
    assert_eq!(api.things_of(SOMEBODY).await, theirs, "what was asked changed what is somebody else's");
}

/// Tells schemathesis what is there to be asked for, beside what it thinks of.
fn write_known(folder: &Path, known: &[Value]) {
    let [runs, approvals] = known else { panic!("there are lists of runs and of approvals: {known:?}") };
    let ids = |list: &Value, id: &str| {
        let list = list["data"].as_array().expect("a list");
        let ids: Vec<_> = list.iter().map(|thing| thing[id].as_str().expect("an id").to_owned()).collect();
        assert!(!ids.is_empty(), "something is known: {list:?}");
        ids
    };
    let dictionaries = [
        (vec!["agent_id"], vec!["careful".to_owned()]),
        (vec!["run_id", "job_id"], ids(runs, "run_id")),
        (vec!["session_id"], ids(runs, "session_id")),
        (vec!["approval_id"], ids(approvals, "id")),
    ];
    let mut settings = include_str!("schemathesis.toml").to_owned();
    for (names, values) in dictionaries {
        settings.push_str(&format!("\n[dictionaries.{}]\nvalues = {values:?}\n", names[0]));
        for name in &names {
            settings
                .push_str(&format!("[parameters.\"path.{name}\"]\ndictionary = \"{}\"\nprobability = 0.7\n", names[0]));
        }
    }
    fs::write(folder.join("schemathesis.toml"), settings).expect("the folder is writable");
}

struct Api {
    http: reqwest::Client,
    url: String,
}

impl Api {
    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Starts a run and waits until it waits for somebody.
    async fn run(&self, session: &str, user: Option<&str>) {
        let fields = [("message", SUM), ("session_id", session), ("stream", "false")];
        let fields = fields.into_iter().chain(user.map(|user| ("user_id", user)));
        let form = fields
            .fold(reqwest::multipart::Form::new(), |form, (name, value)| form.text(name.to_owned(), value.to_owned()));
        let answer = self.http.post(self.path("/agents/careful/runs")).multipart(form).send().await;
        assert_eq!(answer.expect("an answer").status(), 200);
    }

    /// Cancels the run of a session.
    async fn cancel(&self, session: &str) {
        let runs = self.things_of("").await.remove(0);
        let runs = runs["data"].as_array().expect("a list");
        let run = runs.iter().find(|run| run["session_id"] == session).expect("the session has a run");
        let path = format!("/agents/careful/runs/{}/cancel", run["run_id"].as_str().expect("an id"));
        assert_eq!(self.http.post(self.path(&path)).send().await.expect("an answer").status(), 200);
    }

    /// The runs and approvals of a user, or those without one.
    async fn things_of(&self, user: &str) -> Vec<Value> {
        let mut things = Vec::new();
        for path in ["/runs", "/approvals"] {
            let request = self.http.get(self.path(&format!("{path}?user_id={user}&limit=1000")));
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 200);
            let mut list: Value = serde_json::from_str(&answer.text().await.expect("a body")).expect("JSON");
            list.as_object_mut().expect("a page").remove("meta");
            let of_user = |thing: &Value| thing["user_id"].as_str().unwrap_or_default() == user;
            list["data"].as_array_mut().expect("a list").retain(of_user);
            things.push(list);
        }
        things
    }
}
