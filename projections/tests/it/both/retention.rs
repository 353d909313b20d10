//! What a rule of retention names: only what is at rest, only of whom it says, each once, the oldest first.

use reenact_projections::retention::{Resting, Rule};

use super::Ground;
use crate::history::{History, user};

/// Five sessions, each used later than the one before: three of alice's, one of bob's, and alice's last, whose run is
/// at work.
fn history() -> History {
    let mut history = History::new(1);
    for (name, owner) in [("a1", "alice"), ("b1", "bob"), ("a2", "alice"), ("a3", "alice")] {
        history.whole_run(name, &format!("r {name}"), 0, Some(owner));
    }
    history.whole_run("a2", "r a2 again", 1, Some("alice"));
    history.queue("a4", "r a4", 0, Some("alice"), "go");
    history.start("a4", "r a4");
    history
}

#[tokio::test]
async fn a_rule_names_what_is_at_rest_and_says_how_many_runs_it_saw() {
    let (ground, history) = (Ground::new(), history());
    let views = ground.views(1).await;
    history.fold_into(&views).await;
    let named = async |rule: Rule, after: Option<&Resting>, limit: u64| {
        let found = views.resting(&rule, after, limit).await.expect("reads");
        found.into_iter().map(|resting| (resting.session_id.to_string(), resting.runs)).collect::<Vec<_>>()
    };
    let all = Rule::default();
    let told =
        |sessions: &[(&str, u64)]| sessions.iter().map(|(id, runs)| ((*id).to_owned(), *runs)).collect::<Vec<_>>();
    let mut everybodys = named(all.clone(), None, 10).await;
    let of_alice = Rule { user_id: Some(user("alice")), ..Rule::default() };
    let first = views.resting(&all, None, 2).await.expect("reads");
    let behind = named(all.clone(), first.last(), 10).await;
    assert_eq!((first.len(), behind.as_slice()), (2, &everybodys[2..]), "pages follow each other without a gap");
    everybodys.sort();
    assert_eq!(everybodys, told(&[("a1", 1), ("a2", 2), ("a3", 1), ("b1", 1)]));
    let mut alices = named(of_alice.clone(), None, 10).await;
    alices.sort();
    assert_eq!(alices, told(&[("a1", 1), ("a2", 2), ("a3", 1)]));
    let times = views.resting(&all, None, 10).await.expect("reads");
    let oldest = times[0].updated_at;
    assert_eq!(named(Rule { idle_since: Some(oldest), ..all.clone() }, None, 10).await, [], "not used before its own");
    let beyond = |newest| Rule { beyond_newest: Some(newest), ..of_alice.clone() };
    assert_eq!(named(beyond(4), None, 10).await, []);
    assert_eq!(named(beyond(3), None, 10).await.len(), 1, "the one at work counts among the newest and stays");
    assert_eq!(named(beyond(0), None, 10).await.len(), 3);
}
