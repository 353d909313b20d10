//! As little HTTP/1.1 as a load needs, over one connection: who makes the load and who is the model share the
//! processor with what is measured, so they are to cost next to nothing.

use std::io;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// A request or an answer: its first line and its body.
pub(crate) struct Message {
    pub(crate) first_line: String,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// The status of an answer.
    pub(crate) fn status(&self) -> u16 {
        self.first_line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("an answer has a status")
    }

    /// The body of an answer that is to have a status.
    pub(crate) fn expect(self, status: u16) -> Vec<u8> {
        assert_eq!(self.status(), status, "{}", String::from_utf8_lossy(&self.body));
        self.body
    }
}

/// One connection, used for one request after another.
pub(crate) struct Wire(BufReader<TcpStream>);

impl Wire {
    /// Connects to `host:port`.
    pub(crate) async fn to(address: &str) -> Self {
        Self::over(TcpStream::connect(address).await.expect("somebody listens"))
    }

    /// Speaks over a connection that is there.
    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a TCP connection has no delay when asked");
        Self(BufReader::with_capacity(64 << 10, stream))
    }

    /// Reads a path.
    pub(crate) async fn get(&mut self, path: &str) -> Message {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n")).await;
        self.receive().await.expect("the connection holds").expect("it is answered")
    }

    /// Sends a form whose values need no escaping but for spaces.
    pub(crate) async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Message {
        let fields = form.iter().map(|(name, value)| format!("{name}={}", value.replace(' ', "+")));
        let body = fields.collect::<Vec<_>>().join("&");
        let kind = "application/x-www-form-urlencoded";
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: {kind}\r\ncontent-length: {length}");
        self.send(&format!("{head}\r\n\r\n{body}")).await;
        self.receive().await.expect("the connection holds").expect("it is answered")
    }

    /// Sends text as it stands.
    pub(crate) async fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).await.expect("the connection holds");
    }

    /// The next message, with its whole body; `None` when the other side has closed.
    pub(crate) async fn receive(&mut self) -> io::Result<Option<Message>> {
        let Some((first_line, body)) = self.head().await? else { return Ok(None) };
        let body = match body {
            Body::Of(length) => {
                let mut body = vec![0; length];
                self.0.read_exact(&mut body).await?;
                body
            }
            Body::InChunks => {
                let mut body = Vec::new();
                while let Some(chunk) = self.chunk().await? {
                    body.extend(chunk);
                }
                body
            }
        };
        Ok(Some(Message { first_line, body }))
    }

    /// The next piece of a body in chunks; `None` after the last.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line().await?;
        let length = usize::from_str_radix(&line, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk).await?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// The head of the next message.
    pub(crate) async fn head(&mut self) -> io::Result<Option<(String, Body)>> {
        let first_line = self.line().await?;
        if first_line.is_empty() {
            return Ok(None);
        }
        let mut body = Body::Of(0);
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", length)) => {
                    body = Body::Of(length.parse().map_err(|_| io::ErrorKind::InvalidData)?);
                }
                Some(("transfer-encoding", "chunked")) => body = Body::InChunks,
                None if line.is_empty() => return Ok(Some((first_line, body))),
                _ => {}
            }
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}

/// How a body is told from what comes after it.
pub(crate) enum Body {
    /// By its length.
    Of(usize),
    /// It comes in pieces.
    InChunks,
}
