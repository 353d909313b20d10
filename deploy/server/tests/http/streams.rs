//! Watching runs, and coming back to them.

use futures::StreamExt;

use crate::support::{Seen, Server, counts, form, heard};

const RUNS: &str = "/agents/demo/runs";

fn resume(run: &str, last: Option<u64>) -> axum::http::Request<axum::body::Body> {
    let last = last.map(|last| last.to_string());
    let fields: Vec<_> = last.iter().map(|last| ("last_event_index", last.as_str())).collect();
    form(&format!("{RUNS}/{run}/resume"), &fields)
}

fn indexed(frames: &[Seen]) -> Vec<Seen> {
    frames.iter().filter(|frame| frame.index().is_some()).cloned().collect()
}

fn run_of(frames: &[Seen]) -> String {
    frames[0].data["run_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_stream_tells_the_run_as_agentos_does() {
    let server = Server::start().await;
    let frames = server.whole_stream(form(RUNS, &[("message", "What is 6*7?")])).await;
    assert_eq!(frames.first().unwrap().name, "RunStarted");
    let end = frames.last().unwrap();
    assert_eq!(end.name, "RunCompleted");
    let counts = counts(&frames);
    assert_eq!((counts["ModelRequestStarted"], counts["ToolCallStarted"], counts["ToolCallCompleted"]), (2, 1, 1));
    assert!(heard(&frames).ends_with(end.data["content"].as_str().unwrap()));
    assert!(
        frames.iter().all(|frame| frame.id == frame.index().unwrap().to_string() && frame.data["event"] == frame.name)
    );
}

#[tokio::test]
async fn a07_whoever_comes_back_gets_what_an_uninterrupted_reader_got() {
    let server = Server::start().await;
    let all = server.whole_stream(form(RUNS, &[("message", "What is 6*7?")])).await;
    let run = run_of(&all);
    for at in 0..all.len() {
        let rest = server.whole_stream(resume(&run, all[at].index())).await;
        assert_eq!(rest[0].name, "replay");
        assert_eq!(rest[0].data["status"], "COMPLETED");
        assert_eq!(rest[1..], all[at + 1..], "after frame {at}");
    }
    let whole = server.whole_stream(resume(&run, None)).await;
    assert_eq!(whole[1..], all);
}

#[tokio::test]
async fn a07_a_stream_of_a_run_that_ended_before_a_restart_is_made_from_what_is_stored() {
    let server = Server::start().await;
    let all = server.whole_stream(form(RUNS, &[("message", "What is 6*7?")])).await;
    let run = run_of(&all);
    let server = server.restart().await;
    let fresh = server.whole_stream(resume(&run, None)).await;
    assert_eq!(heard(&fresh), heard(&all));
    assert_eq!(fresh.last(), all.last());
    let words = all.iter().position(|frame| frame.name == "RunContent").unwrap();
    let rest = server.whole_stream(resume(&run, all[words].index())).await;
    let union: Vec<_> = all[..=words].iter().chain(&rest[1..]).cloned().collect();
    assert_eq!(heard(&union), heard(&all), "words that were seen and are not kept are declared void");
    let indices: Vec<_> = indexed(&union).iter().filter_map(Seen::index).collect();
    assert!(indices.windows(2).all(|pair| pair[0] < pair[1]), "{indices:?}");
}

#[tokio::test]
async fn a08_indices_grow_strictly_across_a_restart_in_the_middle() {
    let server = Server::start().await;
    let fields = [("message", "sleep 0.3 then What is 6*7?"), ("background", "true")];
    let mut stream = server.stream(form(RUNS, &fields)).await;
    let mut seen = Vec::new();
    while let Some(frame) = stream.next().await {
        let last = frame.name == "ToolCallStarted";
        seen.push(frame);
        if last {
            break;
        }
    }
    drop(stream);
    let run = run_of(&seen);
    let server = server.restart().await;
    let rest = server.whole_stream(resume(&run, seen.last().unwrap().index())).await;
    let union: Vec<_> = seen.into_iter().chain(rest).collect();
    let indices: Vec<_> = indexed(&union).iter().filter_map(Seen::index).collect();
    assert!(indices.windows(2).all(|pair| pair[0] < pair[1]), "{indices:?}");
    assert_eq!(union.last().unwrap().name, "RunCompleted");
    assert_eq!(counts(&union)["ToolCallCompleted"], 2);
}

#[tokio::test]
async fn a_reader_who_comes_while_the_run_is_at_work_catches_up_and_goes_on() {
    let server = Server::start().await;
    let run = server.background("demo", &[("message", "sleep 0.5")]).await;
    server.until(&run, "RUNNING").await;
    let frames = server.whole_stream(resume(&run, None)).await;
    let counts = counts(&frames);
    assert_eq!(counts["subscribed"], 1);
    assert_eq!(frames.last().unwrap().name, "RunCompleted");
    assert_eq!((counts["RunStarted"], counts["ToolCallCompleted"]), (1, 1));
}

#[tokio::test]
async fn leaving_an_inline_stream_cancels_the_run_and_leaving_a_background_one_does_not() {
    let server = Server::start().await;
    for (background, status) in [("false", "CANCELLED"), ("true", "COMPLETED")] {
        let fields = [("message", "sleep 0.5"), ("background", background)];
        let mut stream = server.stream(form(RUNS, &fields)).await;
        let first = stream.next().await.unwrap();
        drop(stream);
        server.until(&run_of(&[first]), status).await;
    }
}

#[tokio::test]
async fn whoever_leaves_with_a_key_can_come_back_to_the_run() {
    let server = Server::start().await;
    let request = || {
        let mut request = form(RUNS, &[("message", "sleep 0.5")]);
        request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
        request
    };
    let mut stream = server.stream(request()).await;
    let first = stream.next().await.unwrap();
    drop(stream);
    let again = server.whole_stream(request()).await;
    assert_eq!((run_of(&[first]), counts(&again)["RunCompleted"]), (run_of(&again), 1));
}

#[tokio::test]
async fn last_event_id_says_the_same_as_the_form() {
    let server = Server::start().await;
    let all = server.whole_stream(form(RUNS, &[("message", "hi")])).await;
    let run = run_of(&all);
    let mut request = resume(&run, None);
    request.headers_mut().insert("last-event-id", all[2].id.parse().unwrap());
    assert_eq!(server.whole_stream(request).await[1..], all[3..]);
    let mut bad = resume(&run, None);
    bad.headers_mut().insert("last-event-id", "abc".parse().unwrap());
    server.ask(bad).await.expect(422);
    let none = form(&format!("{RUNS}/{run}/resume"), &[("last_event_index", "-1")]);
    assert_eq!(server.whole_stream(none).await[1..], all);
}
