//! The server's process: begun, asked, killed, begun again.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);
/// Where Debian keeps the programs, a folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Runs a program and ends it when the standard input does: with whoever started it, whichever way that went.
const GUARD: &str = r#"exec 3<&0
"$@" </dev/null 3<&- & server=$!
( while read -r _ <&3; do :; done; kill -INT $server ) & guard=$!
exec 3<&-
wait $server
kill $guard 2>/dev/null"#;

/// A server with one superuser, `postgres`, who needs no password.
#[derive(Debug)]
pub struct Server {
    process: Option<Child>,
    programs: PathBuf,
    owner: Owner,
    port: u16,
    settings: Vec<String>,
    folder: TempDir,
}

impl Server {
    /// A database as it comes: nothing is tuned, and every commit is forced to disk.
    ///
    /// # Errors
    /// When the programs are not there, or do not start.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// One with settings of its own, each `name=value`.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(settings: &[&str]) -> anyhow::Result<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir()?;
        let owner = Owner::of(folder.path())?;
        let mut initdb = owner.command(&programs.join("initdb"));
        initdb.arg("-D").arg(folder.path().join("data")).args(["-U", "postgres", "-A", "trust", "-E", "UTF8"]);
        run(&mut initdb)?;
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { process: None, programs, owner, port: free_port()?, settings, folder };
        server.begin()?;
        Ok(server)
    }

    /// Begins it again, on the port that it had. What a killed one left behind may keep it from starting for a moment.
    ///
    /// # Errors
    /// When it does not start.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let mut process = self.spawn()?;
            while process.try_wait()?.is_none() && began.elapsed() < PATIENCE {
                if self.answers() {
                    self.process = Some(process);
                    return Ok(());
                }
                thread::sleep(POLL);
            }
            if began.elapsed() >= PATIENCE {
                process.kill()?;
                bail!("PostgreSQL does not answer on port {}", self.port);
            }
            thread::sleep(POLL);
        }
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let mut postgres = self.owner.command(Path::new("/bin/sh"));
        postgres.args(["-c", GUARD, "postgres"]).arg(self.programs.join("postgres")).arg("-D").arg(self.data());
        postgres.args(["-p", &self.port.to_string()]);
        let common = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "log_min_messages=fatal"];
        for setting in common.into_iter().chain(self.settings.iter().map(String::as_str)) {
            postgres.args(["-c", setting]);
        }
        Ok(postgres.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    fn answers(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok() && self.execute("postgres", "select 1").is_ok()
    }

    /// Ends it as a crash would: nothing is asked to finish, its other processes notice by themselves.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        if let Some(id) = self.server()? {
            run(Command::new("kill").args(["-s", "KILL", &id.to_string()]))?;
        }
        process.wait()?;
        Ok(())
    }

    /// The server's own process, which is no child of ours.
    fn server(&self) -> anyhow::Result<Option<u32>> {
        match fs::read_to_string(self.data().join("postmaster.pid")) {
            Ok(text) => Ok(text.lines().next().map(str::parse).transpose()?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The process that the others come from, while there is one.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.server().ok().flatten()
    }

    /// Where the data is.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The URL of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes a database of this name.
    ///
    /// # Errors
    /// When it is there already.
    pub fn create(&self, database: &str) -> anyhow::Result<()> {
        self.execute("postgres", &format!("create database \"{database}\"")).map(drop)
    }

    /// What `psql` prints for a statement: a line for each row, columns between bars.
    ///
    /// # Errors
    /// With what the server says.
    pub fn execute(&self, database: &str, statement: &str) -> anyhow::Result<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.arg(self.url(database)).args(["-qXAtc", statement]).stdin(Stdio::null());
        let output = run(&mut psql)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.stdin.take());
            // It may have ended by itself.
            process.wait().ok();
        }
    }
}

/// The folder of the newest programs.
fn programs() -> anyhow::Result<PathBuf> {
    let named = env::var_os("REENACT_POSTGRES").map(PathBuf::from);
    let searched = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let mut debian: Vec<_> =
        fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|entry| entry.path().join("bin")).collect();
    debian.sort();
    let mut places = named.into_iter().chain(debian.into_iter().rev()).chain(searched);
    let found = places.find(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file());
    found.context("there is no PostgreSQL here: install Debian's package `postgresql`, or name the folder of its programs in `REENACT_POSTGRES`")
}

fn run(command: &mut Command) -> anyhow::Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("`{name}` cannot be started"))?;
    if !output.status.success() {
        bail!("`{name}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output)
}

/// Who PostgreSQL runs as: it refuses root.
#[derive(Debug)]
struct Owner(Option<(u32, u32)>);

impl Owner {
    /// Gives them the folder.
    fn of(folder: &Path) -> anyhow::Result<Self> {
        if id(&["-u"])? != 0 {
            return Ok(Self(None));
        }
        let changed = Command::new("chown").arg("postgres:").arg(folder).status()?;
        if !changed.success() {
            bail!("there is no user `postgres`: Debian's package `postgresql` makes one");
        }
        Ok(Self(Some((id(&["-u", "postgres"])?, id(&["-g", "postgres"])?))))
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

fn id(args: &[&str]) -> anyhow::Result<u32> {
    let output = run(Command::new("id").args(args))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
