//! The contract of the log (architecture §4), one test per rule, the same for every implementation.
//!
//! A [`World`] is a log that can be closed and opened again; a rule is a function over a world. Every rule
//! runs with one partition and with four, so that nothing leans on there being one; on Kafka, where opening a
//! world takes seconds, with four. `REENACT_KAFKA_VERSION` chooses the brokers.

mod keys;
mod rules;
mod support;
mod worlds;

use worlds::World;

/// Runs each rule on each world.
macro_rules! contract {
    ($world:ty: $($group:ident { $($rule:ident,)+ })+) => {
        $(mod $group {
            use super::*;
            $(#[tokio::test]
            async fn $rule() {
                for &partitions in <$world>::PARTITIONS {
                    rules::$group::$rule(&mut <$world>::open(partitions)).await;
                }
            })+
        })+
    };
}

macro_rules! contracts {
    ($($name:ident: $world:ty,)+) => {
        $(mod $name {
            use super::*;
            contract! { $world:
                claiming {
                    a_claim_is_recorded_and_its_offset_is_the_term,
                    a_second_claim_fences_the_first,
                    a_claim_leaves_the_other_partitions_alone,
                    a_claim_says_whether_the_one_before_may_still_act,
                    a_partition_that_does_not_exist_is_refused,
                }
                reading {
                    a_replay_ends_exactly_with_the_claim,
                    a_replay_starts_at_the_position,
                    a_fence_ends_a_replay,
                    a_position_outside_the_log_is_an_error,
                    a_tail_delivers_what_is_there_and_what_comes,
                    several_tails_see_the_same,
                    a_tail_goes_on_across_a_claim,
                }
                batches {
                    a_committed_batch_reads_back_as_it_was_answered,
                    an_oversized_event_is_rejected_by_its_place,
                    a_rejected_batch_harms_no_other,
                    offsets_have_gaps_and_are_never_used_again,
                    a_batch_without_events_may_move_the_cursor,
                    every_invariant_holds,
                    resolve_tells_what_was_written,
                }
                commands {
                    published_commands_arrive_in_order,
                    commands_go_on_from_the_cursor_after_a_claim,
                    forwards_arrive_once_with_their_batch,
                    a_fence_ends_the_commands,
                    publishing_is_all_or_nothing,
                }
                answering {
                    an_answer_comes_with_its_batch_and_its_position,
                    a_batch_that_is_not_written_answers_nobody,
                    answers_come_to_whoever_follows_them_whenever_they_began,
                    a_command_keeps_who_asked_wherever_it_goes,
                    the_last_claimant_is_the_owner,
                }
                surviving {
                    everything_survives_a_restart,
                }
            }
        })+
    };
}

contracts! {
    memory: worlds::Memory,
    embedded: worlds::Embedded,
    sealed: worlds::Sealed,
    kafka_one: worlds::Kafka<1>,
    kafka_three: worlds::Kafka<3>,
}
