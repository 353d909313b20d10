//! The keys at hand: those of the table that were used in the last moments.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_lc_rs::rand;
use reenact_events::{
    UserId,
    keys::{KeptKey, KeyError, KeyTable, Known},
};
use tokio::time::Instant;
use uuid::Uuid;

use crate::cipher::{Cipher, KEY_BYTES, MasterKey};

/// How long a key is used without a look at the table. Not every process reads in the log of an erasure; once this is
/// over none has a key that was destroyed before.
pub const FRESH_FOR: Duration = Duration::from_secs(15);
/// Keys that are kept at hand; beyond them all are looked up anew.
const KEYS_MAX: usize = 100_000;

/// Why something sealed could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The table cannot be asked now.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The table has never had the key.
    #[error(
        "its content is sealed with key `{id}`, which is not among the keys in {place}: restore that table from a backup"
    )]
    Lost {
        /// Which.
        id: Uuid,
        /// Where the keys are kept.
        place: Arc<str>,
    },
    /// It is not what was sealed.
    #[error("its content is sealed, and is not what was sealed for this place")]
    Damaged,
}

/// See the module. Clones share it.
#[derive(Clone)]
pub struct KeyRing {
    table: Arc<dyn KeyTable>,
    master: Option<MasterKey>,
    at_hand: Arc<Mutex<AtHand>>,
}

#[derive(Default)]
struct AtHand {
    by_user: BTreeMap<UserId, (Arc<Cipher>, Instant)>,
    /// Of a key that was destroyed nothing is there.
    by_id: BTreeMap<Uuid, (Option<Arc<Cipher>>, Instant)>,
}

fn is_fresh(since: &Instant) -> bool {
    since.elapsed() < FRESH_FOR
}

impl KeyRing {
    /// The keys of this table, wrapped in a master key if there is one.
    #[must_use]
    pub fn new(table: Arc<dyn KeyTable>, master: Option<MasterKey>) -> Self {
        Self { table, master, at_hand: Arc::default() }
    }

    /// Where the keys are kept.
    #[must_use]
    pub fn table(&self) -> &Arc<dyn KeyTable> {
        &self.table
    }

    fn at_hand(&self) -> MutexGuard<'_, AtHand> {
        self.at_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that a user's content is sealed with now.
    pub(crate) async fn of_user(&self, user: &UserId) -> Result<Arc<Cipher>, KeyError> {
        if let Some((cipher, since)) = self.at_hand().by_user.get(user)
            && is_fresh(since)
        {
            return Ok(cipher.clone());
        }
        let kept = self.table.of_user(user, self.fresh()?).await?;
        let cipher = Arc::new(self.cipher(&kept)?);
        let mut at_hand = self.at_hand();
        if at_hand.by_user.len() >= KEYS_MAX {
            at_hand.by_user.clear();
        }
        at_hand.by_user.insert(user.clone(), (cipher.clone(), Instant::now()));
        at_hand.by_id.insert(cipher.id, (Some(cipher.clone()), Instant::now()));
        Ok(cipher)
    }

    /// The key of this name; none when it was destroyed.
    pub(crate) async fn find(&self, id: Uuid) -> Result<Option<Arc<Cipher>>, OpenError> {
        if let Some((cipher, since)) = self.at_hand().by_id.get(&id)
            // A key that was destroyed does not come back.
            && (cipher.is_none() || is_fresh(since))
        {
            return Ok(cipher.clone());
        }
        let cipher = match self.table.find(id).await? {
            Known::Here(kept) => Some(Arc::new(self.cipher(&kept)?)),
            Known::Destroyed => None,
            Known::Nothing => return Err(OpenError::Lost { id, place: self.table.place() }),
        };
        let mut at_hand = self.at_hand();
        if at_hand.by_id.len() >= KEYS_MAX {
            at_hand.by_id.clear();
        }
        at_hand.by_id.insert(id, (cipher.clone(), Instant::now()));
        Ok(cipher)
    }

    /// Somebody has destroyed the keys of a user.
    pub(crate) fn forget(&self, user: &UserId) {
        let mut at_hand = self.at_hand();
        let current = at_hand.by_user.remove(user).map(|(cipher, _)| cipher.id);
        // Earlier keys of this user may be at hand too, and are not told apart from others'.
        at_hand.by_id.retain(|id, (cipher, _)| cipher.is_none() && Some(*id) != current);
    }

    /// Destroys the keys of a user; the names of all that ever were.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn destroy(&self, user: &UserId) -> Result<Vec<Uuid>, KeyError> {
        let destroyed = self.table.destroy(user).await;
        self.forget(user);
        destroyed
    }

    fn fresh(&self) -> Result<KeptKey, KeyError> {
        let (mut name, mut bytes) = ([0; 16], [0; KEY_BYTES]);
        let drawn = rand::fill(&mut name).and_then(|()| rand::fill(&mut bytes));
        drawn.map_err(|_| self.unusable("this machine has no random numbers"))?;
        let id = uuid::Builder::from_random_bytes(name).into_uuid();
        match &self.master {
            None => Ok(KeptKey { id, secret: bytes.as_slice().into() }),
            Some(master) => master.wrap(id, &bytes).ok_or_else(|| self.unusable("a key cannot be wrapped")),
        }
    }

    fn cipher(&self, kept: &KeptKey) -> Result<Cipher, KeyError> {
        let wrong = || {
            let id = kept.id;
            self.unusable(&match &self.master {
                Some(_) => format!("key `{id}` is not wrapped in this master key: give the one it was made with"),
                None => format!("key `{id}` is wrapped in a master key: say which with `--master-key-file`"),
            })
        };
        let bytes = match &self.master {
            None => kept.secret.to_vec(),
            Some(master) => master.unwrap(kept).ok_or_else(wrong)?,
        };
        Cipher::of(kept.id, &bytes).ok_or_else(wrong)
    }

    fn unusable(&self, reason: &str) -> KeyError {
        KeyError { place: self.table.place(), reason: reason.into() }
    }
}
