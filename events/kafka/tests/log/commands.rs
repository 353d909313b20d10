//! Commands from anywhere, and what is no command.

use futures::StreamExt;
use rdkafka::{
    Message,
    message::{Header, Headers, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer},
};
use reenact_events::{Arrival, Batch, CommandRecord, DeadLetter, EventLog, Lease, PartitionId, wire};

use crate::support::*;

fn publish(brokers: &str, topic: &str, partition: Option<i32>, key: &str, value: &[u8], headers: OwnedHeaders) {
    let producer: BaseProducer = client(brokers).create().expect("a producer");
    let mut record = BaseRecord::to(topic).key(key).payload(value).headers(headers);
    record.partition = partition;
    producer.send(record).map_err(|(error, _)| error).expect("enqueued");
    producer.flush(PATIENCE).expect("sent");
}

async fn next(
    commands: &mut (impl StreamExt<Item = Result<CommandRecord, reenact_events::LogError>> + Unpin),
) -> CommandRecord {
    soon("a command", commands.next()).await.expect("has no end").expect("a command")
}

fn letter(record: &CommandRecord) -> DeadLetter {
    match &record.arrival {
        Arrival::Poison(letter) => (**letter).clone(),
        Arrival::Command(command) => panic!("a command: {command:?}"),
    }
}

fn passing(name: &str, record: &CommandRecord) -> Batch {
    Batch {
        next_command: Some(record.offset.next()),
        dead_letters: vec![letter(record)],
        ..Batch::new(batch(name).id, vec![])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a35_poison_becomes_a_dead_letter_once_with_everything_that_it_came_with() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let topics = options.topics();
    let (member, lease) = Member::owner(&options, "one").await;
    let headers = OwnedHeaders::new()
        .insert(Header { key: "trace", value: Some(&b"\xff\x00"[..]) })
        .insert(Header { key: "empty", value: None::<&[u8]> });
    publish(&brokers, &topics.commands, Some(0), "k\u{e9}", b"\xffnot a command", headers);
    let record = next(&mut member.log.commands(&lease)).await;
    member.committed(&lease, &passing("letter", &record)).await;
    // Whoever owns the partition next does not meet it again.
    let lease = member.claim(FIRST).await;
    publish(&brokers, &topics.commands, Some(0), "k", b"{}", OwnedHeaders::new());
    let second = next(&mut member.log.commands(&lease)).await;
    assert!(second.offset > record.offset);
    member.committed(&lease, &passing("second", &second)).await;

    let letters = records(&brokers, &topics.dead_letter, 2);
    assert_eq!(letters[0].key(), Some("k\u{e9}".as_bytes()));
    assert_eq!(letters[0].payload(), Some(&b"\xffnot a command"[..]));
    let headers = letters[0].headers().expect("headers");
    let header = |name: &str| headers.iter().find(|header| header.key == name).expect("it is there").value;
    assert_eq!((header("trace"), header("empty")), (Some(&b"\xff\x00"[..]), None));
    assert_eq!(header("reenact_topic"), Some(topics.commands.as_bytes()));
    assert_eq!(header("reenact_offset"), Some(record.offset.to_string().as_bytes()));
    assert!(header("reenact_reason").is_some());
    assert_eq!(value(&letters[1]), "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_above_the_limit_is_poison_and_the_next_one_is_not() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let (member, lease) = Member::owner(&options, "one").await;
    let topic = options.topics().commands;
    let large = vec![b' '; wire::COMMAND_BYTES_MAX + 1];
    publish(&brokers, &topic, Some(0), "k", &large, OwnedHeaders::new());
    member.log.publish(vec![command("good", FIRST)]).await.expect("published");
    let mut commands = member.log.commands(&lease);
    let record = next(&mut commands).await;
    assert_eq!(&*letter(&record).code, "too_large");
    member.committed(&lease, &passing("letter", &record)).await;
    assert_eq!(records(&brokers, &options.topics().dead_letter, 1)[0].payload(), Some(&large[..]));
    assert!(matches!(next(&mut commands).await.arrival, Arrival::Command(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_a_foreign_partitioner_sent_astray_goes_to_its_partition_once() {
    let brokers = shared();
    let options = deployment(&brokers, 2);
    let mut member = Member::join(&options, "one").await;
    let mut leases: Vec<Lease> = Vec::new();
    for _ in 0..2 {
        let partition = member.granted().await;
        leases.push(member.claim(partition).await);
    }
    leases.sort_by_key(|lease| lease.partition);
    let astray = command("astray", PartitionId(1));
    let text = wire::encode(&astray.command);
    publish(&brokers, &options.topics().commands, Some(0), "k", text.as_bytes(), OwnedHeaders::new());
    let record = next(&mut member.log.commands(&leases[0])).await;
    let forwarding = Batch {
        next_command: Some(record.offset.next()),
        forwards: vec![astray.clone()],
        ..Batch::new(batch("forward").id, vec![])
    };
    member.committed(&leases[0], &forwarding).await;
    member.log.publish(vec![command("behind", PartitionId(1))]).await.expect("published");
    let mut commands = member.log.commands(&leases[1]);
    for id in ["astray", "behind"] {
        match next(&mut commands).await.arrival {
            Arrival::Command(command) => assert_eq!(command.id.as_str(), id),
            Arrival::Poison(letter) => panic!("{letter:?}"),
        }
    }
    let lease = member.claim(FIRST).await;
    assert_eq!(lease.partition, FIRST);
    member.log.publish(vec![command("next", FIRST)]).await.expect("published");
    assert!(next(&mut member.log.commands(&lease)).await.offset > record.offset, "it is not met again");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_were_taken_can_be_dropped_and_none_that_waits_goes_with_them() {
    let brokers = shared();
    let options = deployment(&brokers, 1);
    let (member, lease) = Member::owner(&options, "one").await;
    let topic = options.topics().commands;
    member.log.publish(["taken", "read", "waiting"].map(|id| command(id, FIRST)).to_vec()).await.expect("published");
    let mut commands = member.log.commands(&lease);
    let taken = next(&mut commands).await;
    member.committed(&lease, &Batch { next_command: Some(taken.offset.next()), ..batch("taking") }).await;
    next(&mut commands).await;
    for _ in 0..2 {
        let begins = member.log.drop_taken_commands().await.expect("drops");
        assert_eq!(begins, [(FIRST, taken.offset.next())]);
        assert!(value(&records(&brokers, &topic, 1)[0]).contains("\"read\""), "what was only read is still there");
    }
    let (findings, _) = reenact_kafka::examine(&options);
    assert!(findings.iter().all(|finding| finding.verdict != reenact_kafka::Verdict::Wrong), "{findings:?}");
    // The owner goes on, and so does the next one.
    assert!(matches!(next(&mut commands).await.arrival, Arrival::Command(waiting) if waiting.id.as_str() == "waiting"));
    let lease = member.claim(FIRST).await;
    let mut commands = member.log.commands(&lease);
    for id in ["read", "waiting"] {
        assert!(matches!(next(&mut commands).await.arrival, Arrival::Command(command) if command.id.as_str() == id));
    }
}
