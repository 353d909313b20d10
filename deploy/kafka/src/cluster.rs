//! One cluster: brought up, disturbed, and taken down.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    Health, NodeStatus, Options, jars,
    ports::{self, Reserved},
    process::{self, Home, Reaper},
    ready, settings,
    state::{Node, PORTS_PER_NODE, State},
};

/// On two busy cores three brokers take ten seconds; one that takes this long has failed.
const START_DEADLINE: Duration = Duration::from_secs(90);
/// An orderly stop moves leaders away first, and may keep classes; one that takes this long hangs.
const STOP_DEADLINE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// A cluster in its folder. One that was brought up here dies when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    lib: PathBuf,
    state: State,
    progress: fn(&str),
    /// Processes that this one has started, which it has to wait for.
    children: BTreeMap<u16, Child>,
    /// None for clusters that outlive this process.
    reapers: BTreeMap<u16, Reaper>,
    is_owner: bool,
    /// None for clusters whose ports somebody else has chosen.
    ports: Option<Reserved>,
    /// Where brokers that end in order leave their classes, if anywhere.
    keep: Option<PathBuf>,
}

impl Cluster {
    /// Brings a cluster up and waits until each broker sees all of them. A cluster that is in the folder already
    /// is completed, if it is the one that is asked for.
    pub fn up(options: Options) -> anyhow::Result<Self> {
        Self::up_keeping(options, None)
    }

    fn up_keeping(options: Options, keep: Option<PathBuf>) -> anyhow::Result<Self> {
        if ![1, 3].contains(&options.nodes) {
            bail!("a cluster of {} nodes is not possible here: 1 or 3", options.nodes);
        }
        let lib = jars::fetch(&options.jars, &options.version, options.progress)?;
        fs::create_dir_all(&options.dir).with_context(|| format!("`{}` cannot be made", options.dir.display()))?;
        let dir = absolute(&options.dir)?;
        let (state, ports) = wanted_state(&dir, &options)?;
        let mut cluster = Self::of(dir, lib, state);
        cluster.ports = ports;
        cluster.progress = options.progress;
        cluster.is_owner = true;
        cluster.keep = keep;
        cluster.start_all()?;
        Ok(cluster)
    }

