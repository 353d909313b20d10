//! AgentOS beside us: PostgreSQL and uvicorn as processes of our own, stopped when this is dropped.
//!
//! `cargo xtask bench serve` installs both and says where they are.

use std::{
    env,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use reenact_postgres_rig::Server;
use tokio::net::TcpStream;

use crate::wire::Wire;

/// The one that a server has from the start.
const DATABASE: &str = "postgres";
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// A program that is stopped with the signal that it takes for a wish to go.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nobody to tell.
        Command::new("kill").args(["-s", "INT", &self.0.id().to_string()]).status().ok();
        self.0.wait().ok();
    }
}

/// See the module. Dropped in this order.
pub(crate) struct Peer {
    agent_os: Program,
    postgres: Server,
    address: String,
}

impl Peer {
    /// Starts it with a model; `None` where it is not installed.
    pub(crate) async fn start(model: &str) -> Option<Self> {
        let python = PathBuf::from(env::var_os("REENACT_AGNO_PYTHON")?);
        let postgres = Server::start().ok()?;
        let database = postgres.url(DATABASE).replacen("postgres", "postgresql+psycopg", 1);
        let port = free_port();
        let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/serve");
        let mut command = Command::new(python);
        command.args(["-m", "uvicorn", "app:app", "--log-level", "warning", "--no-access-log"]);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--app-dir"]).arg(app);
        command.env("BENCH_MODEL", model).env("BENCH_DATABASE", database);
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
        // It tells of every run, whatever uvicorn is told.
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python starts");
        let peer = Self { agent_os: Program(child), postgres, address: format!("127.0.0.1:{port}") };
        listening(port).await;
        Wire::to(&peer.address).await.get("/health").await.expect(200);
        Some(peer)
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// The processes that the others come from.
    pub(crate) fn processes(&self) -> Vec<u32> {
        [self.agent_os.0.id()].into_iter().chain(self.postgres.id()).collect()
    }

    /// Gives the session of a run so many further ones, which are copies of it: to make them one by one would take
    /// a quarter of an hour.
    pub(crate) fn copy_run(&self, run: &str, copies: usize) {
        let copy = format!(
            "insert into ai.agno_runs select (jsonb_populate_record(run, jsonb_build_object('run_id', id, \
             'run_index', run.run_index + number, 'run_data', run.run_data || jsonb_build_object('run_id', id)))).* \
             from ai.agno_runs run, generate_series(1, {copies}) number, \
             lateral (select 'copy-' || number as id) names where run.run_id = '{run}'"
        );
        for statement in [&*copy, "analyze ai.agno_runs"] {
            self.postgres.execute(DATABASE, statement).expect("PostgreSQL does it");
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

async fn listening(port: u16) {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "nobody listens on port {port}");
        tokio::time::sleep(POLL).await;
    }
}
