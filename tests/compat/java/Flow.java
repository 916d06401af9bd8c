import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/** One verb of the client flow with the defaults of kafka-clients 4.x: create, produce, consume, committed. */
public class Flow {
    public static void main(String[] a) throws Exception {
        String verb = a[0], bootstrap = a[1], topic = a[2], group = a[3];
        int partitions = Integer.parseInt(a[4]), count = Integer.parseInt(a[5]);
        Map<String, Object> common = Map.of("bootstrap.servers", bootstrap);
        switch (verb) {
            case "create" -> create(common, topic, partitions);
            case "produce" -> produce(common, topic, partitions, count);
            case "consume" -> consume(common, topic, group, count);
            case "committed" -> committed(common, group);
            default -> throw new IllegalArgumentException(verb);
        }
    }

    static void create(Map<String, Object> common, String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(common)) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    static void produce(Map<String, Object> common, String topic, int partitions, int count) throws Exception {
        String pad = ".".repeat(90);
        try (var producer = new KafkaProducer<byte[], byte[]>(common, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                byte[] value = (String.format("%010d", i) + pad).getBytes(StandardCharsets.US_ASCII);
                sent.add(producer.send(new ProducerRecord<>(topic, i % partitions, null, value)));
            }
            for (var future : sent) future.get();
            System.out.println(sent.size());
        }
    }

    static void consume(Map<String, Object> common, String topic, String group, int enough) {
        Map<String, Object> settings = new HashMap<>(common);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        StringBuilder out = new StringBuilder();
        int read = 0;
        long end = System.currentTimeMillis() + 60_000;
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (read < enough && System.currentTimeMillis() < end) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    out.append(record.partition()).append(' ').append(new String(record.value(), StandardCharsets.US_ASCII)).append('\n');
                    read++;
                }
            }
            consumer.commitSync();
        }
        System.out.print(out);
    }

    static void committed(Map<String, Object> common, String group) throws Exception {
        try (Admin admin = Admin.create(common)) {
            long sum = 0;
            for (OffsetAndMetadata place : admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values()) {
                sum += place.offset();
            }
            System.out.println(sum);
        }
    }
}
