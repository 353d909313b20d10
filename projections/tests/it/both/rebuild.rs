//! Another generation beside the live one: swapped to under readers and writers, and back.

use std::{sync::Arc, time::Duration};

use super::Ground;
use crate::{generator, history::LOG};
use reenact_events::{
    Batch, BatchId, Clock, CommitOutcome, EventLog, MemoryLog, NewEvent, NodeId, PartitionId, Timestamp,
};
use reenact_projections::{
    GenerationError, Generations, MemoryViews, Position, Rebuilds, ViewError, Views,
    query::{RunFilter, Scope},
    rebuild::Stage,
};

const P: PartitionId = PartitionId(0);
const PATIENCE: Duration = Duration::from_secs(120);

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

/// Views that follow a log.
struct World {
    log: Arc<MemoryLog>,
    views: Views,
    generations: Arc<dyn Generations>,
    rebuilds: Rebuilds,
    follower: tokio::task::JoinHandle<()>,
    _ground: Ground,
}

impl Drop for World {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

async fn world() -> World {
    let ground = Ground::new();
    let log = Arc::new(MemoryLog::new(LOG, 1, Arc::new(Still)));
    let (generations, views) = ground.generations().await;
    let rebuilds = Rebuilds::new(generations.clone(), views.clone(), log.clone());
    let (followed, tail) = (views.clone(), log.clone());
    let follower = tokio::spawn(async move {
        loop {
            let error = followed.follow(tail.clone(), P, |_| {}).await;
            assert!(matches!(error, ViewError::Discarded { .. }), "a swap is all that stops it: {error}");
        }
    });
    World { log, views, generations, rebuilds, follower, _ground: ground }
}

fn events(seed: u64, steps: usize) -> Vec<NewEvent> {
    generator::history(seed, 1, steps).partition(0).iter().map(|recorded| recorded.event.clone()).collect()
}

/// Commits the events one after another, and waits for each to be read.
async fn write(world: &World, events: &[NewEvent]) {
    let lease = world.log.claim(P, NodeId::trusted("n")).await.expect("claims");
    for (number, event) in events.iter().enumerate() {
        let id = BatchId(reenact_events::ids::derived("batch", &[&number.to_string()]));
        let committed = match world.log.commit(&lease, &Batch::new(id, vec![event.clone()])).await {
            CommitOutcome::Committed(committed) => committed,
            other => panic!("{other:?}"),
        };
        world.views.wait_for(P, committed.offsets[0], PATIENCE).await.expect("is read");
    }
}

async fn following(world: &World, number: u32) {
    loop {
        let standings = world.rebuilds.list().await.expect("lists");
        let standing = standings.iter().find(|standing| standing.number == number);
        let stage = standing.and_then(|standing| standing.filling.as_ref()).map(|filling| filling.stage.clone());
        match stage {
            Some(Stage::Following) => return,
            Some(Stage::Failed(reason)) => panic!("{reason}"),
            _ => tokio::task::yield_now().await,
        }
    }
}

async fn ask<T: Send + 'static>(world: &World, work: impl FnOnce(&dyn Generations) -> T + Send + 'static) -> T {
    let generations = world.generations.clone();
    tokio::task::spawn_blocking(move || work(&*generations)).await.expect("answers")
}

async fn live(world: &World) -> u32 {
    ask(world, |generations| generations.live().expect("live")).await
}

fn expected(log: &MemoryLog) -> MemoryViews {
    let mut views = MemoryViews::new();
    views.apply(Position::start(P), &log.recorded(P)).expect("folds");
    views
}

