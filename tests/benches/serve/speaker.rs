//! A model that waits for a word of ours before it speaks, and then speaks at a pace.

use std::{sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use crate::wire::Wire;

/// How a model speaks.
#[derive(Clone, Copy)]
pub(crate) struct Speech {
    pub(crate) words: usize,
    /// Before each word; zero is as fast as it can.
    pub(crate) pause: Duration,
}

/// All that a model says in so many words.
pub(crate) fn said(words: usize) -> String {
    (0..words).map(word).collect()
}

fn word(number: usize) -> String {
    format!("word{number} ")
}

/// See the module.
pub(crate) struct Speaker {
    pub(crate) base_url: String,
    wishes: Arc<Wishes>,
}

/// What the two sides wait for.
struct Wishes {
    asked: Semaphore,
    go: Semaphore,
}

async fn take(wish: &Semaphore) {
    wish.acquire().await.expect("it stays open").forget();
}

impl Speaker {
    /// Starts it, for as long as this process lives.
    pub(crate) async fn start(speech: Speech) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the socket is bound");
        let wishes = Arc::new(Wishes { asked: Semaphore::new(0), go: Semaphore::new(0) });
        let heard = wishes.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("connections come");
                tokio::spawn(serve(stream, speech, heard.clone()));
            }
        });
        Self { base_url: format!("http://{address}/v1"), wishes }
    }

    /// Waits until it was asked once more.
    pub(crate) async fn asked(&self) {
        take(&self.wishes.asked).await;
    }

    /// Lets it answer one request.
    pub(crate) fn speak(&self) {
        self.wishes.go.add_permits(1);
    }
}

async fn serve(stream: TcpStream, speech: Speech, wishes: Arc<Wishes>) {
    let mut wire = Wire::over(stream);
    // A caller that is killed breaks its connections.
    while let Ok(Some(_)) = wire.receive().await {
        wishes.asked.add_permits(1);
        take(&wishes.go).await;
        wire.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let mut beats = (!speech.pause.is_zero()).then(|| tokio::time::interval(speech.pause));
        for number in 0..speech.words {
            if let Some(beats) = &mut beats {
                beats.tick().await;
            }
            chunk(&mut wire, &format!(r#"{{"content":"{}"}}"#, word(number)), "null").await;
        }
        chunk(&mut wire, "{}", r#""stop""#).await;
        wire.send("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").await;
    }
}

async fn chunk(wire: &mut Wire, delta: &str, reason: &str) {
    let choice = format!(r#"{{"index":0,"delta":{delta},"finish_reason":{reason}}}"#);
    let data = format!("data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{choice}]}}\n\n");
    wire.send(&format!("{:x}\r\n{data}\r\n", data.len())).await;
}
