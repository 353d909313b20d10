//! What to do about an error of a transaction: `kafka.md` §2.3, row by row, as one function.

use rdkafka::{
    error::{KafkaError, RDKafkaError},
    types::RDKafkaErrorCode as Code,
};

/// At which call the error came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Taking the transactional id.
    Init,
    /// Opening a transaction, or putting a record into it.
    Produce,
    /// Waiting for the records to arrive.
    Deliver,
    /// Putting the cursor into it.
    Offsets,
    /// Ending it.
    Commit,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The same call again.
    Again,
    /// Abort; the same batch may be sent again.
    AbortAndResend,
    /// Abort; the batch may be sent again under newer group metadata, if the partition is still owned.
    AbortAndRejoin,
    /// Abort; the batch is too large and never will be written.
    AbortAndReject,
    /// Nobody knows: a new producer of the same id finishes the transaction, then the log is read.
    Unknown,
    /// Somebody else has the partition.
    Fenced,
    /// Nothing helps but a change of rights or settings.
    Denied,
}

/// What librdkafka says of an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facets {
    pub(crate) code: Code,
    pub(crate) fatal: bool,
    pub(crate) retriable: bool,
    pub(crate) abortable: bool,
}

impl Facets {
    /// Of an error of any call.
    pub(crate) fn of(error: &KafkaError) -> Self {
        if let KafkaError::Transaction(error) = error {
            return Self::of_transaction(error);
        }
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        Self { code, fatal: code == Code::Fatal, retriable: false, abortable: false }
    }

    fn of_transaction(error: &RDKafkaError) -> Self {
        Self {
            code: error.code(),
            fatal: error.is_fatal(),
            retriable: error.is_retriable(),
            abortable: error.txn_requires_abort(),
        }
    }
}

/// What to do about an error.
pub(crate) fn action(stage: Stage, error: Facets) -> Action {
    match error.code {
        Code::Fenced | Code::InvalidProducerEpoch | Code::ProducerFenced | Code::InvalidTransactionalState => {
            return Action::Fenced;
        }
        Code::IllegalGeneration | Code::UnknownMemberId | Code::FencedInstanceId | Code::StaleMemberEpoch => {
            return Action::AbortAndRejoin;
        }
        Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::SaslAuthenticationFailed => return Action::Denied,
        Code::MessageSizeTooLarge | Code::InvalidMessageSize => return Action::AbortAndReject,
        _ => {}
    }
    if error.fatal {
        return Action::Fenced;
    }
    match stage {
        Stage::Commit if error.abortable => Action::AbortAndResend,
        Stage::Commit => Action::Unknown,
        Stage::Init if error.retriable || is_passing(error.code) => Action::Again,
        Stage::Offsets if error.retriable && !error.abortable => Action::Again,
        Stage::Init => Action::Fenced,
        Stage::Produce | Stage::Deliver | Stage::Offsets => Action::AbortAndResend,
    }
}

/// Errors that waiting heals, which librdkafka does not always mark so.
fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::ConcurrentTransactions
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::NotCoordinator
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::InProgress
            | Code::State
    )
}

/// Whether a delayed request may still be on its way: librdkafka 2.12 does not speak KIP-890's second part,
/// so it could reach the next transaction. A new producer of the same id raises the epoch first.
pub(crate) fn poisons(code: Code) -> bool {
    matches!(
        code,
        Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::MessageTimedOut
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::InvalidProducerIdMapping
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(code: Code) -> Facets {
        Facets { code, fatal: false, retriable: false, abortable: false }
    }

    #[test]
    fn each_row_of_the_failure_table_has_its_action() {
        let retriable = |code| Facets { retriable: true, ..plain(code) };
        let abortable = |code| Facets { abortable: true, ..plain(code) };
        let fatal = |code| Facets { fatal: true, ..plain(code) };
        for (stage, error, expected) in [
            (Stage::Init, retriable(Code::OperationTimedOut), Action::Again),
            (Stage::Init, plain(Code::ConcurrentTransactions), Action::Again),
            (Stage::Init, plain(Code::TransactionalIdAuthorizationFailed), Action::Denied),
            (Stage::Produce, plain(Code::QueueFull), Action::AbortAndResend),
            (Stage::Deliver, plain(Code::NotEnoughReplicas), Action::AbortAndResend),
            (Stage::Deliver, plain(Code::MessageTimedOut), Action::AbortAndResend),
            (Stage::Deliver, plain(Code::MessageSizeTooLarge), Action::AbortAndReject),
            (Stage::Offsets, abortable(Code::IllegalGeneration), Action::AbortAndRejoin),
            (Stage::Offsets, abortable(Code::UnknownMemberId), Action::AbortAndRejoin),
            (Stage::Offsets, retriable(Code::OperationTimedOut), Action::Again),
            (Stage::Commit, retriable(Code::OperationTimedOut), Action::Unknown),
            (Stage::Commit, abortable(Code::UnknownProducerId), Action::AbortAndResend),
            (Stage::Commit, fatal(Code::Fenced), Action::Fenced),
            (Stage::Deliver, fatal(Code::InvalidProducerEpoch), Action::Fenced),
            (Stage::Commit, plain(Code::InvalidTransactionalState), Action::Fenced),
            (Stage::Produce, fatal(Code::OutOfOrderSequenceNumber), Action::Fenced),
            (Stage::Offsets, plain(Code::GroupAuthorizationFailed), Action::Denied),
        ] {
            assert_eq!(action(stage, error), expected, "{stage:?} {error:?}");
        }
    }

    #[test]
    fn what_may_leave_a_request_on_its_way_costs_the_producer() {
        assert!(poisons(Code::OperationTimedOut) && poisons(Code::BrokerTransportFailure));
        assert!(!poisons(Code::IllegalGeneration) && !poisons(Code::NotEnoughReplicas));
    }
}
