//! AgentOS beside us: PostgreSQL and uvicorn as processes of our own, stopped when this is dropped.
//!
//! `cargo xtask bench serve` installs both and says where they are.

use std::{
    env,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::wire::Wire;

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
    postgres: Postgres,
    address: String,
}

impl Peer {
    /// Starts it with a model; `None` where it is not installed.
    pub(crate) async fn start(model: &str) -> Option<Self> {
        let python = PathBuf::from(env::var_os("REENACT_AGNO_PYTHON")?);
        let postgres = Postgres::start(Path::new(&env::var_os("REENACT_POSTGRES")?)).await;
        let port = free_port();
        let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/serve");
        let mut command = Command::new(python);
        command.args(["-m", "uvicorn", "app:app", "--log-level", "warning", "--no-access-log"]);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--app-dir"]).arg(app);
        command.env("BENCH_MODEL", model).env("BENCH_DATABASE", postgres.url("postgresql+psycopg"));
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
        vec![self.agent_os.0.id(), self.postgres.server.0.id()]
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
        self.postgres.execute(&copy);
        self.postgres.execute("analyze ai.agno_runs");
    }
}

struct Postgres {
    server: Program,
    programs: PathBuf,
    port: u16,
    _folder: TempDir,
}

impl Postgres {
    /// A database as it comes: nothing is tuned, and every commit is forced to disk.
    async fn start(programs: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (port, data) = (free_port(), folder.path().join("data"));
        let owner = Owner::of(folder.path());
        let mut initdb = owner.command(&programs.join("initdb"));
        initdb.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust"]).stdout(Stdio::null());
        assert!(initdb.status().expect("initdb starts").success(), "a database can be made");
        let mut postgres = owner.command(&programs.join("postgres"));
        postgres.arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        postgres.args(["-c", "unix_socket_directories=", "-c", "log_min_messages=fatal"]);
        let server = Program(postgres.stdin(Stdio::null()).spawn().expect("postgres starts"));
        let postgres = Self { server, programs: programs.to_owned(), port, _folder: folder };
        listening(port).await;
        let began = Instant::now();
        while !postgres.try_execute("select 1") {
            assert!(began.elapsed() < PATIENCE, "PostgreSQL does not answer");
            tokio::time::sleep(POLL).await;
        }
        postgres
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn execute(&self, statement: &str) {
        assert!(self.try_execute(statement), "`{statement}` failed");
    }

    fn try_execute(&self, statement: &str) -> bool {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.arg(self.url("postgresql")).args(["-qXc", statement]).stdout(Stdio::null());
        psql.status().expect("psql starts").success()
    }
}

/// Who PostgreSQL runs as: it refuses root.
struct Owner(Option<(u32, u32)>);

impl Owner {
    /// Gives them the folder.
    fn of(folder: &Path) -> Self {
        if id(&["-u"]) != 0 {
            return Self(None);
        }
        let changed = Command::new("chown").arg("postgres:").arg(folder).status().expect("`chown` is there");
        assert!(changed.success(), "Debian's package makes the user `postgres`");
        Self(Some((id(&["-u", "postgres"]), id(&["-g", "postgres"]))))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/");
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }
}

fn id(args: &[&str]) -> u32 {
    let output = Command::new("id").args(args).output().expect("`id` is there");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("ids are numbers")
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
