//! A table summed up: equal rows give equal sums, in whatever order they are read.

use std::borrow::Cow;

use super::Value;

/// How many parts the rows of a table are sorted into, by their keys.
pub const BUCKETS: usize = 256;

/// The sum of some rows' hashes: adding is the same in any order, and takes away nothing of what was added.
type Sum = [u64; 4];

/// A table in 256 sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDigest {
    rows: u64,
    buckets: Box<[Sum; BUCKETS]>,
}

impl Default for TableDigest {
    fn default() -> Self {
        Self { rows: 0, buckets: Box::new([Sum::default(); BUCKETS]) }
    }
}

impl TableDigest {
    /// Adds a row, given the part of it that is its key.
    pub fn add(&mut self, key: &[Value], row: &[Value]) {
        let hash = hash(row);
        let (words, _) = hash.as_chunks::<8>();
        for (sum, word) in self.buckets[bucket(key)].iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
        self.rows += 1;
    }

    /// How many rows were added.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The buckets whose rows are not the same.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<usize> {
        (0..BUCKETS).filter(|bucket| self.buckets[*bucket] != other.buckets[*bucket]).collect()
    }

    /// The whole table as one hash, in hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for word in self.buckets.iter().flatten() {
            hasher.update(&word.to_le_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// The bucket of a key.
pub(super) fn bucket(key: &[Value]) -> usize {
    usize::from(hash(key)[0])
}

/// The hash of values, each with its type and length, so that no two different rows have the same bytes.
pub(super) fn hash(values: &[Value]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for value in values {
        let (kind, bytes): (u8, Cow<'_, [u8]>) = match value {
            Value::Null => (0, Cow::Borrowed(&[])),
            Value::Integer(integer) => (1, integer.to_le_bytes().to_vec().into()),
            Value::Text(text) => (3, text.as_bytes().into()),
            Value::Blob(bytes) => (4, bytes.as_slice().into()),
        };
        hasher.update(&[kind]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn the_order_of_rows_does_not_matter_and_every_value_does() {
        let rows: Vec<_> = (0..1000).map(|number| [Value::Integer(number), text(&format!("row {number}"))]).collect();
        let (mut forth, mut back) = (TableDigest::default(), TableDigest::default());
        rows.iter().for_each(|row| forth.add(&row[..1], row));
        rows.iter().rev().for_each(|row| back.add(&row[..1], row));
        assert_eq!((forth.hex(), forth.differing(&back)), (back.hex(), vec![]));
        back.add(&[Value::Integer(7)], &[Value::Integer(7), Value::Null]);
        assert_eq!(forth.differing(&back), [bucket(&[Value::Integer(7)])]);
    }

    #[test]
    fn values_of_different_types_and_cuts_are_different() {
        let rows = [
            vec![text("ab"), text("c")],
            vec![text("a"), text("bc")],
            vec![Value::Blob(b"ab".to_vec()), text("c")],
            vec![Value::Integer(0)],
            vec![Value::Null],
            vec![text("")],
        ];
        let hashes: std::collections::BTreeSet<_> = rows.iter().map(|row| hash(row)).collect();
        assert_eq!(hashes.len(), rows.len());
    }
}
