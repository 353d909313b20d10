//! A32: totals that change from page to page, items that are missing or come twice, and page numbers that are a fault
//! of the server.

use std::collections::BTreeSet;

use reenact_tests::stub::{ModelStub, Reply};
use serde_json::Value;

use crate::{
    ground,
    support::{Product, agent_with_model},
};

const SESSIONS: usize = 23;
/// Every list that has pages, and what tells its items apart.
const LISTS: [(&str, &str); 5] = [
    ("/sessions?sort_by=created_at", "session_id"),
    ("/sessions?sort_by=updated_at&sort_order=asc", "session_id"),
    ("/runs?", "run_id"),
    ("/queue/jobs?", "id"),
    ("/approvals?", "id"),
];

fn ids(page: &Value, id: &str) -> Vec<String> {
    let items = page["data"].as_array().expect("a list");
    items.iter().map(|item| item[id].as_str().expect("an id").to_owned()).collect()
}

/// A run in each session that waits for a person.
async fn many() -> (Product, ModelStub) {
    let model = ModelStub::start().await;
    model.otherwise(Reply::calls(&[("c", "pay", "{}")]));
    let tool = "[[tools]]\ntype = \"http\"\nname = \"pay\"\nmethod = \"POST\"\nurl = \"http://127.0.0.1:1/\"\n\
                requires_confirmation = true\nparameters = { type = \"object\" }\n";
    let file = agent_with_model(&model.base_url()) + tool;
    let product = ground::product().agent("a", &file).started().await;
    let turns = (0..SESSIONS).map(|number| {
        let product = &product;
        async move { product.turn("a", &format!("session-{number:02}"), "pay").await }
    });
    for run in futures::future::join_all(turns).await {
        assert_eq!(run["status"], "PAUSED", "{run:#}");
    }
    (product, model)
}

#[tokio::test]
async fn a32_the_pages_of_every_list_add_up_to_the_whole() {
    let (product, _model) = many().await;
    for (path, id) in LISTS {
        for limit in [1, 5, SESSIONS, 1000] {
            let mut seen = Vec::new();
            for page in 1..=SESSIONS.div_ceil(limit) + 1 {
                let answer = product.get(&format!("{path}&limit={limit}&page={page}")).await.expect(200).json();
                assert_eq!(answer["meta"]["total_count"], SESSIONS, "{path} page {page} of {limit}");
                assert_eq!(answer["meta"]["total_pages"], SESSIONS.div_ceil(limit), "{path} page {page} of {limit}");
                seen.extend(ids(&answer, id));
            }
            let apart: BTreeSet<_> = seen.iter().collect();
            assert_eq!((seen.len(), apart.len()), (SESSIONS, SESSIONS), "{path} in pages of {limit}");
        }
    }
}

#[tokio::test]
async fn a32_pages_that_cannot_be_are_refused_and_those_beyond_the_end_are_empty() {
    let (product, _model) = many().await;
    for (path, id) in LISTS {
        for wrong in ["page=0", "page=-1", "page=x", "limit=0", "limit=1001", "limit=99999999999999999999"] {
            let answer = product.get(&format!("{path}&{wrong}")).await;
            assert_eq!(answer.status, 422, "{path}&{wrong}: {}", answer.text());
        }
        let answer = product.get(&format!("{path}&page=1000000000&limit=1000")).await.expect(200).json();
        assert_eq!(answer["meta"]["total_count"], SESSIONS, "{path}");
        assert!(ids(&answer, id).is_empty(), "{path}");
    }
}
