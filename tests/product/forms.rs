//! Forms as no client writes them.

use reqwest::{Method, header::CONTENT_TYPE};

use crate::{
    support::{Answer, Product},
    world::World,
};

/// The boundary of forms that are written by hand.
const BOUNDARY: &str = "between-the-parts";

impl World {
    /// Sends a form that no client would write.
    pub(crate) async fn form_of(&self, parts: &[Part<'_>]) -> Answer {
        let mut body = Vec::new();
        for part in parts {
            part.write(&mut body);
        }
        body.extend(format!("--{BOUNDARY}--\r\n").bytes());
        let request = self.product.request(Method::POST, "/agents/a/runs").body(body);
        Product::ask(request.header(CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"))).await
    }
}

/// A part of a form, byte for byte.
pub(crate) enum Part<'a> {
    Field(&'a str, &'a [u8]),
    File { name: &'a [u8], mime: &'a str, bytes: &'a [u8] },
}

impl Part<'_> {
    fn write(&self, body: &mut Vec<u8>) {
        body.extend(format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"").bytes());
        let content = match self {
            Self::Field(name, value) => {
                body.extend(name.bytes());
                body.extend(b"\"\r\n\r\n");
                value
            }
            Self::File { name, mime, bytes } => {
                body.extend(b"files\"; filename=\"");
                body.extend(*name);
                body.extend(format!("\"\r\ncontent-type: {mime}\r\n\r\n").bytes());
                bytes
            }
        };
        body.extend(*content);
        body.extend(b"\r\n");
    }
}
