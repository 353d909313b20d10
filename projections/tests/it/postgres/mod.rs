//! On a server that all tests share, each in a schema of its own.

#[path = "../both/approvals.rs"]
mod approvals;
#[path = "../both/follow.rs"]
mod follow;
#[path = "../both/metrics.rs"]
mod metrics;
mod opening;
#[path = "../both/pages.rs"]
mod pages;
#[path = "../both/rebuild.rs"]
mod rebuild;
#[path = "../both/refold.rs"]
mod refold;
#[path = "../both/retention.rs"]
mod retention;
#[path = "../both/scope.rs"]
mod scope;
mod sharing;
#[path = "../both/steps.rs"]
mod steps;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use reenact_events::LogId;
use reenact_postgres_rig::Server;
use reenact_projections::{Generations, PostgresAddress, Schemas, Views};

use crate::history::LOG;

/// The database of all tests.
const DATABASE: &str = "postgres";

/// Ends with the process.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    // Each test has connections of its own, and many run side by side.
    SERVER.get_or_init(|| Server::start_with(&["max_connections=500"]).expect("a server"))
}

/// A schema that is not there yet.
pub(crate) struct Ground(String);

impl Ground {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    fn address(&self) -> PostgresAddress {
        PostgresAddress::parse(&server().url(DATABASE), &self.0).expect("is an address")
    }

    /// What `psql` says in the schema: a line for each row, columns between bars.
    pub(crate) fn sql(&self, statement: &str) -> String {
        let statement = format!("set search_path to \"{}\"; {statement}", self.0);
        server().execute(DATABASE, &statement).expect("the server does it").trim_end().to_owned()
    }

    /// The views in it, opened once more each time.
    pub(crate) async fn views(&self, partitions: u32) -> Views {
        self.views_of(LOG, partitions).await
    }

    /// The live views, and where others are.
    pub(crate) async fn generations(&self) -> (Arc<dyn Generations>, Views) {
        let views = self.views(1).await;
        (Arc::new(Schemas::of(&self.address(), LOG, 1).expect("connects")), views)
    }

    pub(crate) async fn views_of(&self, log: LogId, partitions: u32) -> Views {
        Views::connect(&self.address(), log, partitions).await.expect("opens")
    }
}
