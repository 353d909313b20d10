//! Ends of actors that have others below them.
//!
//! A supervisor knows those below it in an order that is another one each time, and what their ends wake up elsewhere
//! (whoever waits for an answer asks again) would come in that order. Here they end oldest first.

use ractor::ActorCell;

/// Kills an actor and all below it, and says who they are.
pub(crate) fn kill(actor: ActorCell) -> Vec<ActorCell> {
    let all = with_those_below(actor);
    all.iter().for_each(ActorCell::kill);
    all
}

/// Kills all below an actor that is about to end.
pub(crate) fn kill_those_below(actor: ActorCell) {
    with_those_below(actor).iter().skip(1).for_each(ActorCell::kill);
}

fn with_those_below(actor: ActorCell) -> Vec<ActorCell> {
    let mut all = vec![actor];
    let mut looked = 0;
    while let Some(next) = all.get(looked) {
        looked += 1;
        let mut children = next.get_children();
        children.sort_by_key(ActorCell::get_id);
        all.extend(children);
    }
    all
}
