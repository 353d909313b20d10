//! A22: images as base64 in the session's row, read again with every turn.

use std::{fs, path::PathBuf, time::Instant};

use reenact_tests::stub::{ModelRequest, Reply};
use reqwest::Method;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::{
    forms::Part,
    support::{PATIENCE, POLL, Product},
    world::{World, notes},
};

const IMAGE_BYTES: usize = 5_000_000;
const ROW_BYTES_MAX: i64 = 20_000;
/// Everything that was said is sent again with every turn.
const MINDFUL: &str = "[history]\nruns = 20";

/// A file whose bytes are three letters again and again, and so is its base64 with four.
#[derive(Debug, Clone, Copy)]
struct File {
    letters: &'static str,
    base64: &'static str,
    mime: &'static str,
    /// Where AgentOS lists it.
    place: &'static str,
    bytes: usize,
}

impl File {
    const fn image(letters: &'static str, base64: &'static str) -> Self {
        Self { letters, base64, mime: "image/png", place: "images", bytes: IMAGE_BYTES }
    }

    fn bytes(self) -> Vec<u8> {
        self.letters.repeat(self.bytes / 3).into_bytes()
    }

    /// Whether a request to the model has the whole file.
    fn is_in(self, request: &ModelRequest) -> bool {
        let base64 = self.base64.repeat(self.bytes / 3);
        let parts = request.messages().iter().filter_map(|message| message["content"].as_array()).flatten();
        let data = |part: &Value| {
            let places = [&part["image_url"]["url"], &part["input_audio"]["data"], &part["file"]["file_data"]];
            places.into_iter().find_map(Value::as_str).is_some_and(|data| data.ends_with(&base64))
        };
        parts.into_iter().any(data)
    }
}

const FILES: [File; 6] = [
    File::image("abc", "YWJj"),
    File::image("abd", "YWJk"),
    File::image("abe", "YWJl"),
    File::image("abf", "YWJm"),
    File { letters: "abg", base64: "YWJn", mime: "audio/wav", place: "audios", bytes: 1_000_000 },
    File { letters: "abh", base64: "YWJo", mime: "application/pdf", place: "files", bytes: 1_000_000 },
];
const OF_TOOL: File = File::image("abi", "YWJp");

async fn show(world: &World, session: &str, file: File) -> Value {
    let bytes = file.bytes();
    let parts = [
        Part::Field("message", b"look"),
        Part::Field("session_id", session.as_bytes()),
        Part::Field("stream", b"false"),
        Part::File { name: b"shown", mime: file.mime, bytes: &bytes },
    ];
    let run = world.form_of(&parts).await.expect(200).json();
    assert_eq!(run["status"], "COMPLETED", "{run:#}");
    run
}

/// Where the product keeps the bytes of this id.
fn object(world: &World, id: &str) -> PathBuf {
    world.product.data().join("blobs").join(&id[..2]).join(&id[2..4]).join(id)
}

fn id_of(file: &Value) -> String {
    file["id"].as_str().expect("a file has an id").to_owned()
}

/// Checks that neither a row nor an event holds the files.
fn rows_and_events_are_small(world: &World) {
    let views = Connection::open_with_flags(world.product.data().join("views.db"), OpenFlags::SQLITE_OPEN_READ_ONLY);
    let largest = "SELECT max(length(run_data)) FROM runs";
    let row: i64 = views.expect("there are views").query_row(largest, [], |row| row.get(0)).expect("there are runs");
    assert!(row < ROW_BYTES_MAX, "a run's row has {row} bytes");
    for event in world.product.events() {
        let bytes = i64::try_from(event.to_string().len()).expect("it is small");
        assert!(bytes < ROW_BYTES_MAX, "an event has {bytes} bytes: {}", event["type"]);
    }
}

