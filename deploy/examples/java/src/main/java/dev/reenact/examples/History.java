package dev.reenact.examples;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Prints every event of a deployment, from the first to the last that is committed now, one JSON object a line.
 *
 * <p>Arguments: {@code BROKERS PREFIX}. Two things matter: {@code isolation.level=read_committed}, because a
 * transaction that was aborted leaves its records in the topic; and that offsets have gaps, so the next offset comes
 * from the last record and is never counted.
 */
public final class History {
    private static final ObjectMapper JSON = new ObjectMapper();

    private History() {}

    public static void main(String[] args) throws Exception {
        if (args.length != 2) {
            System.err.println("usage: History BROKERS PREFIX");
            System.exit(2);
        }
        String topic = args[1] + ".events";
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "isolation.level", "read_committed");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(partition -> new TopicPartition(topic, partition.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            // With read_committed this is the first offset that is not decided yet.
            Map<TopicPartition, Long> open = new HashMap<>(consumer.endOffsets(partitions));
            while (!open.isEmpty()) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(JSON.writeValueAsString(event(record)));
                }
                // The position also moves over what is no record: markers, and what was aborted.
                open.entrySet().removeIf(end -> consumer.position(end.getKey()) >= end.getValue());
            }
        }
    }

    private static ObjectNode event(ConsumerRecord<String, String> record) throws Exception {
        ObjectNode event = JSON.createObjectNode();
        event.put("partition", record.partition()).put("offset", record.offset());
        event.put("id", text(record, "ce_id")).put("type", text(record, "ce_type"));
        event.put("stream", text(record, "ce_partitionkey"));
        event.put("seq", Long.parseLong(text(record, "ce_rseq")));
        event.put("time", text(record, "ce_time")).put("run", text(record, "ce_subject"));
        event.set("data", JSON.readTree(record.value()));
        return event;
    }

    private static String text(ConsumerRecord<String, String> record, String name) {
        Header header = record.headers().lastHeader(name);
        return header == null ? null : new String(header.value(), StandardCharsets.UTF_8);
    }
}
