//! AES-256-GCM, with a nonce that follows from the text and its place: the same text in the same place is sealed the
//! same way, so a batch that is sent again has the same bytes, and a file that is put again the same name. Two texts
//! of one key would need 2^48 tries to have the same nonce, more than a user writes.

use std::sync::Arc;

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use reenact_events::keys::KeptKey;
use uuid::Uuid;

/// How many bytes a key has.
pub(crate) const KEY_BYTES: usize = 32;

/// A key that seals and opens.
pub(crate) struct Cipher {
    pub(crate) id: Uuid,
    key: LessSafeKey,
    nonces: hmac::Key,
}

impl Cipher {
    /// None when the bytes are no key.
    pub(crate) fn of(id: Uuid, bytes: &[u8]) -> Option<Self> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).ok()?);
        // A key of its own, which tells nothing of the other.
        let of_nonces = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), b"nonces");
        Some(Self { id, key, nonces: hmac::Key::new(hmac::HMAC_SHA256, of_nonces.as_ref()) })
    }

    /// Nonce, text and tag. `place` is where it belongs: it cannot be opened as something else's. None when the text is
    /// longer than the cipher can take, which no text here is.
    pub(crate) fn seal(&self, place: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let mut drawn = hmac::Context::with_key(&self.nonces);
        for part in [&(place.len() as u64).to_le_bytes(), place, text] {
            drawn.update(part);
        }
        let drawn = drawn.sign();
        let nonce: [u8; NONCE_LEN] = *drawn.as_ref().first_chunk()?;
        let mut sealed = text.to_vec();
        let place = Aad::from(place);
        self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), place, &mut sealed).ok()?;
        Some([nonce.as_slice(), &sealed].concat())
    }

    /// None when it is not what was sealed with this key for this place.
    pub(crate) fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(place), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

/// Why a text is no master key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a master key is 64 hexadecimal digits, as `openssl rand -hex 32` writes them")]
pub struct MasterKeyError;

/// The deployment's own key, in which the users' keys are wrapped where they are kept.
#[derive(Clone)]
pub struct MasterKey(Arc<Cipher>);

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a master key")
    }
}

impl MasterKey {
    /// Reads 64 hexadecimal digits.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(text: &str) -> Result<Self, MasterKeyError> {
        let digits = text.trim().as_bytes();
        if digits.len() != 2 * KEY_BYTES {
            return Err(MasterKeyError);
        }
        let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = digits.chunks_exact(2).map(byte).collect();
        let cipher = bytes.and_then(|bytes| Cipher::of(Uuid::nil(), &bytes)).ok_or(MasterKeyError)?;
        Ok(Self(Arc::new(cipher)))
    }

    pub(crate) fn wrap(&self, id: Uuid, bytes: &[u8]) -> Option<KeptKey> {
        let secret = self.0.seal(id.as_bytes(), bytes)?.into();
        Some(KeptKey { id, secret })
    }

    pub(crate) fn unwrap(&self, kept: &KeptKey) -> Option<Vec<u8>> {
        self.0.open(kept.id.as_bytes(), &kept.secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_for_a_place_opens_there_and_nowhere_else() {
        let cipher = Cipher::of(Uuid::nil(), &[7; KEY_BYTES]).unwrap();
        let sealed = cipher.seal(b"here", b"a text").unwrap();
        assert_eq!(cipher.open(b"here", &sealed).unwrap(), b"a text");
        assert_eq!(cipher.seal(b"here", b"a text").unwrap(), sealed);
        for other in
            [cipher.seal(b"there", b"a text"), cipher.seal(b"here", b"a tent"), cipher.seal(b"herea", b" text")]
        {
            assert_ne!(other.unwrap()[..NONCE_LEN], sealed[..NONCE_LEN]);
        }
        assert_eq!(cipher.open(b"there", &sealed), None);
        assert_eq!(Cipher::of(Uuid::nil(), &[8; KEY_BYTES]).unwrap().open(b"here", &sealed), None);
        for at in 0..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert_eq!(cipher.open(b"here", &other), None, "bit flipped at {at}");
        }
        assert_eq!(cipher.open(b"here", &sealed[..5]), None);
    }

    #[test]
    fn a_master_key_is_64_digits_and_wraps_a_key_under_its_name() {
        let master = MasterKey::parse(&format!(" {}\n", "0f".repeat(32))).unwrap();
        let kept = master.wrap(Uuid::from_u128(1), &[9; KEY_BYTES]).unwrap();
        assert_eq!(master.unwrap(&kept).unwrap(), [9; KEY_BYTES]);
        assert_eq!(master.unwrap(&KeptKey { id: Uuid::from_u128(2), ..kept }), None);
        for text in ["", "0f", &"0g".repeat(32), &"é".repeat(32)] {
            assert_eq!(MasterKey::parse(text).unwrap_err(), MasterKeyError, "{text}");
        }
    }
}
