//! What becomes of one partition as it is granted, withdrawn, restored and failed. Pure: says what is to be
//! done, and is told when it was.

/// What the node does with the partition now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Nothing: it is another node's, or nobody's.
    #[default]
    Away,
    /// It is being claimed and folded.
    Restoring,
    /// It failed, and is restored again soon.
    Pausing,
    /// It takes commands.
    Serving,
    /// What works on it is being stopped.
    Stopping,
    /// Its log is not what it must be: waiting does not help, until somebody has seen to it.
    Refused,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Nothing.
    Nothing,
    /// Claim and fold it.
    Restore,
    /// Let its actor take commands.
    Serve,
    /// Stop whatever works on it, and say when that is done.
    Stop,
    /// Restore it again after a pause.
    Pause,
    /// Say why it is refused, and look out for a change of its log.
    Refuse,
    /// It is not worked on any more: tell whoever waits for it.
    LetGo,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tenure {
    granted: bool,
    stage: Stage,
}

impl Tenure {
    /// Whether nothing is left of it here.
    pub(super) fn is_away(&self) -> bool {
        self.stage == Stage::Away
    }

    fn enter(&mut self, stage: Stage, order: Order) -> Order {
        self.stage = stage;
        order
    }

    /// It may be claimed. What is still being stopped is stopped first.
    pub(super) fn granted(&mut self) -> Order {
        self.granted = true;
        match self.stage {
            Stage::Away => self.enter(Stage::Restoring, Order::Restore),
            _ => Order::Nothing,
        }
    }

    /// It is withdrawn or lost.
    pub(super) fn taken(&mut self) -> Order {
        self.granted = false;
        match self.stage {
            Stage::Away | Stage::Pausing | Stage::Refused => self.enter(Stage::Away, Order::LetGo),
            Stage::Restoring | Stage::Serving => self.enter(Stage::Stopping, Order::Stop),
            Stage::Stopping => Order::Nothing,
        }
    }

    /// Nothing works on it any more.
    pub(super) fn stopped(&mut self) -> Order {
        match (self.stage, self.granted) {
            (Stage::Stopping, true) => self.enter(Stage::Restoring, Order::Restore),
            (Stage::Stopping, false) => self.enter(Stage::Away, Order::LetGo),
            _ => Order::Nothing,
        }
    }

    /// It is claimed and folded.
    pub(super) fn restored(&mut self) -> Order {
        match self.stage {
            Stage::Restoring => self.enter(Stage::Serving, Order::Serve),
            _ => Order::Nothing,
        }
    }

    /// It could not be restored, for now or for good.
    pub(super) fn failed(&mut self, for_good: bool) -> Order {
        match self.stage {
            Stage::Restoring if for_good => self.enter(Stage::Refused, Order::Refuse),
            Stage::Restoring => self.enter(Stage::Pausing, Order::Pause),
            _ => Order::Nothing,
        }
    }

    /// Its actor ended by itself.
    pub(super) fn ended(&mut self) -> Order {
        match self.stage {
            Stage::Serving => self.enter(Stage::Pausing, Order::Pause),
            _ => Order::Nothing,
        }
    }

    /// The pause is over.
    pub(super) fn due(&mut self) -> Order {
        match self.stage {
            Stage::Pausing => self.enter(Stage::Restoring, Order::Restore),
            _ => Order::Nothing,
        }
    }

    /// Somebody else has written to its log.
    pub(super) fn seen_to(&mut self) -> Order {
        match self.stage {
            Stage::Refused => self.enter(Stage::Restoring, Order::Restore),
            _ => Order::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_comes_back_while_it_is_stopped_is_restored_after_the_stop() {
        let mut tenure = Tenure::default();
        assert_eq!(tenure.granted(), Order::Restore);
        assert_eq!(tenure.restored(), Order::Serve);
        assert_eq!(tenure.taken(), Order::Stop);
        assert_eq!(tenure.granted(), Order::Nothing, "the old actors are still at work");
        assert_eq!(tenure.stopped(), Order::Restore);
    }

    #[test]
    fn a_partition_that_goes_while_it_is_restored_is_never_served() {
        let mut tenure = Tenure::default();
        tenure.granted();
        assert_eq!(tenure.taken(), Order::Stop);
        assert_eq!(tenure.restored(), Order::Nothing, "it came too late");
        assert_eq!(tenure.stopped(), Order::LetGo);
        assert!(tenure.is_away());
    }

    #[test]
    fn a_partition_that_goes_while_it_pauses_is_let_go_and_not_restored() {
        let mut tenure = Tenure::default();
        tenure.granted();
        assert_eq!(tenure.failed(false), Order::Pause);
        assert_eq!(tenure.taken(), Order::LetGo);
        assert_eq!(tenure.due(), Order::Nothing);
    }

    #[test]
    fn what_is_refused_is_tried_again_only_when_its_log_was_seen_to() {
        let mut tenure = Tenure::default();
        tenure.granted();
        assert_eq!(tenure.failed(true), Order::Refuse);
        assert_eq!((tenure.due(), tenure.granted()), (Order::Nothing, Order::Nothing));
        assert_eq!(tenure.seen_to(), Order::Restore);
        assert_eq!(tenure.failed(true), Order::Refuse);
        assert_eq!(tenure.taken(), Order::LetGo);
        assert_eq!(tenure.seen_to(), Order::Nothing, "it is another node's by now");
    }
}
