//! A model that answers at once, in whole or in chunks as it is asked, over real HTTP.

use tokio::net::{TcpListener, TcpStream};

use crate::wire::Wire;

const WHOLE: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"instant","choices":[{"index":0,"message":{"role":"assistant","content":"It arrives on Thursday."},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}"#;

const CHUNKS: &str = r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"instant","choices":[{"index":0,"delta":{"role":"assistant","content":"It arrives on Thursday."},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"instant","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}

data: [DONE]

"#;

/// Starts it, for as long as this process lives; its base URL.
pub(crate) async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the socket is bound");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("connections come");
            tokio::spawn(serve(stream));
        }
    });
    format!("http://{address}/v1")
}

async fn serve(stream: TcpStream) {
    let mut wire = Wire::over(stream);
    // A caller that is killed breaks its connections.
    while let Ok(Some(request)) = wire.receive().await {
        let asked = String::from_utf8_lossy(&request.body);
        let is_streamed = asked.contains(r#""stream":true"#) || asked.contains(r#""stream": true"#);
        let (kind, body) = if is_streamed { ("text/event-stream", CHUNKS) } else { ("application/json", WHOLE) };
        let length = body.len();
        wire.send(&format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")).await;
    }
}
