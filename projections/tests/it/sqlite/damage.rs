//! The file is only a view: deleted, torn or of another log, it comes back the same.

use reenact_events::LogId;
use reenact_projections::{Position, ViewError, Views};

use crate::{generator, history::LOG};

const SEEDS: u64 = 25;

#[tokio::test]
async fn deleting_the_file_at_any_point_between_runs_changes_no_row() {
    for seed in 0..SEEDS {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("views.db");
        let history = generator::history(seed, 1, 100);
        let all = history.partition(0);
        let cut = usize::try_from(seed).expect("small") * all.len() / usize::try_from(SEEDS).expect("small");
        let views = Views::open(&path, LOG, 1).expect("opens");
        views.apply(Position::start(reenact_events::PartitionId(0)), all[..cut].to_vec()).await.expect("folds");
        drop(views);
        // What SQLite keeps beside the file may stay behind, or be the only thing that is lost.
        let lost: &[&str] = if seed % 2 == 0 { &["views.db"] } else { &["views.db", "views.db-wal", "views.db-shm"] };
        for name in lost {
            match std::fs::remove_file(folder.path().join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("`{name}`: {error}"),
                _ => {}
            }
        }
        let views = Views::open(&path, LOG, 1).expect("opens");
        history.fold_into(&views).await;
        assert_eq!(views.dump().await.expect("dumps"), history.memory().dump(), "seed {seed}");
    }
}

#[tokio::test]
async fn deleting_the_file_under_a_running_process_changes_no_row() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let history = generator::history(3, 1, 200);
    let half = history.partition(0).len() / 2;
    let start = Position::start(reenact_events::PartitionId(0));
    let views = Views::open(&path, LOG, 1).expect("opens");
    views.apply(start, history.partition(0)[..half].to_vec()).await.expect("folds");
    for name in ["views.db", "views.db-wal", "views.db-shm"] {
        std::fs::remove_file(folder.path().join(name)).expect("it is in use");
    }
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
    drop(views);
    let views = Views::open(&path, LOG, 1).expect("opens");
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}

#[tokio::test]
async fn views_of_another_log_are_folded_anew() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let views = Views::open(&path, LogId(uuid::Uuid::from_u128(1)), 1).expect("opens");
    generator::history(1, 1, 50).fold_into(&views).await;
    drop(views);
    let history = generator::history(2, 1, 50);
    let views = Views::open(&path, LOG, 1).expect("opens");
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}

#[tokio::test]
async fn a_torn_file_is_folded_anew() {
    for (at, bytes) in [(0, 16), (100, 4000), (5000, 9000)] {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("views.db");
        let history = generator::history(5, 1, 100);
        let views = Views::open(&path, LOG, 1).expect("opens");
        history.fold_into(&views).await;
        drop(views);
        let mut content = std::fs::read(&path).expect("reads");
        content.iter_mut().skip(at).take(bytes).for_each(|byte| *byte = 0xa5);
        std::fs::write(&path, content).expect("writes");
        let views = Views::open(&path, LOG, 1).expect("opens");
        history.fold_into(&views).await;
        assert_eq!(views.dump().await.expect("dumps"), history.memory().dump(), "torn at {at}");
    }
}

#[tokio::test]
async fn damage_that_only_a_read_meets_is_folded_anew() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("views.db");
    let history = generator::history(5, 1, 600);
    let views = Views::open(&path, LOG, 1).expect("opens");
    history.fold_into(&views).await;
    drop(views);
    let mut content = std::fs::read(&path).expect("reads");
    let half = content.len() / 2;
    content.iter_mut().skip(half).for_each(|byte| *byte = 0xa5);
    std::fs::write(&path, content).expect("writes");
    let views = Views::open(&path, LOG, 1).expect("opens");
    let error = views.dump().await.expect_err("is damaged");
    assert!(matches!(error, ViewError::Corrupt { .. }), "{error}");
    history.fold_into(&views).await;
    assert_eq!(views.dump().await.expect("dumps"), history.memory().dump());
}