#[tokio::test(flavor = "multi_thread")]
async fn swaps_under_writers_and_readers_take_nothing_back() {
    let world = world().await;
    let all = events(3, 400);
    let (done, mut is_done) = tokio::sync::watch::channel(false);
    let reading = async {
        let (mut position, mut reads) = (world.views.position(P), 0);
        while !*is_done.borrow_and_update() {
            let now = world.views.position(P);
            assert!(now >= position, "what was visible stays so: {now} after {position}");
            let stored = world.views.stored_position(P).await.expect("reads").next_offset;
            assert!(stored >= now, "readers find at least what is told: {stored}, {now}");
            world.views.count_runs(&Scope::Anyone, &RunFilter::default()).await.expect("reads");
            (position, reads) = (now, reads + 1);
        }
        reads
    };
    let working = async {
        let swapping = async {
            for round in 0..4 {
                let number = world.rebuilds.begin(None).await.expect("begins");
                following(&world, number).await;
                let old = live(&world).await;
                world.rebuilds.swap(number, PATIENCE).await.expect("swaps");
                world.rebuilds.swap(old, PATIENCE).await.expect("swaps back");
                world.rebuilds.swap(number, PATIENCE).await.expect("swaps again");
                assert_eq!(live(&world).await, number, "round {round}");
                world.rebuilds.remove(old).await.expect("is dropped");
            }
        };
        tokio::join!(write(&world, &all), swapping);
        done.send_replace(true);
    };
    let (reads, ()) = tokio::join!(reading, working);
    assert!(reads > 0);
    assert_eq!(world.views.dump().await.expect("dumps"), expected(&world.log).dump());
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_rebuild_at_a_time_and_the_live_generation_is_none_to_work_on() {
    let world = world().await;
    write(&world, &events(1, 40)).await;
    let number = world.rebuilds.begin(None).await.expect("begins");
    let listed = world.rebuilds.list().await.expect("lists");
    assert!(
        listed.iter().any(|one| one.number == number && one.filling.is_some()),
        "from the first moment: {listed:?}"
    );
    assert!(matches!(world.rebuilds.begin(None).await, Err(GenerationError::Busy { number: busy }) if busy == number));
    following(&world, number).await;
    assert!(matches!(world.rebuilds.begin(None).await, Err(GenerationError::Busy { .. })), "it is still at work");
    assert!(matches!(world.rebuilds.swap(1, PATIENCE).await, Err(GenerationError::Busy { .. })));
    assert!(matches!(world.rebuilds.remove(1).await, Err(GenerationError::Live { number: 1 })));
    world.rebuilds.remove(number).await.expect("is dropped");
    assert!(matches!(world.rebuilds.begin(Some(1)).await, Err(GenerationError::Live { number: 1 })));
    assert!(matches!(world.rebuilds.begin(Some(9)).await, Err(GenerationError::Unknown { number: 9, .. })));
    assert!(matches!(world.rebuilds.swap(9, PATIENCE).await, Err(GenerationError::Unknown { .. })));
}

#[tokio::test]
async fn a_swap_to_rows_that_are_behind_is_refused_with_how_far_and_changes_nothing() {
    let world = world().await;
    write(&world, &events(2, 200)).await;
    ask(&world, |generations| drop(generations.loader(2).expect("an empty generation"))).await;
    let behind = world.rebuilds.swap(2, Duration::ZERO).await.expect_err("is behind");
    let GenerationError::Behind { number: 2, lag, .. } = behind else { panic!("{behind}") };
    assert!(lag <= world.views.position(P).0, "what is missing by then: it was being folded for the swap");
    assert_eq!(live(&world).await, 1);
    assert_eq!(world.views.dump().await.expect("dumps"), expected(&world.log).dump());
    world.rebuilds.swap(2, PATIENCE).await.expect("catches up and swaps");
    assert_eq!(live(&world).await, 2);
}

#[tokio::test]
async fn rows_that_are_discarded_after_a_swap_are_folded_again_where_readers_are() {
    let world = world().await;
    let all = events(5, 200);
    write(&world, &all).await;
    let number = world.rebuilds.begin(None).await.expect("begins");
    following(&world, number).await;
    world.rebuilds.swap(number, PATIENCE).await.expect("swaps");
    let position = world.views.position(P);
    world.views.discard().await.expect("discards");
    world
        .views
        .wait_for(P, position.0.checked_sub(1).map_or(position, reenact_events::Offset), PATIENCE)
        .await
        .expect("comes back");
    assert_eq!((live(&world).await, world.views.dump().await.expect("dumps")), (number, expected(&world.log).dump()));
}
