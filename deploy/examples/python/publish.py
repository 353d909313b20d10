"""Starts a run and waits for the answer to that, with confluent-kafka.

    publish.py BROKERS PREFIX AGENT SESSION MESSAGE [--id ID] [--cloudevents]

`--id` names the request: sent again, it has no further effect. `--cloudevents` says type and id in headers,
as CloudEvents' binary mode has it, instead of in the value.
"""

import argparse
import json
import sys
import time
import uuid

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

ANSWER_WAIT_S = 60


def arguments():
    parser = argparse.ArgumentParser(description="Starts a run and waits for the answer to that.")
    for name in ("brokers", "prefix", "agent", "session", "message"):
        parser.add_argument(name)
    parser.add_argument("--id", default=str(uuid.uuid4()))
    parser.add_argument("--cloudevents", action="store_true")
    return parser.parse_args()


def answers(brokers, topic):
    """A reader of the answers from now on. It needs no group: its place is its own and is not kept."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    ends = [TopicPartition(topic, p, consumer.get_watermark_offsets(TopicPartition(topic, p))[1]) for p in partitions]
    consumer.assign(ends)
    return consumer


def publish(brokers, topic, key, value, headers):
    failed = []
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True})
    producer.produce(topic, value, key, headers=headers, on_delivery=lambda error, _: failed.append(error))
    producer.flush()
    if failed != [None]:
        raise KafkaException(*failed)


def answer_to(correlation_id, consumer):
    until = time.monotonic() + ANSWER_WAIT_S
    while time.monotonic() < until:
        record = consumer.poll(1)
        if record is None:
            continue
        if record.error():
            raise KafkaException(record.error())
        answer = json.loads(record.value())
        if answer["correlation_id"] == correlation_id:
            return answer
    sys.exit(f"no answer within {ANSWER_WAIT_S} s: does a node serve this prefix?")


def main():
    asked = arguments()
    correlation_id = str(uuid.uuid4())
    command = {
        "session_id": asked.session,
        "agent_id": asked.agent,
        "message": asked.message,
        "reply_to": {"correlation_id": correlation_id},
    }
    headers = []
    if asked.cloudevents:
        headers = [
            ("ce_specversion", "1.0"),
            ("ce_type", "dev.reenact.command.StartRun.v1"),
            ("ce_id", asked.id),
            ("ce_source", "/examples/python"),
            ("content-type", "application/json"),
        ]
    else:
        command |= {"type": "StartRun", "id": asked.id}
    consumer = answers(asked.brokers, f"{asked.prefix}.replies")
    publish(asked.brokers, f"{asked.prefix}.commands", asked.session, json.dumps(command), headers)
    print(json.dumps(answer_to(correlation_id, consumer)))
    consumer.close()


main()
