//! How we know that a broker serves: it is asked which brokers it sees, with the smallest request there is.
//!
//! A port that accepts connections proves little. The answer to a `Metadata` request (version 1, which every 4.x
//! understands) lists the brokers that the controller considers alive, so it also tells when a cluster is whole.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, bail};

const TIMEOUT: Duration = Duration::from_secs(2);

/// An answer names a few brokers and no topic; anything longer is not from Kafka.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The ids of the brokers that the one at `port` sees.
pub(crate) fn brokers_seen_by(port: u16) -> anyhow::Result<BTreeSet<u16>> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&request())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > ANSWER_BYTES_MAX {
        bail!("what listens on port {port} is not Kafka");
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    broker_ids(&answer).with_context(|| format!("what listens on port {port} is not Kafka"))
}

/// Length, api key 3, version 1, correlation id, client name, and an empty list of topics.
fn request() -> Vec<u8> {
    const CLIENT: &[u8; 3] = b"rig";
    let mut body = Vec::new();
    body.extend(3_i16.to_be_bytes());
    body.extend(1_i16.to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend(3_i16.to_be_bytes());
    body.extend(CLIENT);
    body.extend(0_i32.to_be_bytes());
    // The body is 17 bytes long.
    [&17_i32.to_be_bytes()[..], &body].concat()
}

/// Correlation id, then an array of brokers: id, host, port, rack.
fn broker_ids(answer: &[u8]) -> Option<BTreeSet<u16>> {
    let mut rest = answer.get(4..)?;
    let count = i32::from_be_bytes(take(&mut rest)?);
    let mut ids = BTreeSet::new();
    for _ in 0..count {
        ids.insert(u16::try_from(i32::from_be_bytes(take(&mut rest)?)).ok()?);
        skip_text(&mut rest)?;
        let _port: [u8; 4] = take(&mut rest)?;
        skip_text(&mut rest)?;
    }
    Some(ids)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

/// A text is its length, −1 for none, and its bytes.
fn skip_text(rest: &mut &[u8]) -> Option<()> {
    let length = i16::from_be_bytes(take(rest)?);
    *rest = rest.get(usize::try_from(length).unwrap_or(0)..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_says_its_own_length() {
        assert_eq!(request().len(), 4 + 17);
    }

    #[test]
    fn the_brokers_of_an_answer_are_read() {
        let mut answer = vec![0, 0, 0, 1, 0, 0, 0, 2];
        for id in [1, 3] {
            answer.extend([0, 0, 0, id, 0, 1, b'h', 0, 0, 0, 9, 0xff, 0xff]);
        }
        assert_eq!(broker_ids(&answer), Some(BTreeSet::from([1, 3])));
    }

    #[test]
    fn an_answer_that_is_cut_off_is_no_answer() {
        assert_eq!(broker_ids(&[0, 0, 0, 1, 0, 0, 0, 2, 0, 0]), None);
    }
}
