//! Anchors: what the log's chain was at a moment, signed, to be kept where whoever can rewrite the log cannot.
//!
//! A chain alone shows that a record was changed by itself. It does not show that somebody changed one and computed
//! every later link anew; an anchor of before does.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use chrono::{DateTime, SecondsFormat};
use ed25519_dalek::{
    Signature, Signer, SigningKey, Verifier, VerifyingKey,
    pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, spki::der::pem::LineEnding},
};
use reenact_events::{ChainHash, LogId, Offset, PartitionId, Timestamp};
use serde::{Deserialize, Serialize};

/// The chain of a partition at an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Which log.
    pub log_id: LogId,
    /// Which partition of it.
    pub partition: PartitionId,
    /// The event.
    pub offset: Offset,
    /// The chain up to and with it, in hexadecimal digits.
    pub chain: String,
    /// When the anchor was made, RFC 3339.
    pub time: String,
    /// Ed25519 over [`Anchor::text`], in hexadecimal digits.
    pub signature: String,
}

impl Anchor {
    /// Anchors an event, signed with `key`.
    #[must_use]
    pub fn sign(
        log_id: LogId,
        partition: PartitionId,
        (offset, chain): (Offset, ChainHash),
        now: Timestamp,
        key: &SigningKey,
    ) -> Self {
        let time = DateTime::from_timestamp_millis(now.0).unwrap_or_default();
        let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let unsigned = Self { log_id, partition, offset, chain: chain.to_string(), time, signature: String::new() };
        let signature = hex(&key.sign(unsigned.text().as_bytes()).to_bytes());
        Self { signature, ..unsigned }
    }

    /// What is signed.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { log_id, partition, offset, chain, time, .. } = self;
        format!("reenact anchor 1\nlog {log_id}\npartition {partition}\noffset {offset}\nchain {chain}\ntime {time}\n")
    }

    /// Whether whoever has the private half of `key` signed this.
    #[must_use]
    pub fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        let signature = unhex(&self.signature).and_then(|bytes| Signature::from_slice(&bytes).ok());
        signature.is_some_and(|signature| key.verify(self.text().as_bytes(), &signature).is_ok())
    }
}

/// The anchors in a text of one JSON object a line.
///
/// # Errors
/// When a line is none, with its number.
pub fn parse(text: &str, whence: &str) -> anyhow::Result<Vec<Anchor>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let anchor = |(number, line)| {
        serde_json::from_str(line).with_context(|| format!("`{whence}` line {} is no anchor", number + 1))
    };
    lines.map(anchor).collect()
}

/// Makes a pair of keys: `file` gets the private one, readable by its owner alone, and `file.pub` the public one.
///
/// # Errors
/// When one of the files is there already, or cannot be written.
pub fn new_key(file: &Path) -> anyhow::Result<()> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| anyhow!("the system gives no random bytes: {error}"))?;
    let key = SigningKey::from_bytes(&secret);
    let private = key.to_pkcs8_pem(LineEnding::LF).context("the key cannot be written as PEM")?;
    let public = key.verifying_key().to_public_key_pem(LineEnding::LF).context("the key cannot be written as PEM")?;
    write_new(file, private.as_bytes(), 0o600)?;
    write_new(&public_file(file), public.as_bytes(), 0o644)
}

/// Where [`new_key`] puts the public key.
#[must_use]
pub fn public_file(file: &Path) -> std::path::PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

fn write_new(file: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};

    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let mut opened = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("`{}` is there already, and a key is not written over: name another file", file.display())
        }
        other => other.with_context(|| format!("`{}` cannot be written", file.display()))?,
    };
    opened
        .write_all(bytes)
        .and_then(|()| opened.sync_all())
        .with_context(|| format!("`{}` cannot be written", file.display()))
}

/// Reads a private key.
///
/// # Errors
/// When the file cannot be read, or holds none.
pub fn private_key(file: &Path) -> anyhow::Result<SigningKey> {
    let text = std::fs::read_to_string(file).with_context(|| {
        format!("`{}` cannot be read: make a key with `reenact audit anchor --new-key FILE`", file.display())
    })?;
    SigningKey::from_pkcs8_pem(&text)
        .with_context(|| format!("`{}` holds no Ed25519 private key in PEM", file.display()))
}

/// Reads a public key.
///
/// # Errors
/// When the file cannot be read, or holds none.
pub fn public_key(file: &Path) -> anyhow::Result<VerifyingKey> {
    let text = std::fs::read_to_string(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    VerifyingKey::from_public_key_pem(&text)
        .with_context(|| format!("`{}` holds no Ed25519 public key in PEM", file.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_an_anchor_is_signed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        new_key(&file).unwrap();
        assert!(new_key(&file).unwrap_err().to_string().contains("is there already"));
        let (private, public) = (private_key(&file).unwrap(), public_key(&public_file(&file)).unwrap());
        let at = (Offset(7), ChainHash([1; 32]));
        let anchor = Anchor::sign(LogId::default(), PartitionId(0), at, Timestamp(0), &private);
        assert!(anchor.is_signed_by(&public));
        let changed = [
            Anchor { log_id: LogId(uuid::Uuid::from_u128(1)), ..anchor.clone() },
            Anchor { partition: PartitionId(1), ..anchor.clone() },
            Anchor { offset: Offset(8), ..anchor.clone() },
            Anchor { chain: ChainHash([2; 32]).to_string(), ..anchor.clone() },
            Anchor { time: "1970-01-01T00:00:00.001Z".to_owned(), ..anchor.clone() },
            Anchor { signature: anchor.signature.replace(|digit| digit != '0', "0"), ..anchor.clone() },
            Anchor { signature: "é".to_owned(), ..anchor.clone() },
        ];
        assert!(changed.iter().all(|anchor| !anchor.is_signed_by(&public)));
        let line = serde_json::to_string(&anchor).unwrap();
        assert_eq!(parse(&format!("{line}\n\n"), "a").unwrap(), [anchor]);
        assert!(parse(&format!("{line}\nx\n"), "a").unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn a_private_key_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        new_key(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(private_key(&public_file(&file)).unwrap_err().to_string().contains("no Ed25519 private key"));
    }
}
