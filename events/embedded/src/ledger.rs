//! One transaction's view of the partitions: the rules of the contract, on rows.
//!
//! Where a partition stands is read inside the transaction that changes it, so a roll-back needs no undoing
//! and a lease is compared with what is durable.

use std::collections::BTreeMap;

use reenact_events::{
    Batch, BatchId, ChainHash, CommitOutcome, Committed, Event, Forward, Lease, LogError, LogId, NewEvent, NodeId,
    Offset, PartitionId, Predecessor, Recorded, StreamKey, Term, Timestamp,
    event::{Loss, PartitionClaimed, PartitionEvent},
    ids,
    log::no_such_partition,
};
use rusqlite::{Connection, OptionalExtension};

use crate::{
    readers::{Range, block},
    record::{self, last_position, position},
    schema::Identity,
};

/// Where a partition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    /// The ownership that may append; `None` before the first claim.
    pub(crate) term: Option<Term>,
    pub(crate) claims: u64,
    /// The offset that the next event gets.
    pub(crate) next: Offset,
    /// The chain after the last event.
    pub(crate) chain: ChainHash,
    /// The offset that the next command gets.
    pub(crate) next_command: Offset,
    /// The offset behind the last command that was consumed.
    pub(crate) cursor: Offset,
}

impl Standing {
    /// Reads the partition's row; one that was never touched has none.
    ///
    /// # Errors
    /// When the row cannot be read; [`LogError::Damaged`] when it is not what was written.
    pub(crate) fn read(connection: &Connection, partition: PartitionId) -> Result<Self, LogError> {
        let sql = "SELECT term, claims, next_offset, chain, next_command, cursor, crc FROM partitions \
                   WHERE partition = ?1";
        let number = |row: &rusqlite::Row<'_>, column| row.get::<_, i64>(column).map(i64::cast_unsigned);
        let found = connection.prepare_cached(sql).and_then(|mut statement| {
            let row = statement.query_row([partition.0], |row| {
                let term: Option<i64> = row.get(0)?;
                let standing = Self {
                    term: term.map(|term| Term(term.cast_unsigned())),
                    claims: number(row, 1)?,
                    next: Offset(number(row, 2)?),
                    chain: ChainHash(row.get(3)?),
                    next_command: Offset(number(row, 4)?),
                    cursor: Offset(number(row, 5)?),
                };
                Ok((standing, row.get::<_, u32>(6)?))
            });
            row.optional()
        });
        match found.map_err(|error| record::read_error(partition, Offset(0), &error))? {
            None => Ok(Self::default()),
            Some((standing, crc)) if standing.checksum(partition) == crc => Ok(standing),
            Some((standing, _)) => Err(LogError::Damaged {
                partition,
                offset: standing.next,
                reason: "the checksum of the row in `partitions` is wrong".into(),
            }),
        }
    }

    fn write(&self, connection: &Connection, partition: PartitionId) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO partitions \
                   (partition, term, claims, next_offset, chain, next_command, cursor, crc) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        connection.prepare_cached(sql)?.execute((
            partition.0,
            self.term.map(|term| term.0.cast_signed()),
            self.claims.cast_signed(),
            self.next.0.cast_signed(),
            &self.chain.0[..],
            self.next_command.0.cast_signed(),
            self.cursor.0.cast_signed(),
            self.checksum(partition),
        ))?;
        Ok(())
    }

    fn checksum(&self, partition: PartitionId) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&partition.0.to_le_bytes());
        let term = self.term.map_or(0, |term| term.0.wrapping_add(1));
        for number in [term, self.claims, self.next.0, self.next_command.0, self.cursor.0] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(&self.chain.0);
        hasher.finalize()
    }
}

/// Why a transaction cannot go on; it is rolled back as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("a value cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Stop {
    /// An error of SQLite that tells of damage, as who was at work on `partition` reports it.
    pub(crate) fn met_at(self, partition: Option<PartitionId>) -> Self {
        match (self, partition) {
            (Self::Sqlite(error), Some(partition)) => match record::read_error(partition, Offset(0), &error) {
                damaged @ LogError::Damaged { .. } => Self::Log(damaged),
                _ => Self::Sqlite(error),
            },
            (stop, _) => stop,
        }
    }
}

/// See the module.
pub(crate) struct Ledger<'c> {
    connection: &'c Connection,
    identity: Identity,
    standings: BTreeMap<PartitionId, Standing>,
}

