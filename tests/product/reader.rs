//! Somebody who watches a run, and may leave and come back.

use reqwest::Response;
use serde_json::Value;

use crate::support::{PATIENCE, Product};

/// One frame of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Frame {
    /// Its index; frames that only say how a stream goes on have none.
    pub(crate) fn index(&self) -> Option<u64> {
        self.data["event_index"].as_u64()
    }
}

/// A stream that is being read.
pub(crate) struct Reader {
    response: Response,
    unread: String,
}

impl Reader {
    /// Begins a run that goes on when its reader leaves.
    pub(crate) async fn begin(product: &Product, session: &str, message: &str) -> Self {
        let fields = [("message", message), ("session_id", session), ("background", "true"), ("stream", "true")];
        Self::of(product.form("/agents/a/runs", &fields)).await
    }

    /// Comes back to a run behind the frame that was seen last.
    pub(crate) async fn resume(product: &Product, run: &str, last: Option<u64>) -> Self {
        let last = last.map_or_else(|| "-1".to_owned(), |last| last.to_string());
        Self::of(product.form(&format!("/agents/a/runs/{run}/resume"), &[("last_event_index", &last)])).await
    }

    /// Reads what is answered to a request.
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("it answers");
        assert_eq!(response.status(), 200);
        Self { response, unread: String::new() }
    }

    /// The next frame; `None` when the stream has ended, or broke off.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        tokio::time::timeout(PATIENCE, self.one()).await.expect("the stream goes on or ends")
    }

    async fn one(&mut self) -> Option<Frame> {
        loop {
            while let Some(end) = self.unread.find("\n\n") {
                let text: String = self.unread.drain(..end + 2).collect();
                let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                    let data = serde_json::from_str(data).expect("a frame's data is JSON");
                    return Some(Frame { name: name.to_owned(), data });
                }
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.unread += std::str::from_utf8(&chunk).expect("the frames of these tests are ASCII");
        }
    }

    /// The frames up to and with the `count`th of this name.
    pub(crate) async fn until(&mut self, name: &str, count: usize) -> Vec<Frame> {
        let (mut seen, mut met) = (Vec::new(), 0);
        while met < count {
            let frame = self.next().await.unwrap_or_else(|| panic!("it ends after {met} of `{name}`: {seen:#?}"));
            met += usize::from(frame.name == name);
            seen.push(frame);
        }
        seen
    }

    /// The frames up to the end.
    pub(crate) async fn rest(mut self) -> Vec<Frame> {
        let mut seen = Vec::new();
        while let Some(frame) = self.next().await {
            seen.push(frame);
        }
        seen
    }
}

/// The run that frames tell of.
pub(crate) fn run_of(frames: &[Frame]) -> String {
    let first = frames.iter().find_map(|frame| frame.data["run_id"].as_str());
    first.expect("a frame names its run").to_owned()
}

/// The last index among them.
pub(crate) fn last_index(frames: &[Frame]) -> Option<u64> {
    frames.iter().filter_map(Frame::index).next_back()
}

/// Those that tell of the run, and not of the stream.
pub(crate) fn indexed(frames: &[Frame]) -> Vec<Frame> {
    frames.iter().filter(|frame| frame.index().is_some()).cloned().collect()
}

/// Checks that no index comes twice or late.
pub(crate) fn in_order(frames: &[Frame]) {
    let indexes: Vec<_> = frames.iter().filter_map(Frame::index).collect();
    assert!(indexes.is_sorted_by(|a, b| a < b), "{indexes:?}");
}

/// The words of the answer, without those of attempts that were given up.
pub(crate) fn words(frames: &[Frame]) -> String {
    let void = frames.iter().rposition(|frame| frame.data.to_string().contains("attempt_restarted"));
    let frames = frames[void.unwrap_or_default()..].iter().filter(|frame| frame.name == "RunContent");
    frames.filter_map(|frame| frame.data["content"].as_str()).collect()
}
