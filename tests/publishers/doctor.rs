//! `reenact doctor` on a log on Kafka: what keeps a start from working is named, and nothing is made.

use std::fs;

use serde_json::Value;

use crate::{deployment::Deployment, product::Product};

/// What `doctor` found with these settings beside, and whether it was content.
fn found(node: &Product, settings: &[(&str, &str)]) -> (bool, Vec<Value>) {
    let mut command = node.command();
    // The address of a node that is up is not what is looked at here.
    command.envs(settings.iter().copied()).args(["doctor", "--json"]);
    let output = command.output().expect("the program can be started");
    let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.success(), findings["findings"].as_array().expect("a list").clone())
}

fn failures(findings: &[Value]) -> String {
    let failed = findings.iter().filter(|finding| finding["verdict"] == "failure");
    failed.map(|finding| finding["text"].as_str().expect("a text")).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_works_passes_every_check_and_one_that_is_not_there_yet_does_too() {
    let deployment = Deployment::start(1).await;
    let not_yet = [("REENACT_TOPIC_PREFIX", "not-yet"), ("REENACT_DATA", "not-yet")];
    for (settings, told) in [(&[][..], "are as they must be"), (&not_yet, "makes")] {
        let (fine, findings) = found(deployment.node(), settings);
        assert!(fine, "{}", failures(&findings));
        let of = |check: &str| findings.iter().find(|finding| finding["check"] == check);
        for check in ["kafka settings", "kafka brokers", "kafka topics", "kafka group", "data directory"] {
            assert!(of(check).is_some(), "{check} is not among {findings:#?}");
        }
        let topics = of("kafka topics").expect("is there")["text"].as_str().expect("a text");
        assert!(topics.contains(told), "{topics}");
    }
    // It has only looked: what a start would make is still to be made.
    let (_, findings) = found(deployment.node(), &not_yet);
    assert!(
        findings.iter().any(|finding| finding["text"].as_str().is_some_and(|text| text.contains("`not-yet.owners`")))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_start_from_working_is_named_with_its_remedy() {
    let deployment = Deployment::start(1).await;
    let file = deployment.node().data().join("refused.properties");
    fs::write(&file, "acks=1\n").expect("the folder is writable");
    let file = file.to_str().expect("UTF-8");
    for (setting, words) in [
        (("REENACT_LOG", "kafka://127.0.0.1:1"), ["127.0.0.1:1", "is a broker running"]),
        (("REENACT_KAFKA_PROPERTIES", file), ["`acks`", "leave it out"]),
        (("REENACT_OBJECTS", "elsewhere"), ["`elsewhere` is not the deployment's object store", "`--objects`"]),
        (("REENACT_TOPIC_PREFIX", "a b"), ["a b", "`--topic-prefix`"]),
        (("REENACT_TOPIC_PREFIX", "another"), ["and is gone", "choose another `--data`"]),
        (("REENACT_KAFKA_PARTITIONS", "17"), ["--kafka-partitions 17", "6 partitions"]),
    ] {
        let (fine, findings) = found(deployment.node(), &[setting]);
        let told = failures(&findings);
        assert!(!fine, "{setting:?}");
        assert!(words.iter().all(|word| told.contains(word)), "{words:?} in: {told}");
    }
}
