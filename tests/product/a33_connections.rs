//! A33: a connection to the database was held for the whole of a model call, and one for each open stream, until
//! not even the health check was answered.

use futures::future::join_all;
use reenact_tests::stub::Reply;

use crate::{reader::Reader, support::Product, world::World};

const AT_WORK: usize = 150;
const STREAMS: usize = 200;
const PAUSED: usize = 20;
/// The views' writer and readers.
const CONNECTIONS_MAX: usize = 5;

/// How many files of the views' database the process has open.
fn connections(product: &Product) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", product.pid())).expect("it is up");
    let files = open.filter_map(|file| std::fs::read_link(file.expect("a file").path()).ok());
    files.filter(|file| file.to_str().is_some_and(|name| name.contains("/views-g") && name.ends_with(".db"))).count()
}

#[tokio::test]
async fn a33_neither_calls_nor_streams_nor_pauses_hold_a_connection() {
    let sign = "[[tools]]\ntype = \"external_execution\"\nname = \"sign\"\n";
    let world = World::set(sign, |product| product.set("REENACT_MAX_CONCURRENCY", AT_WORK + PAUSED)).await;
    world.model.rule(|request| {
        let asked = request.messages().last()?["content"].as_str()?;
        match asked {
            "hold" => Some(Reply::default().hang()),
            "pause" => Some(Reply::calls(&[("c", "sign", "{}")])),
            _ => None,
        }
    });
    let paused: Vec<_> = (0..PAUSED).map(|number| format!("paused {number}")).collect();
    for run in join_all(paused.iter().map(|session| world.product.begin("a", session, "pause"))).await {
        assert_eq!(world.product.settled(&run).await["status"], "PAUSED");
    }
    let sessions: Vec<_> = (0..AT_WORK).map(|number| format!("held {number}")).collect();
    let held = join_all(sessions.iter().map(|session| world.product.begin("a", session, "hold"))).await;
    world.model.wait_for(PAUSED + AT_WORK).await;
    let watch = async |number: usize| {
        let mut reader = Reader::resume(&world.product, &held[number % AT_WORK], None).await;
        reader.until("ModelRequestStarted", 1).await;
        reader
    };
    let readers = join_all((0..STREAMS).map(watch)).await;
    let reads = (0..50).map(async |number| {
        let path = ["/health", "/sessions?limit=20", "/queue/stats", "/approvals"][number % 4];
        world.product.get(path).await.expect(200);
        let open = connections(&world.product);
        assert!(open <= CONNECTIONS_MAX, "{open} connections");
    });
    join_all(reads).await;
    world.turn("another", "hello").await;
    // Whoever is waited for is served at the end too.
    world.product.post(&format!("/agents/a/runs/{}/cancel", held[0]), &[]).await.expect(200);
    let first = readers.into_iter().next().expect("there are readers").rest().await;
    assert_eq!(first.last().map(|frame| frame.name.as_str()), Some("RunCancelled"));
}
