//! Background runs as fast as they are accepted, each in a session of its own, until all have completed.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::future::join_all;

use crate::{processor, wire::Wire};

/// Looking whether all have completed costs the server something: it is done after each fiftieth of the time so far.
const LOOKS: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(300);

/// Something that takes AgentOS's requests.
pub(crate) struct Server {
    /// Where.
    pub(crate) address: String,
    /// The processes whose processor time is counted, with all that come from them.
    pub(crate) processes: Vec<u32>,
}

/// What came of some runs.
pub(crate) struct Round {
    /// Runs accepted per second, until the last was.
    pub(crate) accepted: f64,
    /// Runs completed per second, until the last was.
    pub(crate) completed: f64,
    /// Seconds from a request to its answer.
    pub(crate) acceptances: Vec<f64>,
    /// Milliseconds of processor time per run, from the first request until all could be read as completed.
    pub(crate) processor_ms: f64,
}

impl Server {
    /// Seconds that its processes have worked.
    fn processor(&self) -> f64 {
        self.processes.iter().map(|pid| processor::seconds_of(*pid)).sum()
    }

    /// Runs that have completed so far. Each that has failed is a reason to stop.
    async fn completed(&self) -> u64 {
        // Anew each time: uvicorn closes what says nothing for five seconds.
        let mut wire = Wire::to(&self.address).await;
        let stats: serde_json::Value =
            serde_json::from_slice(&wire.get("/queue/stats").await.expect(200)).expect("JSON");
        assert_eq!(stats["counts"]["failed"].as_u64().unwrap_or(0), 0, "a run has failed");
        stats["counts"]["completed"].as_u64().unwrap_or(0)
    }

    /// Does `runs` with so many clients.
    pub(crate) async fn round(&self, name: &str, clients: usize, runs: usize) -> Round {
        let before = self.completed().await;
        let (next, worked, began) = (AtomicUsize::new(0), self.processor(), Instant::now());
        let acceptances = join_all((0..clients).map(|_| self.client(name, &next, runs))).await.concat();
        let accepted = runs as f64 / began.elapsed().as_secs_f64();
        while self.completed().await < before + runs as u64 {
            assert!(began.elapsed() < PATIENCE, "some runs do not complete");
            tokio::time::sleep(began.elapsed() / LOOKS).await;
        }
        let completed = runs as f64 / began.elapsed().as_secs_f64();
        let processor_ms = (self.processor() - worked) * 1e3 / runs as f64;
        Round { accepted, completed, acceptances, processor_ms }
    }

    /// Starts a run when the one before is accepted; the seconds that each took.
    async fn client(&self, name: &str, next: &AtomicUsize, runs: usize) -> Vec<f64> {
        let mut wire = Wire::to(&self.address).await;
        let mut took = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= runs {
                return took;
            }
            let began = Instant::now();
            start(&mut wire, &format!("{name}-{number}")).await;
            took.push(began.elapsed().as_secs_f64());
        }
    }
}

/// Starts a run of a session; its id.
pub(crate) async fn start(wire: &mut Wire, session: &str) -> String {
    let message = "When does my order A-1042 arrive";
    let form = [("message", message), ("session_id", session), ("background", "true"), ("stream", "false")];
    let ticket = wire.post("/agents/bench/runs", &form).await.expect(202);
    let ticket: serde_json::Value = serde_json::from_slice(&ticket).expect("JSON");
    ticket["run_id"].as_str().expect("a ticket names its run").to_owned()
}
