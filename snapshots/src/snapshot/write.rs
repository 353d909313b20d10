//! From a store that goes on working to the bytes of its snapshot.

use std::io::{self, Write};

use bytes::Bytes;
use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};
use zstd::stream::write::Encoder as Zstd;

use super::{Header, Pieces, SnapshotError, check_lengths};
use crate::{Export, store::Entries};

const LEVEL: i32 = 3;
/// Entries that are read at once: commits wait so long.
const CHUNK_ENTRIES: usize = 256;

/// The bytes of a snapshot, made as they are asked for.
///
/// # Errors
/// When its header cannot be written.
pub fn pieces(export: Export, header: &Header) -> Result<Pieces<'static>, SnapshotError> {
    let encoder = Encoder::begin(header)?;
    let begun = Some((export, encoder));
    let made = stream::unfold(begun, |state| async move {
        let (export, encoder) = state?;
        Some(match piece(export, encoder) {
            Ok((piece, rest)) => (Ok(piece), rest),
            Err(error) => (Err(error.to_string().as_str().into()), None),
        })
    });
    // zstd gives nothing back until a block of it is full.
    Ok(made.filter(|piece| std::future::ready(piece.as_ref().map_or(true, |piece| !piece.is_empty()))).boxed())
}

type Rest = Option<(Export, Encoder)>;

fn piece(mut export: Export, mut encoder: Encoder) -> Result<(Bytes, Rest), SnapshotError> {
    match export.next_chunk(CHUNK_ENTRIES)? {
        Some(entries) => Ok((encoder.entries(&entries)?, Some((export, encoder)))),
        None => Ok((encoder.finish()?, None)),
    }
}

/// Entries in, bytes out.
struct Encoder {
    zstd: Zstd<'static, Vec<u8>>,
    digest: Sha256,
}

impl Encoder {
    fn begin(header: &Header) -> Result<Self, SnapshotError> {
        let zstd = Zstd::new(header.line()?, LEVEL).map_err(|error| failed(&error))?;
        Ok(Self { zstd, digest: Sha256::new() })
    }

    fn entries(&mut self, entries: &Entries) -> Result<Bytes, SnapshotError> {
        for (key, value) in entries {
            check_lengths(key.len(), value.len())?;
            // Neither is near what 32 bits hold.
            let lengths = [key.len() as u32, value.len() as u32].map(u32::to_le_bytes);
            for part in [&lengths[0][..], &lengths[1][..], key, value] {
                self.zstd.write_all(part).map_err(|error| failed(&error))?;
            }
        }
        let made = std::mem::take(self.zstd.get_mut());
        self.digest.update(&made);
        Ok(made.into())
    }

    fn finish(mut self) -> Result<Bytes, SnapshotError> {
        let mut made = self.zstd.finish().map_err(|error| failed(&error))?;
        self.digest.update(&made);
        made.extend_from_slice(&self.digest.finalize());
        Ok(made.into())
    }
}

fn failed(error: &io::Error) -> SnapshotError {
    SnapshotError::unfit(format!("its content cannot be compressed: {error}"))
}
