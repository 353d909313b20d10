//! A32: totals that never move, pages that add up to the whole.

use std::collections::BTreeSet;

use reenact_events::event::{RunStatus, SessionUpdated};
use reenact_projections::{
    Views,
    query::{Order, Page, Paging, RunFilter, Scope, SessionFilter, SessionSort},
};

use super::Ground;
use crate::history::{History, session, user};

const ITEMS: u64 = 137;

/// 137 sessions with one run each, a third of them bob's, a third nobody's; every tenth run is at work.
async fn many() -> (Ground, Views) {
    let ground = Ground::new();
    let mut history = History::new(1);
    for number in 0..ITEMS {
        let name = format!("session-{number}");
        let owner = [Some("alice"), Some("bob"), None][usize::try_from(number % 3).expect("small")];
        history.create(&name, owner);
        let run = format!("run-{number}");
        if number % 10 == 0 {
            history.queue(&name, &run, 0, owner, "hello");
            history.start(&name, &run);
        } else {
            history.whole_run(&name, &run, 0, owner);
        }
        // Many share a second, so that only the id tells them apart.
        if number % 5 != 0 {
            history.now = history.now.plus_ms(-4000);
        }
    }
    let views = ground.views(1).await;
    history.fold_into(&views).await;
    (ground, views)
}

/// Reads all pages and one past the end.
async fn union<T>(total: u64, limit: u64, mut page: impl AsyncFnMut(Paging) -> Page<T>) -> Vec<T> {
    let mut all = Vec::new();
    for number in 1..=total.div_ceil(limit) + 1 {
        let page = page(Paging { page: number, limit }).await;
        assert_eq!(page.total, total, "limit {limit} page {number}");
        let rest = total.saturating_sub((number - 1) * limit);
        assert_eq!(page.items.len() as u64, rest.min(limit), "limit {limit} page {number}");
        all.extend(page.items);
    }
    all
}

#[tokio::test]
async fn a32_the_pages_of_sessions_add_up_to_the_whole() {
    let (_ground, views) = many().await;
    for sort in [SessionSort::CreatedAt, SessionSort::UpdatedAt] {
        for order in [Order::Ascending, Order::Descending] {
            let filter = SessionFilter { sort, order, ..SessionFilter::default() };
            for limit in [1, 5, 20, 137, 1000] {
                let read = async |paging| views.sessions(&Scope::Anyone, &filter, paging).await.expect("reads");
                let rows = union(ITEMS, limit, read).await;
                let ids: BTreeSet<_> = rows.iter().map(|row| row.session_id.clone()).collect();
                assert_eq!(ids.len() as u64, ITEMS);
                let key = |row: &reenact_projections::query::SessionRow| match sort {
                    SessionSort::CreatedAt => (row.created_at, row.session_id.clone()),
                    SessionSort::UpdatedAt => (row.updated_at.unwrap_or_default(), row.session_id.clone()),
                };
                let mut sorted = rows.clone();
                sorted.sort_by_key(key);
                if order == Order::Descending {
                    sorted.reverse();
                }
                assert_eq!(rows, sorted);
            }
        }
    }
}

#[tokio::test]
async fn a32_the_pages_of_runs_add_up_to_the_whole() {
    let (_ground, views) = many().await;
    for limit in [1, 5, 20, 137, 1000] {
        let read = async |paging| views.runs(&Scope::Anyone, &RunFilter::default(), paging).await.expect("reads");
        let rows = union(ITEMS, limit, read).await;
        let ids: BTreeSet<_> = rows.iter().map(|row| row.run_id.clone()).collect();
        assert_eq!(ids.len() as u64, ITEMS);
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse((row.created_at, row.run_index, row.run_id.clone()))));
    }
}

#[tokio::test]
async fn a32_a_filter_changes_the_total_in_step() {
    let (_ground, views) = many().await;
    let scope = Scope::User(user("alice"));
    for limit in [5, 137] {
        let filter = SessionFilter::default();
        let read = async |paging| views.sessions(&scope, &filter, paging).await.expect("reads");
        assert_eq!(union(91, limit, read).await.len(), 91);
        let filter = SessionFilter { user_id: Some(user("alice")), ..SessionFilter::default() };
        let read = async |paging| views.sessions(&scope, &filter, paging).await.expect("reads");
        assert_eq!(union(46, limit, read).await.len(), 46);
        let filter = RunFilter { statuses: vec![RunStatus::Running, RunStatus::Pending], ..RunFilter::default() };
        let read = async |paging| views.runs(&Scope::Anyone, &filter, paging).await.expect("reads");
        assert_eq!(union(14, limit, read).await.len(), 14);
    }
    let filter = RunFilter { user_id: Some(user("bob")), ..RunFilter::default() };
    assert_eq!(views.count_runs(&Scope::Anyone, &filter).await.expect("counts"), 46);
    assert_eq!(views.count_runs(&scope, &filter).await.expect("counts"), 0);
    assert_eq!(views.count_sessions(&scope, &SessionFilter::default()).await.expect("counts"), 91);
}

#[tokio::test]
async fn a32_no_number_is_too_large_for_a_page() {
    let (_ground, views) = many().await;
    for paging in [(u64::MAX, u64::MAX), (u64::MAX, 1), (1 << 40, 1000)] {
        let paging = Paging { page: paging.0, limit: paging.1 };
        let page = views.sessions(&Scope::Anyone, &SessionFilter::default(), paging).await.expect("reads");
        assert_eq!((page.items.len(), page.total), (0, ITEMS));
        let page = views.runs(&Scope::Anyone, &RunFilter::default(), paging).await.expect("reads");
        assert_eq!((page.items.len(), page.total), (0, ITEMS));
    }
}

#[tokio::test]
async fn a_session_is_found_by_any_part_of_what_it_is_called() {
    let ground = Ground::new();
    let mut history = History::new(1);
    for (name, title) in [("a", Some("Müller % OFF\0")), ("b", Some("STRASSE 50_")), ("c", None)] {
        history.create(name, None);
        if let Some(title) = title {
            let event = SessionUpdated {
                session_id: session(name),
                name: Some(title.to_owned()),
                state: None,
                metadata: None,
                summary: None,
            };
            history.push(&session(name), event);
        }
        history.queue(name, &format!("run-{name}"), 0, None, "Where is Order 17?");
    }
    let views = ground.views(1).await;
    history.fold_into(&views).await;
    for (part, found) in [("MÜLL", "a"), ("%", "a"), ("\0", "a"), ("strasse", "b"), ("0_", "b"), ("order 1", "c")] {
        let filter = SessionFilter { name: Some(part.to_owned()), ..SessionFilter::default() };
        let paging = Paging { page: 1, limit: 20 };
        let page = views.sessions(&Scope::Anyone, &filter, paging).await.expect("reads");
        let ids: Vec<_> = page.items.iter().map(|row| row.session_id.as_str()).collect();
        assert_eq!((ids, page.total), (vec![found], 1), "{part:?}");
    }
}