    /// Keeps the classes of a broker as they lie in memory, beside its jars: every later start takes a third less. It
    /// runs a broker once, unless they are there already; a Java that cannot keep them changes nothing.
    pub fn keep_classes(options: Options) -> anyhow::Result<()> {
        let kept = process::kept_classes(&jars::fetch(&options.jars, &options.version, options.progress)?);
        if kept.is_file() {
            return Ok(());
        }
        let (dir, partial) = (options.dir.clone(), kept.with_extension("partial"));
        let mut cluster = Self::up_keeping(options, Some(partial.clone()))?;
        cluster.stop(1)?;
        cluster.down()?;
        match fs::rename(&partial, &kept) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("`{}` cannot be renamed to `{}`", partial.display(), kept.display()))
            }
            _ => fs::remove_dir_all(&dir).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error).with_context(|| format!("`{}` cannot be removed", dir.display())),
            }),
        }
    }

    /// The cluster that lives in this folder. It is left running when this is dropped.
    pub fn attach(dir: &Path, jars: &Path) -> anyhow::Result<Self> {
        let missing =
            || format!("there is no cluster in `{}`: bring one up with `cargo xtask kafka up`", dir.display());
        let dir = absolute(dir).with_context(missing)?;
        let state = State::read(&dir)?.with_context(missing)?;
        let lib = jars.join(&state.version).join("lib");
        Ok(Self::of(dir, lib, state))
    }

    fn of(dir: PathBuf, lib: PathBuf, state: State) -> Self {
        let (children, reapers) = Default::default();
        Self { dir, lib, state, progress: |_| {}, children, reapers, is_owner: false, ports: None, keep: None }
    }

    /// What a client needs to connect, `host:port` of all nodes with commas between.
    pub fn bootstrap(&self) -> String {
        self.addresses(|node| node.port)
    }

    /// The same for the listener that a property put on `{secure_port}`.
    pub fn secure_bootstrap(&self) -> String {
        self.addresses(Node::secure_port)
    }

    fn addresses(&self, port: impl Fn(&Node) -> u16) -> String {
        let addresses: Vec<_> = self.state.nodes.iter().map(|node| format!("127.0.0.1:{}", port(node))).collect();
        addresses.join(",")
    }

    /// Which Apache Kafka it is.
    pub fn version(&self) -> &str {
        &self.state.version
    }

    /// Runs one of Kafka's own tools, such as `org.apache.kafka.tools.TopicCommand`; gives back what it printed.
    pub fn tool(&self, class: &str, args: &[&str]) -> anyhow::Result<String> {
        process::tool(&self.lib, class, args)
    }

    /// Kills a broker as a power cut would (SIGKILL).
    pub fn kill(&mut self, id: u16) -> anyhow::Result<()> {
        self.end(id, Signal::KILL)
    }

    /// Ends a broker in order (SIGTERM): it hands its partitions over first.
    pub fn stop(&mut self, id: u16) -> anyhow::Result<()> {
        self.end(id, Signal::TERM)
    }

    /// Freezes a broker (SIGSTOP): its connections stay open and nothing answers.
    pub fn pause(&mut self, id: u16) -> anyhow::Result<()> {
        self.signal(id, Signal::STOP)
    }

    /// Lets a frozen broker go on (SIGCONT).
    pub fn resume(&mut self, id: u16) -> anyhow::Result<()> {
        self.signal(id, Signal::CONT)
    }

    /// Starts a broker again, with its data, and waits until it serves. Without a majority of the nodes no broker
    /// can serve, so then it does not wait.
    pub fn start(&mut self, id: u16) -> anyhow::Result<()> {
        self.node(id)?;
        self.launch(&[id])?;
        let running = self.state.nodes.iter().filter(|node| self.home(node.id).running().is_some()).count();
        if running * 2 > self.state.nodes.len() {
            self.await_serving(&[id], &BTreeSet::from([id]))?;
        }
        Ok(())
    }

    /// How each node is.
    pub fn status(&self) -> Vec<NodeStatus> {
        let status = |node: &Node| {
            let pid = self.home(node.id).running();
            let health = match pid {
                None => Health::Down,
                Some(pid) if process::is_paused(pid) => Health::Paused,
                Some(_) if ready::brokers_seen_by(node.port).is_ok() => Health::Serving,
                Some(_) => Health::Starting,
            };
            NodeStatus { id: node.id, port: node.port, pid, health }
        };
        self.state.nodes.iter().map(status).collect()
    }

    /// The status as one JSON value.
    pub fn status_json(&self) -> String {
        let node = |node: NodeStatus| {
            let home = self.home(node.id);
            json!({ "id": node.id, "port": node.port, "pid": node.pid, "health": node.health.to_string(), "log": home.log() })
        };
        let nodes: Vec<_> = self.status().into_iter().map(node).collect();
        json!({ "version": self.version(), "bootstrap": self.bootstrap(), "dir": self.dir, "nodes": nodes }).to_string()
    }

    /// Kills all brokers and removes what the cluster kept.
    pub fn down(mut self) -> anyhow::Result<()> {
        self.kill_all()?;
        for node in &self.state.nodes {
            let folder = self.home(node.id).folder().to_owned();
            fs::remove_dir_all(&folder).with_context(|| format!("`{}` cannot be removed", folder.display()))?;
        }
        State::remove(&self.dir)
    }

    /// Lets the brokers outlive this process; [`Cluster::attach`] finds them again.
    pub fn leave_running(mut self) {
        self.is_owner = false;
        while let Some((_, reaper)) = self.reapers.pop_first() {
            reaper.dismiss();
        }
    }

    fn home(&self, id: u16) -> Home {
        Home::of(&self.dir, id)
    }

    fn node(&self, id: u16) -> anyhow::Result<&Node> {
        let found = self.state.nodes.iter().find(|node| node.id == id);
        found.with_context(|| format!("there is no node {id}: this cluster has {}", self.state.nodes.len()))
    }

    fn signal(&self, id: u16, signal: Signal) -> anyhow::Result<()> {
        let home = self.home(self.node(id)?.id);
        let pid = home.running().with_context(|| format!("node {id} is down"))?;
        process::signal(pid, &home, signal)
    }

    /// Ends a broker and waits until its process is gone; one that is down already is left alone.
    fn end(&mut self, id: u16, signal: Signal) -> anyhow::Result<()> {
        let home = self.home(self.node(id)?.id);
        let Some(pid) = home.running() else { return Ok(()) };
        process::signal(pid, &home, signal)?;
        let deadline = Instant::now() + STOP_DEADLINE;
        while process::is_broker(pid, &home) {
            if Instant::now() > deadline {
                bail!("node {id} did not end within {} s", STOP_DEADLINE.as_secs());
            }
            thread::sleep(POLL);
        }
        if let Some(mut child) = self.children.remove(&id) {
            child.wait().with_context(|| format!("the process of node {id} cannot be waited for"))?;
        }
        if let Some(reaper) = self.reapers.remove(&id) {
            reaper.dismiss();
        }
        Ok(())
    }

    fn kill_all(&mut self) -> anyhow::Result<()> {
        let ids: Vec<_> = self.state.nodes.iter().map(|node| node.id).collect();
        ids.into_iter().try_for_each(|id| self.kill(id))
    }

    fn start_all(&mut self) -> anyhow::Result<()> {
        let ids: Vec<_> = self.state.nodes.iter().map(|node| node.id).collect();
        self.prepare(&ids)?;
        self.launch(&ids)?;
        (self.progress)(&format!("waiting for {} brokers of Apache Kafka {}", ids.len(), self.version()));
        self.await_serving(&ids, &ids.iter().copied().collect())
    }

    /// Writes the properties and formats the data folders, all at the same time: each takes a second of Java.
    fn prepare(&self, ids: &[u16]) -> anyhow::Result<()> {
        let mut formatting = Vec::new();
        for id in ids {
            let (node, home) = (self.node(*id)?, self.home(*id));
            let made = fs::create_dir_all(home.data());
            made.with_context(|| format!("`{}` cannot be made", home.data().display()))?;
            let text = settings::properties(&self.state, node, &home.data().display().to_string());
            fs::write(home.properties(), text)
                .with_context(|| format!("`{}` cannot be written", home.properties().display()))?;
            if !home.data().join("meta.properties").exists() {
                formatting.push((process::format(&self.lib, &home, &self.state.cluster_id)?, home));
            }
        }
        for (mut child, home) in formatting {
            if !child.wait()?.success() {
                bail!("`{}` cannot be formatted:\n{}", home.data().display(), home.last_words());
            }
        }
        Ok(())
    }

    /// Starts those that do not run.
    fn launch(&mut self, ids: &[u16]) -> anyhow::Result<()> {
        for id in ids {
            let home = self.home(*id);
            if home.running().is_some() {
                continue;
            }
            let child = process::launch(&self.lib, &home, self.keep.as_deref())?;
            let pid = child.id();
            self.children.insert(*id, child);
            if self.is_owner {
                self.reapers.insert(*id, Reaper::of(pid, &home)?);
            }
            home.record(pid)?;
        }
        Ok(())
    }

    /// Waits until each of `ids` answers and sees `brokers`.
    fn await_serving(&mut self, ids: &[u16], brokers: &BTreeSet<u16>) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        for id in ids {
            let port = self.node(*id)?.port;
            loop {
                let has_ended = match self.children.get_mut(id) {
                    Some(child) => child.try_wait()?.is_some(),
                    None => self.home(*id).running().is_none(),
                };
                if has_ended {
                    bail!("node {id} has ended:\n{}", self.home(*id).last_words());
                }
                if ready::brokers_seen_by(port).is_ok_and(|seen| seen.is_superset(brokers)) {
                    break;
                }
                if Instant::now() > deadline {
                    let limit = START_DEADLINE.as_secs();
                    bail!("node {id} does not serve after {limit} s:\n{}", self.home(*id).last_words());
                }
                thread::sleep(POLL);
            }
            (self.progress)(&format!("node {id} serves on port {port}"));
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.is_owner
            && let Err(error) = self.kill_all()
        {
            // Nobody is left to be told, and the reapers kill what is left when this process ends.
            eprintln!("the brokers of `{}` could not be ended: {error:#}", self.dir.display());
        }
    }
}