#[tokio::test]
async fn a22_files_are_kept_once_beside_the_rows_and_sent_to_the_model_with_every_turn() {
    let mut world = World::with(MINDFUL).await;
    for file in FILES {
        let run = show(&world, "s", file).await;
        let id = id_of(&run["input"][file.place][0]);
        assert!(fs::read(object(&world, &id)).expect("it is kept") == file.bytes(), "{file:?} is kept as it came");
    }
    world.model.push(notes(&["{}"]));
    world.ledger.push(Reply::raw(200, OF_TOOL.mime, OF_TOOL.bytes()));
    let run = world.turn("s", "draw").await;
    let id = id_of(&run["images"][0]);
    assert!(fs::read(object(&world, &id)).expect("it is kept") == OF_TOOL.bytes(), "the tool's file is kept");

    world.rebuild().await;
    world.turn("s", "what did you see?").await;
    let last = world.model.requests().pop().expect("it was asked");
    for file in FILES.iter().chain([&OF_TOOL]) {
        assert!(file.is_in(&last), "the model was not sent {file:?}");
    }
    assert_eq!(last.malformed(), None);
    rows_and_events_are_small(&world);
}

/// Waits until an object is removed.
async fn gone(world: &World, id: &str) {
    let began = Instant::now();
    while object(world, id).exists() {
        assert!(began.elapsed() < PATIENCE, "`{id}` is still there\n{}", world.product.said());
        tokio::time::sleep(POLL).await;
    }
}

async fn delete(world: &World, session: &str) {
    Product::ask(world.product.request(Method::DELETE, &format!("/sessions/{session}"))).await.expect(204);
}

#[tokio::test]
async fn a22_files_go_with_the_last_session_that_refers_to_them() {
    let mut world = World::set(MINDFUL, |product| product.set("REENACT_BLOB_GRACE_S", 1)).await;
    let of_one = id_of(&show(&world, "one", FILES[4]).await["input"]["audios"][0]);
    let of_both = id_of(&show(&world, "one", FILES[5]).await["input"]["files"][0]);
    assert_eq!(id_of(&show(&world, "two", FILES[5]).await["input"]["files"][0]), of_both);
    delete(&world, "one").await;
    gone(&world, &of_one).await;
    assert!(object(&world, &of_both).exists(), "another session refers to it");
    world.rebuild().await;
    world.turn("two", "and now?").await;
    assert!(FILES[5].is_in(&world.model.requests().pop().expect("it was asked")));
    delete(&world, "two").await;
    gone(&world, &of_both).await;
    world.turn("three", "go on").await;
}

#[tokio::test]
async fn a22_a_store_that_is_down_refuses_files_and_fails_runs_with_a_reason() {
    let world = World::with(MINDFUL).await;
    show(&world, "s", FILES[5]).await;
    let (blobs, away) = (world.product.data().join("blobs"), world.product.data().join("away"));
    fs::rename(&blobs, &away).expect("it is a folder");
    fs::write(&blobs, "no folder").expect("the folder is writable");
    let file = json!([{"content": "JVBERg==", "mime_type": "application/pdf"}]).to_string();
    let form = [("message", "look"), ("session_id", "new"), ("input_files", file.as_str())];
    let refused = world.product.post("/agents/a/runs", &form).await.expect(503);
    assert!(refused.text().contains("object store"), "{}", refused.text());
    assert!(refused.headers.contains_key("retry-after"));
    world.product.get("/sessions/new").await.expect(404);
    let failed = world.product.turn("a", "s", "and now?").await;
    assert_eq!(failed["status"], "ERROR");
    assert!(failed["content"].as_str().expect("a reason").contains("object store"), "{}", failed["content"]);
    assert_eq!(world.turn("other", "hello").await["content"], "ok", "a run without files goes on");
    fs::remove_file(&blobs).expect("it is a file");
    fs::rename(&away, &blobs).expect("it was there");
    world.turn("s", "and now?").await;
    assert!(FILES[5].is_in(&world.model.requests().pop().expect("it was asked")));
}
