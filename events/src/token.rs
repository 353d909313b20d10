//! The read token: a moment of a log, opaque to whoever carries it. A read that is given one waits until it
//! sees that moment.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::{LogId, Offset, PartitionId};

/// A token names at most this many partitions.
const PLACES_MAX: usize = 1_024;
const PLACE_BYTES: usize = 12;

/// A moment of a log: an offset in each partition that it speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Which log.
    pub log_id: LogId,
    /// The last offset that a read must include, by partition.
    pub places: Vec<(PartitionId, Offset)>,
}

impl Token {
    /// As text, in base64url.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = self.log_id.0.as_bytes().to_vec();
        for (partition, offset) in &self.places {
            bytes.extend_from_slice(&partition.0.to_be_bytes());
            bytes.extend_from_slice(&offset.0.to_be_bytes());
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads what [`Token::encode`] wrote; `None` for anything else.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).ok()?;
        let (log_id, rest) = bytes.split_at_checked(16)?;
        let chunks = rest.chunks_exact(PLACE_BYTES);
        if !chunks.remainder().is_empty() || chunks.len() > PLACES_MAX {
            return None;
        }
        let place = |chunk: &[u8]| {
            let (partition, offset) = chunk.split_at(4);
            let partition = PartitionId(u32::from_be_bytes(partition.try_into().ok()?));
            Some((partition, Offset(u64::from_be_bytes(offset.try_into().ok()?))))
        };
        let log_id = LogId(Uuid::from_slice(log_id).ok()?);
        Some(Self { log_id, places: chunks.map(place).collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        let places = vec![(PartitionId(0), Offset(u64::MAX)), (PartitionId(7), Offset(0))];
        Token { log_id: LogId(Uuid::from_u128(9)), places }
    }

    #[test]
    fn a_token_comes_back_as_it_went() {
        assert_eq!(Token::decode(&token().encode()), Some(token()));
    }

    #[test]
    fn what_is_no_token_is_none() {
        let mut cut = token().encode();
        cut.truncate(30);
        for bad in ["", "abc", "!!!", "=", &cut, &"A".repeat(100_000)] {
            assert_eq!(Token::decode(bad), None, "{bad:.20}");
        }
    }
}
