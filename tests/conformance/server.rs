//! The program that is spoken to, and the interpreter that speaks.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

/// A folder with agents and data, and the program that serves it.
pub(crate) struct Server {
    child: Child,
    url: String,
    // Kept open: a server that writes to a closed pipe would fail.
    _out: BufReader<ChildStdout>,
}

impl Server {
    /// Serves the folder and waits until everything is restored.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    /// The same with settings of the program.
    pub(crate) fn start_with(folder: &Path, settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new(product());
        command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(folder).env_clear();
        command.envs(settings.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let (mut url, mut line) = (String::new(), String::new());
        while !line.contains("  try it ") {
            line.clear();
            assert!(out.read_line(&mut line).expect("text") > 0, "it ended before it was ready");
            if let Some((_, address)) = line.trim_end().split_once(" listens on ") {
                address.clone_into(&mut url);
            }
        }
        Self { child, url, _out: out }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL: what is to survive must survive this.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Where cargo puts what it builds: this test is in `PROFILE/deps`.
fn profile() -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    test.ancestors().nth(2).expect("tests are in a folder of cargo's").to_owned()
}

fn product() -> PathBuf {
    let product = env::var_os("REENACT_BIN").map_or_else(|| profile().join("reenact"), PathBuf::from);
    let missing = "run `cargo build -p reenact-server` first, or name the program in `REENACT_BIN`";
    assert!(product.is_file(), "`{}` is not there: {missing}", product.display());
    product
}

/// A Python that has Agno, as `cargo xtask verify python` makes it.
pub(crate) fn python() -> PathBuf {
    let made = || profile().with_file_name("tools").join("python/bin/python");
    let python = env::var_os("REENACT_PYTHON").map_or_else(made, PathBuf::from);
    let missing = "run `cargo xtask verify python` first, or name a Python that has Agno in `REENACT_PYTHON`";
    assert!(python.exists(), "`{}` is not there: {missing}", python.display());
    python
}
