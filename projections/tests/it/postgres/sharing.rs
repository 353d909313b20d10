//! Several processes on the same rows, and a server that dies under them.

use std::{sync::Arc, time::Duration};

use reenact_events::{MemoryLog, Offset, PartitionId};
use reenact_postgres_rig::Server;
use reenact_projections::{
    MemoryViews, Position, PostgresAddress, ViewError, Views,
    query::{Paging, RunFilter, Scope},
};
use tokio::task::JoinHandle;

use super::{
    Ground,
    follow::{claim, commit, events, expected, memory_log},
};
use crate::{generator, history::LOG};

const P: PartitionId = PartitionId(0);
const PATIENCE: Duration = Duration::from_secs(60);

/// Follows whatever happens, as the server does.
fn follow(views: &Views, log: &Arc<MemoryLog>) -> JoinHandle<()> {
    let (views, log) = (views.clone(), log.clone());
    tokio::spawn(async move {
        loop {
            let error = views.follow(log.clone(), P, |_| {}).await;
            assert!(!matches!(error, ViewError::Diverged { .. }), "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}

#[tokio::test]
async fn when_the_one_that_folds_goes_another_goes_on() {
    let ground = Ground::new();
    let log = memory_log();
    let lease = claim(&log).await;
    let all = events(&generator::history(11, 1, 200));
    let (first, second) = all.split_at(all.len() / 2);
    let one = ground.views(1).await;
    let folding = follow(&one, &log);
    let last = commit(&log, &lease, first).await;
    one.wait_for(P, last, PATIENCE).await.expect("folds");
    let other = ground.views(1).await;
    let waiting = follow(&other, &log);
    folding.abort();
    drop(one);
    let last = commit(&log, &lease, second).await;
    other.wait_for(P, last, PATIENCE).await.expect("goes on");
    assert_eq!(other.dump().await.expect("dumps"), expected(&log).dump());
    waiting.abort();
}

/// Metrics are sums over partitions, so folding those side by side is where one could undo what another did.
#[tokio::test]
async fn partitions_that_are_folded_side_by_side_lose_nothing_of_each_others() {
    const PARTITIONS: u32 = 4;
    let ground = Ground::new();
    let history = generator::history(12, PARTITIONS, 600);
    let folds = (0..PARTITIONS).map(|number| {
        let (events, ground) = (history.partition(number).to_vec(), &ground);
        async move {
            let views = ground.views(PARTITIONS).await;
            let mut position = Position::start(PartitionId(number));
            for batch in events.chunks(7) {
                position = views.apply(position, batch.to_vec()).await.expect("folds");
            }
        }
    });
    futures::future::join_all(folds).await;
    assert_eq!(ground.views(PARTITIONS).await.dump().await.expect("dumps"), history.memory().dump());
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_loses_nothing_and_doubles_nothing() {
    let mut server = Server::start().expect("a server");
    let address = PostgresAddress::parse(&server.url("postgres"), "reenact").expect("is an address");
    let log = memory_log();
    let lease = claim(&log).await;
    let views = Views::connect(&address, LOG, 1).await.expect("opens");
    let following = follow(&views, &log);
    let all = events(&generator::history(13, 1, 900));
    let mut last = Offset(0);
    for (number, part) in all.chunks(all.len() / 3 + 1).enumerate() {
        last = commit(&log, &lease, part).await;
        if number == 2 {
            break;
        }
        server.kill().expect("is killed");
        let (filter, page) = (RunFilter::default(), Paging { page: 1, limit: 10 });
        let error = views.runs(&Scope::Anyone, &filter, page).await.expect_err("is gone");
        assert!(matches!(error, ViewError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("nothing is lost"), "{error}");
        server.begin().expect("comes back");
    }
    views.wait_for(P, last, PATIENCE).await.expect("goes on");
    assert_eq!(views.dump().await.expect("dumps"), expected(&log).dump());
    following.abort();
}

#[tokio::test]
async fn a_full_disk_is_told_and_changes_nothing() {
    let ground = Ground::new();
    let views = ground.views(1).await;
    ground.sql(
        "create function no_room() returns trigger language plpgsql as \
         $$ begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$; \
         create trigger no_room before insert on runs execute function no_room()",
    );
    let history = generator::history(14, 1, 100);
    let start = Position::start(P);
    let error = views.apply(start, history.partition(0).to_vec()).await.expect_err("is full");
    assert!(matches!(error, ViewError::DiskFull { .. }), "{error}");
    assert_eq!(views.dump().await.expect("dumps"), MemoryViews::new().dump());
    ground.sql("drop trigger no_room on runs");
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}

#[tokio::test]
async fn schemas_that_are_renamed_into_each_others_place_are_read_and_folded_at_once() {
    let (live, next) = (Ground::new(), Ground::new());
    let (old, new) = (generator::history(15, 1, 60), generator::history(16, 1, 80));
    let views = live.views(1).await;
    old.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), old.memory().dump());
    new.fold_into(&next.views(1).await).await;
    // One whose tables differ, so that no statement stays what it was.
    next.sql("alter table runs add column further text");
    live.sql(&format!(
        "begin; alter schema \"{0}\" rename to \"{0}-old\"; alter schema \"{1}\" rename to \"{0}\"; commit",
        live.0, next.0
    ));
    assert_eq!(views.dump().await.expect("dumps"), new.memory().dump());
    // Whoever folded the old rows finds out by the position.
    let start = Position::start(P);
    let error = views.apply(start, old.partition(0).to_vec()).await.expect_err("is elsewhere");
    assert!(matches!(error, ViewError::Overtaken { .. }), "{error}");
}

#[tokio::test]
async fn a_generation_is_made_fit_to_be_read_without_a_look_at_the_tables_of_others() {
    let (ground, others) = (Ground::new(), Ground::new());
    let (generations, _views) = ground.generations().await;
    others.sql(&format!("create schema \"{0}\"; create table \"{0}\".theirs (id bigint)", others.0));
    tokio::task::spawn_blocking(move || {
        generations.loader(2).expect("opens").finish().expect("finishes");
    })
    .await
    .expect("it is done");
    let looked_at = |schemas: &str| {
        let sql = "select count(last_analyze) > 0 from pg_stat_user_tables where schemaname";
        ground.sql(&format!("{sql} {schemas}"))
    };
    assert_eq!(looked_at(&format!("like '{}%'", ground.0)), "t");
    assert_eq!(looked_at(&format!("= '{}'", others.0)), "f");
}

/// A rebuild ends with a swap at a moment when nothing may happen any more in the log.
#[tokio::test]
async fn whoever_follows_goes_on_in_the_tables_that_were_put_in_place() {
    let (live, next) = (Ground::new(), Ground::new());
    let log = memory_log();
    let lease = claim(&log).await;
    let views = live.views(1).await;
    let following = follow(&views, &log);
    let last = commit(&log, &lease, &events(&generator::history(20, 1, 150))).await;
    views.wait_for(P, last, PATIENCE).await.expect("folds");
    let rebuilt = next.views(1).await;
    let half = log.recorded(P).len() / 2;
    rebuilt.apply(Position::start(P), log.recorded(P)[..half].to_vec()).await.expect("folds");
    live.sql(&format!(
        "begin; alter schema \"{0}\" rename to \"{0}-old\"; alter schema \"{1}\" rename to \"{0}\"; commit",
        live.0, next.0
    ));
    let caught_up = async {
        while views.stored_position(P).await.expect("reads").next_offset <= last {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, caught_up).await.expect("goes on");
    assert_eq!(views.dump().await.expect("dumps"), expected(&log).dump());
    following.abort();
}

#[tokio::test]
async fn rows_that_others_share_are_not_discarded_because_one_cannot_read_them() {
    let ground = Ground::new();
    let history = generator::history(17, 1, 100);
    let views = ground.views(1).await;
    history.fold_into(&views).await;
    ground.sql("update runs set status = 'UNHEARD_OF'");
    let error = views.dump().await.expect_err("cannot be read");
    assert!(matches!(error, ViewError::BadRow { .. }), "{error}");
    assert_ne!(ground.sql("select count(*) from runs"), "0");
}

#[tokio::test]
async fn a_log_that_was_replaced_empties_the_rows_once_for_all() {
    let ground = Ground::new();
    let views: Vec<_> = [ground.views(1).await, ground.views(1).await].into();
    generator::history(18, 1, 100).fold_into(&views[0]).await;
    let log = memory_log();
    let lease = claim(&log).await;
    let last = commit(&log, &lease, &events(&generator::history(19, 1, 150))).await;
    let following: Vec<_> = views
        .iter()
        .map(|views| {
            let (views, log) = (views.clone(), log.clone());
            tokio::spawn(async move {
                loop {
                    views.follow(log.clone(), P, |_| {}).await;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        })
        .collect();
    // Nothing else tells when: those of the old log stood further than the new one ends.
    let is_new = async || views[1].dump().await.is_ok_and(|dump| dump == expected(&log).dump());
    let waited = async {
        while !is_new().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.expect("is folded anew");
    assert_eq!(views[0].stored_position(P).await.expect("reads").next_offset, last.next());
    following.iter().for_each(JoinHandle::abort);
}
