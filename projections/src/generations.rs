//! Generations of the views: one that is read, and others beside it that are filled, or kept to go back to.
//!
//! A generation has a number and positions, and nothing else is known of it: one that is behind is filled further, one
//! that is not may be read. What differs between databases is [`Generations`]: [`files`] keeps each generation in a
//! file of its own, [`schemas`] in a schema of a server.

pub mod files;
pub mod schemas;

use std::{fmt::Debug, path::PathBuf, time::Duration};

use reenact_events::{Offset, PartitionId};

use crate::{Loader, Position, ViewError, Views};

pub use files::Files;
pub use schemas::Schemas;

/// Where the generations of a deployment's views are. All of it blocks.
pub trait Generations: Debug + Send + Sync {
    /// Their numbers, in order.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn numbers(&self) -> Result<Vec<u32>, GenerationError>;

    /// The one that is read.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn live(&self) -> Result<u32, GenerationError>;

    /// How far each partition of a generation is folded.
    ///
    /// # Errors
    /// When there is none of that number, or it cannot be read.
    fn positions(&self, number: u32) -> Result<Vec<Position>, GenerationError>;

    /// Opens or makes a generation that is not live, to fill it.
    ///
    /// # Errors
    /// When it is live, damaged or cannot be written.
    fn loader(&self, number: u32) -> Result<Loader, GenerationError>;

    /// Has readers find another generation from now on: at once and wholly, whatever crashes. The live rows stand
    /// still while `fill` is called with how far they are: it sees to it that the other generation has all of that,
    /// and lets go of it. `views` are those that this process serves, if it does.
    ///
    /// # Errors
    /// When there is none of that number, `fill` fails, or it cannot be done; then nothing has changed.
    fn swap(&self, number: u32, views: Option<&Views>, fill: Fill<'_>) -> Result<(), GenerationError>;

    /// Removes a generation that is not live.
    ///
    /// # Errors
    /// When it is live, there is none of that number, or it cannot be removed.
    fn remove(&self, number: u32) -> Result<(), GenerationError>;

    /// Fails unless there is such a generation.
    ///
    /// # Errors
    /// When there is none, with those that are there.
    fn known(&self, number: u32) -> Result<(), GenerationError> {
        let numbers = self.numbers()?;
        if numbers.contains(&number) {
            return Ok(());
        }
        let known = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(GenerationError::Unknown { number, known })
    }

    /// Fails when the generation is live.
    ///
    /// # Errors
    /// When it is.
    fn beside(&self, number: u32) -> Result<(), GenerationError> {
        if self.live()? == number { Err(GenerationError::Live { number }) } else { Ok(()) }
    }

    /// The number of the next generation.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn next(&self) -> Result<u32, GenerationError> {
        Ok(self.numbers()?.last().copied().unwrap_or(0).max(self.live()?) + 1)
    }
}

/// See [`Generations::swap`].
pub type Fill<'f> = &'f mut dyn FnMut(&[(PartitionId, Offset)]) -> Result<(), GenerationError>;

/// Fails unless `next` has everything that `live` has: what was read once is not unread by a swap.
///
/// # Errors
/// When it is behind in a partition.
pub fn not_behind(number: u32, next: &[Position], live: &[(PartitionId, Offset)]) -> Result<(), GenerationError> {
    let at = |partition| next.iter().find(|position| position.partition == partition);
    let behind = |(partition, offset): &(PartitionId, Offset)| {
        offset.0.saturating_sub(at(*partition).map_or(0, |position| position.next_offset.0))
    };
    match live.iter().map(behind).sum() {
        0 => Ok(()),
        lag => Err(GenerationError::Behind { number, lag, waited: Duration::ZERO }),
    }
}

/// Why something could not be done with a generation. Nothing has changed then.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GenerationError {
    /// There is none of this number.
    #[error("there is no generation {number} of the views; there are: {known}")]
    Unknown {
        /// What was asked for.
        number: u32,
        /// What is there.
        known: String,
    },
    /// It is read, so it is neither filled from elsewhere nor removed.
    #[error("generation {number} is live: rebuild another one and swap to it first")]
    Live {
        /// Which.
        number: u32,
    },
    /// Another one is being filled.
    #[error("generation {number} is being rebuilt: swap to it or drop it first, there is one rebuild at a time")]
    Busy {
        /// Which.
        number: u32,
    },
    /// It would show less than what was shown before.
    #[error(
        "generation {number} was not ready to be read within {waited:?} ({lag} offsets behind): let \
         `reenact projections rebuild --generation {number}` come to its end, then swap"
    )]
    Behind {
        /// Which.
        number: u32,
        /// How many offsets, over all partitions.
        lag: u64,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Another process has the views.
    #[error(
        "the views in `{folder}` are in use by another process: ask the server with `--url` in place of `--data`, or stop it"
    )]
    InUse {
        /// The data directory.
        folder: PathBuf,
    },
    /// What stands where the live generation is named is something else.
    #[error("`{path}` does not name a generation of the views ({reason}): move it away to have them folded anew")]
    BadPointer {
        /// Where.
        path: PathBuf,
        /// What is there.
        reason: String,
    },
    /// The filling was ended.
    #[error("the rebuild of generation {number} was stopped: {reason}")]
    Stopped {
        /// Which.
        number: u32,
        /// Why.
        reason: String,
    },
    /// The rows cannot be used.
    #[error(transparent)]
    Views(#[from] ViewError),
}
