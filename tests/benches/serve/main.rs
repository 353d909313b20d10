//! The program as its users have it, over HTTP, on the embedded log with every commit forced to disk.
//!
//! * `agno`: background runs with an instant model beside Agno's AgentOS on PostgreSQL, in the same run: how many are
//!   completed per second, how long acceptance takes, and the processor time of each. The load and the model are in
//!   this process, cost little, and are not counted.
//! * `polls`: asking after one run of a session that had 3,000, and of one that had one.
//! * `readers`: a run's stream with one reader and with 1,000.
//!
//! `cargo xtask bench serve` installs AgentOS and PostgreSQL and builds the program; `-- agno`, `-- polls` or
//! `-- readers` does one part. Where AgentOS is not installed, only our figures are told. Nothing fails but what is wrong.

mod agno;
mod load;
mod model;
mod peer;
mod polls;
mod processor;
mod readers;
mod speaker;
mod wire;

use load::Server;
use peer::Peer;
use reenact_tests::product::{Product, agent_with_model};

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let wanted = |name: &str| args.iter().all(|arg| arg.starts_with("--")) || args.iter().any(|arg| arg == name);
    println!("{:<66} {:>10}  {:>8}", "", "", "target");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if wanted("agno") || wanted("polls") {
            beside(wanted("agno"), wanted("polls")).await;
        }
        if wanted("readers") {
            readers::report().await;
        }
    });
}

/// The parts that AgentOS has too.
async fn beside(agno: bool, polls: bool) {
    let model = model::start().await;
    let product = Product::new().agent("bench", &agent_with_model(&model));
    let product = product.set("REENACT_MAX_QUEUE_DEPTH", 1_000_000).started().await;
    let address = product.url().trim_start_matches("http://").to_owned();
    let ours = Server { address, processes: vec![product.pid()] };
    let peer = Peer::start(&model).await;
    let theirs = peer.as_ref().map(|peer| Server { address: peer.address(), processes: peer.processes() });
    if agno {
        agno::report(&ours, theirs.as_ref(), &product).await;
    }
    if polls {
        polls::report(&ours, theirs.as_ref().zip(peer.as_ref())).await;
    }
}

/// Prints a line of the table; `-` where nobody set a target.
pub(crate) fn line(what: &str, value: f64, target: &str) {
    println!("{what:<66} {value:>10.3}  {target:>8}");
}

/// The middle one.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    percentile(values, 50)
}

/// The one that so many of a hundred do not exceed.
pub(crate) fn percentile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