impl<'c> Ledger<'c> {
    /// The ledger of the transaction that is open on this connection.
    pub(crate) fn new(connection: &'c Connection, identity: Identity) -> Self {
        Self { connection, identity, standings: BTreeMap::new() }
    }

    /// Writes where the partitions stand, and says it.
    pub(crate) fn finish(self) -> Result<BTreeMap<PartitionId, Standing>, Stop> {
        for (partition, standing) in &self.standings {
            standing.write(self.connection, *partition).map_err(|error| Stop::from(error).met_at(Some(*partition)))?;
        }
        Ok(self.standings)
    }

    fn standing(&mut self, partition: PartitionId) -> Result<Standing, Stop> {
        match self.standings.get(&partition) {
            Some(known) => Ok(*known),
            None => Ok(Standing::read(self.connection, partition)?),
        }
    }

    /// Whether the partition exists.
    pub(crate) fn check(&self, partition: PartitionId) -> Result<(), LogError> {
        if partition.0 < self.identity.partitions {
            return Ok(());
        }
        Err(LogError::Unavailable { reason: no_such_partition(partition, self.identity.partitions) })
    }

    /// Takes the partition and appends the claim, which may accept that something is lost.
    pub(crate) fn claim(
        &mut self,
        partition: PartitionId,
        node: NodeId,
        predecessor: Predecessor,
        at: Timestamp,
        accepts: Vec<Loss>,
    ) -> Result<Lease, Stop> {
        let mut standing = self.standing(partition)?;
        let term = Term(standing.next.0);
        let log_id: LogId = self.identity.log_id;
        let nonce = ids::derived("claim", &[&log_id.to_string(), &partition.to_string(), &term.to_string()]);
        if !accepts.is_empty() {
            self.pass_over_commands(partition, &mut standing)?;
        }
        let claimed = PartitionClaimed::new(node.clone(), log_id, nonce).after(self.losses(partition)?, accepts);
        let losses = claimed.losses;
        let event = NewEvent::new(StreamKey::partition(partition), standing.claims, at, None, None, &claimed.into())?;
        standing.claims += 1;
        standing.term = Some(term);
        self.append(partition, &mut standing, BatchId(nonce), &[event])?;
        self.standings.insert(partition, standing);
        let forget = "DELETE FROM empty_batches WHERE position BETWEEN ?1 AND ?2";
        self.connection.prepare_cached(forget)?.execute((position(partition, Offset(0)), last_position(partition)))?;
        Ok(Lease { partition, term, node, predecessor, losses })
    }

    /// How often a loss was accepted in the partition, as its last claim says.
    fn losses(&mut self, partition: PartitionId) -> Result<u32, Stop> {
        let Some(term) = self.standing(partition)?.term else { return Ok(0) };
        let (from, until) = (Offset(term.0), Offset(term.0 + 1));
        let claim = block(self.connection, Range { partition, from, until })?.next();
        match claim.map(|claim| claim.decode()) {
            Some(Ok(Event::Partition(PartitionEvent::Claimed(claimed)))) => Ok(claimed.losses),
            _ => {
                let reason = "the claim of this term is not there".into();
                Err(LogError::Damaged { partition, offset: from, reason }.into())
            }
        }
    }

    /// With events lost it is not known which of the waiting commands were taken before, and none is taken twice.
    fn pass_over_commands(&self, partition: PartitionId, standing: &mut Standing) -> Result<(), Stop> {
        standing.cursor = standing.next_command;
        let sql = "DELETE FROM commands WHERE position BETWEEN ?1 AND ?2";
        self.connection.prepare_cached(sql)?.execute((position(partition, Offset(0)), last_position(partition)))?;
        Ok(())
    }

