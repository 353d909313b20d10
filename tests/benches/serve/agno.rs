//! Background runs with an instant model: the program as it is built for use, beside Agno's AgentOS with its durable
//! queue on PostgreSQL. The two take turns, with the same requests, the same model and the same clients.

use reenact_tests::product::Product;

use crate::{
    line,
    load::{Round, Server},
    median, percentile,
};

const ROUNDS: usize = 5;
/// Runs of a round: ours, and the peer's.
const OURS: usize = 4_000;
const THEIRS: usize = 120;
/// Both work on ahead of what is counted.
const WARM_UP: usize = 40;

pub(crate) async fn report(ours: &Server, theirs: Option<&Server>, product: &Product) {
    for clients in [16, 64] {
        let (mut of_ours, mut of_theirs) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let is_warm = round > 0;
            let runs = |runs| if is_warm { runs } else { WARM_UP };
            let name = format!("c{clients}-r{round}");
            let round = ours.round(&name, clients, runs(OURS)).await;
            of_ours.extend(is_warm.then_some(round));
            if let Some(theirs) = theirs {
                let round = theirs.round(&name, clients, runs(THEIRS)).await;
                of_theirs.extend(is_warm.then_some(round));
            }
        }
        table(clients, &of_ours, &of_theirs);
    }
    assert!(product.is_up(), "the program has ended");
}

fn table(clients: usize, ours: &[Round], theirs: &[Round]) {
    let each = |rounds: &[Round], figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let all = |rounds: &[Round]| rounds.iter().flat_map(|round| round.acceptances.clone()).collect::<Vec<_>>();
    let (ours_ms, slow) = (each(ours, |round| round.processor_ms), percentile(all(ours), 99));
    println!("{clients} clients");
    line("processor ms per run, all of our process", ours_ms, "<= 0.5");
    println!(
        "  ({:.0} runs/s accepted, {:.0} completed, acceptance {:.1} ms, 99 of 100 within {:.1} ms)",
        each(ours, |round| round.accepted),
        each(ours, |round| round.completed),
        median(all(ours)) * 1e3,
        slow * 1e3,
    );
    if theirs.is_empty() {
        println!("  (AgentOS is not installed: `cargo xtask bench serve` does that)");
        return;
    }
    let (rate, their_rate) = (each(ours, |round| round.completed), each(theirs, |round| round.completed));
    let their_median = median(all(theirs));
    line("runs completed per second, reenact / AgentOS", rate / their_rate, ">= 60");
    line("acceptance: our 99th percentile / AgentOS's median", slow / their_median, "< 1");
    line("processor ms per run, AgentOS and PostgreSQL", each(theirs, |round| round.processor_ms), "-");
    println!(
        "  (AgentOS: {:.0} runs/s accepted, {their_rate:.1} completed, acceptance {:.1} ms)",
        each(theirs, |round| round.accepted),
        their_median * 1e3,
    );
}
