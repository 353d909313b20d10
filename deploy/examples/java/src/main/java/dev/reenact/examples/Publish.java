package dev.reenact.examples;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Starts a run and waits for the answer to that.
 *
 * <p>Arguments: {@code BROKERS PREFIX AGENT SESSION MESSAGE [ID]}. The id names the request: sent again, it has no
 * further effect.
 */
public final class Publish {
    private static final Duration ANSWER_WAIT = Duration.ofSeconds(60);
    private static final ObjectMapper JSON = new ObjectMapper();

    private Publish() {}

    public static void main(String[] args) throws Exception {
        if (args.length < 5) {
            System.err.println("usage: Publish BROKERS PREFIX AGENT SESSION MESSAGE [ID]");
            System.exit(2);
        }
        String brokers = args[0];
        String prefix = args[1];
        String correlationId = UUID.randomUUID().toString();
        Map<String, Object> command = Map.of(
                "type", "StartRun",
                "id", args.length > 5 ? args[5] : correlationId,
                "session_id", args[3],
                "agent_id", args[2],
                "message", args[4],
                "reply_to", Map.of("correlation_id", correlationId));
        try (KafkaConsumer<String, String> answers = answers(brokers, prefix + ".replies")) {
            publish(brokers, prefix + ".commands", args[3], JSON.writeValueAsString(command));
            System.out.println(answerTo(correlationId, answers));
        }
    }

    /** A reader of the answers from now on. It needs no group: its place is its own and is not kept. */
    private static KafkaConsumer<String, String> answers(String brokers, String topic) {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers, "isolation.level", "read_committed");
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(partition -> new TopicPartition(topic, partition.partition()))
                .toList();
        consumer.assign(partitions);
        consumer.seekToEnd(partitions);
        // Seeking is lazy: asking where it stands makes it so before the question is sent.
        partitions.forEach(consumer::position);
        return consumer;
    }

    private static void publish(String brokers, String topic, String key, String value) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, key, value)).get();
        }
    }

    private static JsonNode answerTo(String correlationId, KafkaConsumer<String, String> answers) throws Exception {
        Instant until = Instant.now().plus(ANSWER_WAIT);
        while (Instant.now().isBefore(until)) {
            for (var record : answers.poll(Duration.ofSeconds(1))) {
                JsonNode answer = JSON.readTree(record.value());
                if (answer.path("correlation_id").asText().equals(correlationId)) {
                    return answer;
                }
            }
        }
        throw new IllegalStateException("no answer within " + ANSWER_WAIT + ": does a node serve this prefix?");
    }
}
