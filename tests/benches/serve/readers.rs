//! A thousand readers of one run's stream: each must get every frame, byte for byte what the others get, and the run is
//! to take as long as with one reader. A reader that misses something is a failure.

use std::time::{Duration, SystemTime};

use chrono::DateTime;
use futures::future::join_all;
use reenact_tests::product::{Product, agent_with_model};

use crate::{
    line,
    load::start,
    median,
    speaker::{Speaker, Speech, said},
    wire::Wire,
};

const MANY: usize = 1_000;
const ROUNDS: usize = 5;
/// A model as people have it, and one that is only bounded by us.
const PACED: Speech = Speech { words: 200, pause: Duration::from_millis(20) };
const FAST: Speech = Speech { words: 2_000, pause: Duration::ZERO };

pub(crate) async fn report() {
    told("50 words/s", PACED, "<= 1.1").await;
    told("as fast as can be", FAST, "-").await;
}

async fn told(how: &str, speech: Speech, target: &str) {
    let speaker = Speaker::start(speech).await;
    let product = Product::new().agent("bench", &agent_with_model(&speaker.base_url)).started().await;
    let stage = Stage { product: &product, speaker: &speaker, words: speech.words };
    stage.round(1, "warm").await;
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        alone.push(stage.round(1, &format!("alone-{round}")).await);
        watched.push(stage.round(MANY, &format!("watched-{round}")).await);
    }
    let told = |rounds: &[Round], figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let (short, long) = (told(&alone, |round| round.run), told(&watched, |round| round.run));
    line(&format!("duration of a run, 1,000 readers / 1, {how}"), long / short, target);
    println!("  ({long:.3} s and {short:.3} s; the last reader has all after {:.3} s)", told(&watched, |r| r.readers));
}

struct Stage<'a> {
    product: &'a Product,
    speaker: &'a Speaker,
    words: usize,
}

/// Seconds from the model's first word.
struct Round {
    /// Until the run's end was decided.
    run: f64,
    /// Until every reader had the end.
    readers: f64,
}

impl Stage<'_> {
    async fn round(&self, readers: usize, session: &str) -> Round {
        let address = self.product.url().trim_start_matches("http://").to_owned();
        let run = start(&mut Wire::to(&address).await, session).await;
        // Everybody comes after the run has begun, and is shown the same.
        self.speaker.asked().await;
        let path = format!("/agents/bench/runs/{run}/resume");
        let mut streams = join_all((0..readers).map(|_| Stream::of(&address, &path))).await;
        let began = now();
        self.speaker.speak();
        join_all(streams.iter_mut().map(Stream::read)).await;
        let readers = began.elapsed().expect("the clock goes on").as_secs_f64();
        self.check(&streams);
        let began = began.duration_since(SystemTime::UNIX_EPOCH).expect("it is later").as_millis();
        Round { run: (self.ended_at(&run) - began as f64) / 1e3, readers }
    }

    /// Everybody has all words, the end, and what the others have.
    fn check(&self, streams: &[Stream]) {
        let first = String::from_utf8_lossy(&streams[0].got);
        assert_eq!(words(&first), said(self.words), "a word is missing");
        assert_eq!(first.matches("event: RunCompleted\n").count(), 1, "the end is missing");
        let others = streams.iter().filter(|stream| stream.got != streams[0].got).count();
        assert_eq!(others, 0, "so many readers got something else");
    }

    /// When a run completed, in milliseconds as its event says.
    fn ended_at(&self, run: &str) -> f64 {
        let is_end = |event: &serde_json::Value| event["type"] == "dev.reenact.run.completed.v1" && event["run"] == run;
        let event = self.product.events().into_iter().rfind(is_end).expect("the run has completed");
        let at = event["time"].as_str().and_then(|time| DateTime::parse_from_rfc3339(time).ok());
        at.expect("an event has a time").timestamp_millis() as f64
    }
}

/// The words of a stream; those that came together are one frame.
fn words(stream: &str) -> String {
    let frames = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let frames = frames.map(|data| serde_json::from_str::<serde_json::Value>(data).expect("JSON"));
    let of_words = frames.filter(|frame| frame["event"] == "RunContent");
    of_words.map(|frame| frame["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[expect(clippy::disallowed_methods, reason = "the events' times, which it is compared with, are of this clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// A reader that has subscribed.
struct Stream {
    wire: Wire,
    got: Vec<u8>,
}

const SUBSCRIBED: &[u8] = b"event: subscribed\n";

impl Stream {
    async fn of(address: &str, path: &str) -> Self {
        let mut wire = Wire::to(address).await;
        wire.send(&format!("POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: 0\r\n\r\n")).await;
        let (status, _) = wire.head().await.expect("the connection holds").expect("it is answered");
        assert!(status.contains("200"), "{status}");
        let mut seen = Vec::new();
        while !seen.windows(SUBSCRIBED.len()).any(|window| window == SUBSCRIBED) {
            seen.extend(wire.chunk().await.expect("the connection holds").expect("the run goes on"));
        }
        Self { wire, got: Vec::new() }
    }

    /// Reads until the stream ends.
    async fn read(&mut self) {
        while let Some(chunk) = self.wire.chunk().await.expect("the connection holds") {
            self.got.extend(chunk);
        }
    }
}