/// What the folder holds, if that is what is asked for; else a new cluster on ports that are free.
fn wanted_state(dir: &Path, options: &Options) -> anyhow::Result<(State, Option<Reserved>)> {
    let count = options.nodes * PORTS_PER_NODE;
    let Some(state) = State::read(dir)? else {
        let ports = if options.port_base.is_none() { Some(ports::free()?) } else { None };
        let base = ports.as_ref().map(|ports| ports.first).or(options.port_base).unwrap_or_default();
        if base.checked_add(count).is_none() {
            bail!("there are no {count} ports from {base} on");
        }
        let state = State::new(&options.version, options.nodes, base, &options.extra);
        state.write(dir)?;
        return Ok((state, ports));
    };
    let is_same = state.version == options.version
        && state.nodes.len() == usize::from(options.nodes)
        && state.extra == options.extra
        && options.port_base.is_none_or(|base| state.nodes.first().is_some_and(|node| node.port == base));
    if !is_same {
        let (dir, nodes, version) = (dir.display(), state.nodes.len(), &state.version);
        bail!("`{dir}` holds another cluster ({nodes} nodes of {version}): take it down first, or name another folder");
    }
    Ok((state, None))
}

/// Without links or dots: this is what processes are recognised by.
fn absolute(dir: &Path) -> anyhow::Result<PathBuf> {
    dir.canonicalize().with_context(|| format!("`{}` cannot be found", dir.display()))
}
