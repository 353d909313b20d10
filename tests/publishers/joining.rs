//! Nodes that must not join a deployment are refused at their start, with the reason.

use std::net::TcpListener;

use crate::{
    commands::outcome,
    deployment::Deployment,
    product::{PATIENCE, POLL, Product},
    publisher::start_run,
};

/// Starts a node that must end; what it says.
async fn refused(mut node: Product) -> String {
    node.spawn();
    let status = node.ended(PATIENCE).await;
    assert_eq!(status.code(), Some(1), "{}", node.said());
    node.said()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_object_store_is_refused_and_one_with_the_same_joins() {
    let deployment = Deployment::start(1).await;
    let elsewhere = tempfile::tempdir().expect("a folder");
    let objects = elsewhere.path().display().to_string();
    let said = refused(deployment.another(1, Product::new()).set("REENACT_OBJECTS", &objects)).await;
    assert!(said.contains(&format!("`{objects}` is not the object store")) && said.contains("`--objects`"), "{said}");
    let left = std::fs::read_dir(&objects).expect("the folder is there").count();
    assert_eq!(left, 0, "a start that is refused marks nothing");
    deployment.another(1, Product::new()).started().await;

    // A store that was lost is replaced by one that is given its mark.
    let mark = said.split('`').find(|part| part.starts_with('{')).expect("it says what to put there");
    std::fs::write(elsewhere.path().join("deployment"), mark).expect("the folder is writable");
    deployment.another(2, Product::new()).set("REENACT_OBJECTS", &objects).started().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_deployments_do_not_share_an_object_store() {
    let (one, other) = (Deployment::start(1).await, Deployment::start(0).await);
    let said = refused(one.another(0, Product::new()).set("REENACT_TOPIC_PREFIX", &other.prefix)).await;
    assert!(said.contains("holds the texts and files of log") && said.contains("`--objects`"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_belongs_to_no_log_before_a_start_was_let_in() {
    let (one, other) = (Deployment::start(1).await, Deployment::start(0).await);
    let mut node = one.another(0, Product::new()).set("REENACT_TOPIC_PREFIX", &other.prefix);
    node.spawn();
    assert_eq!(node.ended(PATIENCE).await.code(), Some(1), "{}", node.said());
    node.set("REENACT_TOPIC_PREFIX", &one.prefix).set("REENACT_NODE", "another").started().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_node_of_one_name_is_refused_and_a_restart_of_the_first_is_not() {
    let mut deployment = Deployment::start(1).await;
    let said = refused(deployment.another(0, Product::new())).await;
    assert!(said.contains("node `node-0` is in the deployment already") && said.contains("`--node`"), "{said}");
    // Killed, it stays a member until its session times out.
    deployment.nodes[0].crash().await;
    let answer = deployment.publisher().ask(start_run("after", "s", "hello"));
    assert_eq!(outcome(&answer), ("accepted", ""), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_what_it_is_connecting_to() {
    // Whoever connects is left to wait.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let broker = silent.local_addr().expect("an address");
    let listen = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let mut node = Product::new().set("REENACT_LOG", format!("kafka://{broker}")).set("REENACT_LISTEN", listen);
    node.spawn();
    let (url, wanted) = (format!("http://{listen}/ready"), format!("connecting to kafka at `{broker}`"));
    let client = reqwest::Client::builder().no_proxy().build().expect("a client can be made");
    let asking = async {
        loop {
            if let Ok(answer) = client.get(&url).send().await
                && answer.text().await.is_ok_and(|text| text.contains(&wanted))
            {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("it never says so:\n{}", node.said()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_in_order_is_no_error() {
    let mut deployment = Deployment::start(2).await;
    let mut publisher = deployment.publisher();
    for session in ["a", "b", "c", "d", "e", "f"] {
        let started = publisher.ask(start_run(session, session, "sleep 600"));
        assert_eq!(outcome(&started), ("accepted", ""), "{started}");
    }
    let mut leaving = deployment.nodes.remove(0);
    leaving.term();
    assert!(leaving.ended(PATIENCE).await.success(), "{}", leaving.said());
    let answer = publisher.ask(start_run("after", "after", "hello"));
    assert_eq!(deployment.settled(&answer).await["status"], "COMPLETED");
    for node in [&leaving, deployment.node()] {
        let said = node.said();
        let loud: Vec<_> =
            said.lines().filter(|line| line.contains(" ERROR ") || line.contains("a transaction failed")).collect();
        assert!(loud.is_empty(), "{loud:#?}");
    }
}
