//! From the bytes of a snapshot to a store: nothing counts before the digest at the end is right.

use std::io::Write;

use futures::StreamExt;
use sha2::{Digest, Sha256};
use zstd::stream::write::Decoder as Zstd;

use super::{DIGEST_BYTES, Header, LENGTHS_BYTES, Pieces, SnapshotError, check_lengths};
use crate::{StateStore, StoreError, store::Entries};

/// The first line is shorter, or it is none.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Bytes that are decompressed at once: damaged ones may become many thousand times as many.
const SLICE_BYTES: usize = 4 << 10;
/// Entries that are put into the store at once, about.
const LOAD_ENTRIES: usize = 500;

/// A snapshot that is being read: its header is known, its content is still to come.
pub struct Incoming<'a> {
    header: Header,
    pieces: Pieces<'a>,
    body: Body,
}

impl<'a> Incoming<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub async fn begin(mut pieces: Pieces<'a>) -> Result<Self, SnapshotError> {
        let mut begun = Vec::new();
        loop {
            if let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
                let header = Header::parse(&begun[..end])?;
                let (line, rest) = begun.split_at(end + 1);
                let body = Body::begin(line, rest)?;
                return Ok(Self { header, pieces, body });
            }
            if begun.len() > HEADER_BYTES_MAX {
                return Err(SnapshotError::unfit("its first line does not end"));
            }
            let piece = pieces.next().await.ok_or_else(|| SnapshotError::unfit("it ends within its first line"))??;
            begun.extend_from_slice(&piece);
        }
    }

    /// What it says about itself. Not checked against its digest yet.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Puts the content in the place of what the store holds, and returns how many entries it has. The position
    /// comes last, when the digest is known to be right; a store with which this fails is empty.
    ///
    /// # Errors
    /// When the snapshot is not whole, or the store does not take it.
    pub async fn load_into(self, store: &dyn StateStore) -> Result<u64, SnapshotError> {
        store.clear()?;
        let loaded = self.load(store).await;
        if loaded.is_err() {
            store.clear()?;
        }
        loaded
    }

    async fn load(mut self, store: &dyn StateStore) -> Result<u64, SnapshotError> {
        let (mut count, mut open) = (0, Entries::new());
        loop {
            count += self.body.drain(&mut open, &mut |entries| store.load(entries))?;
            let Some(piece) = self.pieces.next().await else { break };
            self.body.held.extend_from_slice(&piece?);
        }
        self.body.finish()?;
        store.load(open)?;
        store.apply(Vec::new(), self.header.position)?;
        Ok(count)
    }
}

/// What is behind the first line. The last bytes are held back: they may be the digest.
struct Body {
    digest: Sha256,
    held: Vec<u8>,
    zstd: Zstd<'static, Vec<u8>>,
}

type Load<'a> = &'a mut dyn FnMut(Entries) -> Result<(), StoreError>;

impl Body {
    fn begin(line: &[u8], rest: &[u8]) -> Result<Self, SnapshotError> {
        let zstd = Zstd::new(Vec::new()).map_err(|error| SnapshotError::unfit(error.to_string()))?;
        Ok(Self { digest: Sha256::new_with_prefix(line), held: rest.to_vec(), zstd })
    }

    /// Decompresses what has come; `load` gets the entries of it, many at once. Returns how many came.
    fn drain(&mut self, open: &mut Entries, load: Load<'_>) -> Result<u64, SnapshotError> {
        let known = self.held.len().saturating_sub(DIGEST_BYTES);
        let content: Vec<u8> = self.held.drain(..known).collect();
        self.digest.update(&content);
        let mut count = 0;
        for slice in content.chunks(SLICE_BYTES) {
            let fed = self.zstd.write_all(slice).and_then(|()| self.zstd.flush());
            fed.map_err(|error| SnapshotError::unfit(format!("its content cannot be decompressed: {error}")))?;
            let found = entries(self.zstd.get_mut())?;
            count += found.len() as u64;
            open.extend(found);
            if open.len() >= LOAD_ENTRIES {
                load(std::mem::take(open))?;
            }
        }
        Ok(count)
    }

    fn finish(self) -> Result<(), SnapshotError> {
        if self.digest.finalize().as_slice() != self.held {
            return Err(SnapshotError::unfit("its digest is wrong: it is damaged, or not whole"));
        }
        if !self.zstd.get_ref().is_empty() {
            return Err(SnapshotError::unfit("it ends within an entry"));
        }
        Ok(())
    }
}

/// Takes the entries that are whole out of what was decompressed.
fn entries(open: &mut Vec<u8>) -> Result<Entries, SnapshotError> {
    let (mut found, mut read) = (Vec::new(), 0);
    while let Some((key, value)) = lengths(&open[read..])? {
        let Some(entry) = open.get(read + LENGTHS_BYTES..read + LENGTHS_BYTES + key + value) else { break };
        found.push((entry[..key].to_vec(), entry[key..].to_vec()));
        read += LENGTHS_BYTES + key + value;
    }
    open.drain(..read);
    Ok(found)
}

fn lengths(bytes: &[u8]) -> Result<Option<(usize, usize)>, SnapshotError> {
    let Some((key, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let Some((value, _)) = rest.split_first_chunk() else { return Ok(None) };
    let (key, value) = (u32::from_le_bytes(*key) as usize, u32::from_le_bytes(*value) as usize);
    check_lengths(key, value)?;
    Ok(Some((key, value)))
}
