//! Values as bytes: bincode 2, and nothing else in the project names it.
//!
//! bincode is positional: an added, removed or reordered field reads as something else, silently. So each
//! store carries the [`fingerprint`] of the shapes in it, and another fingerprint means delete and refold.
//! Types with `#[serde(tag = …)]`, `flatten`, `untagged` or `serde_json::Value` encode and then fail to
//! decode, and `skip_serializing_if` shifts what follows: keep JSON as text in a `String`.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::{Serialize, de::DeserializeOwned};

use crate::StoreError;

/// The largest value, encoded. Reading refuses more before it allocates, writing so that nothing is written
/// which could not be read.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

type Config = Configuration<LittleEndian, Varint, Limit<VALUE_BYTES_MAX>>;

const CONFIG: Config = bincode::config::standard().with_limit::<VALUE_BYTES_MAX>();

/// Turns a value into bytes.
///
/// # Errors
/// When the type cannot be encoded, or the bytes would be more than [`VALUE_BYTES_MAX`].
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    let bytes = bincode::serde::encode_to_vec(value, CONFIG)
        .map_err(|error| StoreError::new(format!("a `{}` cannot be encoded: {error}", std::any::type_name::<T>())))?;
    if bytes.len() > VALUE_BYTES_MAX {
        let (name, size) = (std::any::type_name::<T>(), bytes.len());
        return Err(StoreError::new(format!("a `{name}` has {size} bytes, at most {VALUE_BYTES_MAX} are allowed")));
    }
    Ok(bytes)
}

/// Turns bytes back into the value that [`encode`] was given.
///
/// # Errors
/// When the bytes are not exactly one value of this type, or are more than [`VALUE_BYTES_MAX`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    let name = std::any::type_name::<T>();
    let (value, read) = bincode::serde::decode_from_slice::<T, _>(bytes, CONFIG)
        .map_err(|error| StoreError::new(format!("{} bytes are not a `{name}`: {error}", bytes.len())))?;
    if read != bytes.len() {
        return Err(StoreError::new(format!("a `{name}` ends after {read} of {} bytes", bytes.len())));
    }
    Ok(value)
}

/// What a set of stored shapes hashes to. The caller describes each type in a text that changes whenever the
/// type does; order counts, and each text is length-prefixed, so that `["ab", "c"]` and `["a", "bc"]` differ.
#[must_use]
pub fn fingerprint(shapes: &[&str]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for shape in shapes {
        hasher.update(&(shape.len() as u64).to_le_bytes());
        hasher.update(shape.as_bytes());
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Unit,
        Named { text: String, numbers: BTreeMap<u32, Option<i64>> },
    }

    #[test]
    fn a_value_reads_back_as_it_was() {
        let numbers = BTreeMap::from([(1, Some(-1)), (u32::MAX, None)]);
        for shape in [Shape::Unit, Shape::Named { text: "Zoë 🙂".to_owned(), numbers }] {
            let bytes = encode(&shape).expect("encodes");
            assert_eq!(decode::<Shape>(&bytes).expect("decodes"), shape);
        }
    }

    #[test]
    fn bytes_after_the_value_are_refused() {
        let mut bytes = encode(&7_u32).expect("encodes");
        bytes.push(0);
        let error = decode::<u32>(&bytes).expect_err("one byte too many");
        assert!(error.to_string().contains("ends after 1 of 2 bytes"), "{error}");
    }

    #[test]
    fn a_length_that_lies_allocates_nothing() {
        // A string that claims 2^60 bytes: marker 253 announces a u64.
        let mut bytes = vec![253];
        bytes.extend_from_slice(&(1_u64 << 60).to_le_bytes());
        assert!(decode::<String>(&bytes).is_err());
    }

    #[test]
    fn what_is_too_large_to_read_is_not_written() {
        let error = encode(&vec![0_u8; VALUE_BYTES_MAX + 1]).expect_err("over the limit");
        assert!(error.to_string().contains("at most 16777216"), "{error}");
    }

    #[test]
    fn a_fingerprint_tells_shapes_apart() {
        assert_eq!(fingerprint(&["a", "b"]), fingerprint(&["a", "b"]));
        assert_ne!(fingerprint(&["ab", "c"]), fingerprint(&["a", "bc"]));
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["b", "a"]));
        assert_ne!(fingerprint(&[]), fingerprint(&[""]));
    }
}
