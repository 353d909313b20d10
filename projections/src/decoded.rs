//! Events that are ready to be folded: they follow from each other, and it is known what they mean.
//!
//! That needs nothing of the rows, so it is done beside the folding of those before them.

use reenact_events::{Event, Offset, Recorded};

use crate::{Position, ViewError, fold};

/// Events of a partition in order. At least one.
#[derive(Debug)]
pub struct Decoded<R> {
    recorded: R,
    /// None where the type is unknown here.
    events: Vec<Option<Event>>,
    end: Position,
}

impl<R: AsRef<[Recorded]>> Decoded<R> {
    /// Reads the events; none when there are none.
    ///
    /// # Errors
    /// [`ViewError::Diverged`] and [`ViewError::Overtaken`] when one does not follow from the one before it,
    /// [`ViewError::Unreadable`] when its payload is not what its type promises.
    pub fn read(recorded: R) -> Result<Option<Self>, ViewError> {
        let Some((first, others)) = recorded.as_ref().split_first() else { return Ok(None) };
        let end = Position::behind(first).after(others)?;
        let events = recorded.as_ref().iter().map(fold::decode).collect::<Result<_, _>>()?;
        Ok(Some(Self { recorded, events, end }))
    }

    /// The position behind the last one.
    pub(crate) fn end(&self) -> Position {
        self.end
    }

    /// The events from an offset on.
    pub(crate) fn from(&self, offset: Offset) -> (&[Recorded], &[Option<Event>]) {
        let known = self.recorded.as_ref().partition_point(|event| event.offset < offset);
        (&self.recorded.as_ref()[known..], &self.events[known..])
    }
}