    /// Appends a batch, unless the lease or the batch forbids it.
    pub(crate) fn commit(&mut self, lease: &Lease, batch: &Batch) -> Result<CommitOutcome, Stop> {
        if !self.owns(lease)? {
            return Ok(CommitOutcome::Fenced);
        }
        if let Some(fault) = batch.fault(self.identity.partitions) {
            return Ok(fault);
        }
        if !batch.dead_letters.is_empty() {
            let reason = "only the log's own program can put commands here, so there are no dead letters".into();
            return Ok(CommitOutcome::Rejected { event: None, reason });
        }
        let mut standing = self.standing(lease.partition)?;
        if batch.events.is_empty() {
            let sql = "INSERT INTO empty_batches (position, batch) VALUES (?1, ?2)";
            let place = position(lease.partition, standing.next);
            self.connection.prepare_cached(sql)?.execute((place, &batch.id.0.as_bytes()[..]))?;
        }
        let committed = self.append(lease.partition, &mut standing, batch.id, &batch.events)?;
        if let Some(cursor) = batch.next_command {
            standing.cursor = cursor;
            let sql = "DELETE FROM commands WHERE position >= ?1 AND position < ?2";
            let range = (position(lease.partition, Offset(0)), position(lease.partition, cursor));
            self.connection.prepare_cached(sql)?.execute(range)?;
        }
        self.standings.insert(lease.partition, standing);
        self.forward(&batch.forwards)?;
        Ok(CommitOutcome::Committed(committed))
    }

    /// Puts commands into their partitions.
    pub(crate) fn publish(&mut self, commands: &[Forward]) -> Result<Result<(), LogError>, Stop> {
        for forward in commands {
            if let Err(error) = self.check(forward.partition) {
                return Ok(Err(error));
            }
        }
        self.forward(commands)?;
        Ok(Ok(()))
    }

    /// What became of a batch of this lease.
    pub(crate) fn resolve(
        &mut self,
        lease: &Lease,
        batch: BatchId,
    ) -> Result<Result<Option<Committed>, LogError>, Stop> {
        if !self.owns(lease)? {
            return Ok(Err(LogError::Fenced { partition: lease.partition }));
        }
        let range = (position(lease.partition, lease.claim_offset()), last_position(lease.partition));
        let id = &batch.0.as_bytes()[..];
        let sql = "SELECT 1 FROM empty_batches WHERE position BETWEEN ?1 AND ?2 AND batch = ?3";
        if self.connection.prepare_cached(sql)?.exists((range.0, range.1, id))? {
            return Ok(Ok(Some(Committed { offsets: Vec::new(), chain: Vec::new() })));
        }
        let found = self.written(range, batch)?;
        Ok(Ok(found))
    }

    /// Scans a term from its end: this is asked after an accident, about a recent batch.
    fn written(&self, range: (i64, i64), batch: BatchId) -> Result<Option<Committed>, Stop> {
        let sql = "SELECT batch, position, chain FROM events WHERE position BETWEEN ?1 AND ?2 ORDER BY position DESC";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(range)?;
        let (mut offsets, mut chain) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            let ours = row.get::<_, [u8; 16]>(0)? == *batch.0.as_bytes();
            if ours {
                offsets.push(record::offset(row.get(1)?));
                chain.push(ChainHash(row.get(2)?));
            } else if !offsets.is_empty() {
                break;
            }
        }
        offsets.reverse();
        chain.reverse();
        Ok((!offsets.is_empty()).then_some(Committed { offsets, chain }))
    }

    fn owns(&mut self, lease: &Lease) -> Result<bool, Stop> {
        let exists = self.check(lease.partition).is_ok();
        Ok(exists && self.standing(lease.partition)?.term == Some(lease.term))
    }

    /// Appends events under the present term and burns the offset behind them.
    fn append(
        &self,
        partition: PartitionId,
        standing: &mut Standing,
        batch: BatchId,
        events: &[NewEvent],
    ) -> Result<Committed, Stop> {
        let term = standing.term.unwrap_or_default();
        let mut committed = Committed { offsets: Vec::new(), chain: Vec::new() };
        for event in events {
            standing.chain = standing.chain.link(event, term);
            let (offset, chain, event) = (standing.next, standing.chain, event.clone());
            committed.offsets.push(offset);
            committed.chain.push(chain);
            record::insert(self.connection, &Recorded { partition, offset, term, batch, chain, event, stored: None })?;
            standing.next = standing.next.next();
        }
        standing.next = standing.next.next();
        Ok(committed)
    }

    fn forward(&mut self, commands: &[Forward]) -> Result<(), Stop> {
        let mut touched = BTreeMap::new();
        for Forward { partition, command } in commands {
            let standing = match touched.get_mut(partition) {
                Some(known) => known,
                None => touched.entry(*partition).or_insert(self.standing(*partition)?),
            };
            crate::command::insert(self.connection, *partition, standing.next_command, command)?;
            standing.next_command = standing.next_command.next();
        }
        for (partition, mut standing) in touched {
            standing.next_command = standing.next_command.next();
            self.standings.insert(partition, standing);
        }
        Ok(())
    }
}
