//! Cuts a body into frames: an event stream's `data`, or one JSON value that is the whole body.
//!
//! What came is seen by its first byte, not by `content-type`: servers get the header wrong. Frames are cut
//! as bytes and decoded whole, so a character that is split between two packets stays one.

use std::mem;

use crate::{http::ANSWER_BYTES_MAX, text};

/// The longest single frame: an answer of the largest size with room for escapes.
const FRAME_BYTES_MAX: usize = 2 * ANSWER_BYTES_MAX;
/// How much of a body that is no answer is kept to be shown.
const BEGINNING_BYTES_MAX: usize = 400;

/// One event of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its `data` lines.
    pub(super) data: String,
}

/// A frame is longer than any answer may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrameTooLarge;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shape {
    #[default]
    Unknown,
    Events,
    Whole,
}

/// A body while it comes in.
#[derive(Debug, Default)]
pub(super) struct Frames {
    shape: Shape,
    line: Vec<u8>,
    data: Vec<u8>,
    events: usize,
    beginning: Vec<u8>,
}

/// What is left when a body has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    /// `rest` is the whole body, which is JSON by its first byte.
    pub(super) whole_body: bool,
    /// The last frame, when nothing marked its end.
    pub(super) rest: Option<String>,
    /// The beginning of a body that was no answer at all.
    pub(super) nonsense: Option<String>,
}

impl Frames {
    /// Takes the next bytes and returns the frames that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, FrameTooLarge> {
        let room = BEGINNING_BYTES_MAX.saturating_sub(self.beginning.len());
        self.beginning.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let mut frames = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + self.data.len() + piece.len() > FRAME_BYTES_MAX {
                return Err(FrameTooLarge);
            }
            self.line.extend_from_slice(piece);
            self.look();
            if self.shape == Shape::Events && piece.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                frames.extend(self.end_of_line(line.trim_ascii_end()));
            }
        }
        Ok(frames)
    }

    /// Sees what the body is, as soon as there is a byte that tells.
    fn look(&mut self) {
        if self.shape == Shape::Unknown {
            let line = self.line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.line);
            match line.trim_ascii_start().first() {
                None => {}
                Some(b'{' | b'[') => self.shape = Shape::Whole,
                Some(_) => self.shape = Shape::Events,
            }
        }
    }

    fn end_of_line(&mut self, line: &[u8]) -> Option<Frame> {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        if line.is_empty() {
            return self.end_of_event();
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
        None
    }

    fn end_of_event(&mut self) -> Option<Frame> {
        if self.data.is_empty() {
            return None;
        }
        self.events += 1;
        Some(Frame { data: text::decode(mem::take(&mut self.data)) })
    }

    /// The body has ended.
    pub(super) fn finish(mut self) -> End {
        if self.shape == Shape::Whole {
            return End { whole_body: true, rest: Some(text::decode(self.line)), nonsense: None };
        }
        let line = mem::take(&mut self.line);
        let ended = self.end_of_line(line.trim_ascii_end());
        let rest = ended.or_else(|| self.end_of_event()).map(|frame| frame.data);
        let nonsense = (self.events == 0 && !self.beginning.trim_ascii().is_empty() && !self.is_comment())
            .then(|| text::decode(mem::take(&mut self.beginning)));
        End { whole_body: false, rest, nonsense }
    }

    fn is_comment(&self) -> bool {
        self.beginning.trim_ascii_start().starts_with(b":")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_of(body: &[u8], packet_bytes: usize) -> (Vec<String>, End) {
        let mut frames = Frames::default();
        let mut data = Vec::new();
        for packet in body.chunks(packet_bytes) {
            data.extend(frames.push(packet).unwrap().into_iter().map(|frame| frame.data));
        }
        (data, frames.finish())
    }

    #[test]
    fn frames_do_not_depend_on_how_the_network_cuts_them() {
        let body =
            "\u{FEFF}: hello\r\n\r\nevent: x\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:😀\n\ndata: [DONE]".as_bytes();
        for packet_bytes in 1..body.len() {
            let (data, end) = frames_of(body, packet_bytes);
            assert_eq!(data, ["{\"a\":\n1}", "😀"]);
            assert_eq!(end, End { whole_body: false, rest: Some("[DONE]".into()), nonsense: None });
        }
    }

    #[test]
    fn a_body_that_begins_as_json_is_one_frame() {
        let (data, end) = frames_of(b" \n{\n\"a\": 1\n}\n", 3);
        assert!(data.is_empty());
        assert!(end.whole_body);
        assert_eq!(end.rest.unwrap().trim(), "{\n\"a\": 1\n}");
    }

    #[test]
    fn a_page_is_nonsense_and_silence_is_not() {
        assert_eq!(frames_of(b"<html>\n</html>", 4).1.nonsense.as_deref(), Some("<html>\n</html>"));
        assert_eq!(frames_of(b"", 4).1, End::default());
        assert_eq!(frames_of(b": ping\n\n", 4).1, End::default());
    }
}
