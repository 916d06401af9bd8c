import java.io.*;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

/** The client program for kafka-clients with its defaults: verbs and answers as in tests/compat/README.md. */
public class Program {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "{\"ok\": " + json(answer(line.split(" "))) + "}";
            } catch (Throwable error) {
                answer = "{\"error\": " + json(said(error)) + "}";
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    static Object answer(String[] words) throws Exception {
        Map<String, String> request = new HashMap<>();
        for (String word : Arrays.asList(words).subList(1, words.length)) {
            int at = word.indexOf('=');
            request.put(word.substring(0, at), word.substring(at + 1));
        }
        return switch (words[0]) {
            case "hello" -> Map.of("client", "kafka-clients " + version(), "library", "Java " + System.getProperty("java.version"));
            case "produce" -> produce(request);
            case "consume" -> consume(request);
            case "member" -> member(request);
            case "admin" -> admin(request);
            case "transaction" -> transaction(request);
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    static String version() throws IOException {
        var said = new Properties();
        try (var in = Program.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            said.load(in);
        }
        return said.getProperty("version");
    }

    static Map<String, Object> settings(Map<String, String> request, Object... more) {
        Map<String, Object> found = new HashMap<>();
        found.put("bootstrap.servers", request.get("bootstrap"));
        for (int i = 0; i < more.length; i += 2) found.put((String) more[i], more[i + 1]);
        return found;
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    static Object produce(Map<String, String> request) throws Exception {
        int count = Integer.parseInt(request.get("count"));
        var given = settings(request, "compression.type", request.get("codec"));
        try (var producer = new KafkaProducer<byte[], byte[]>(given, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                byte[] key = i % 10 == 9 ? null : ascii(String.format("k%010d", i));
                List<Header> headers = List.of(
                    new RecordHeader("client", ascii(request.get("name"))), new RecordHeader("n", ascii(Integer.toString(i))));
                sent.add(producer.send(new ProducerRecord<>(
                    request.get("topic"), null, null, key, ascii(String.format("%010d", i).repeat(10)), headers)));
            }
            long acked = 0;
            for (var future : sent) acked += future.get().offset() >= 0 ? 1 : 0;
            return Map.of("acked", acked);
        }
    }

    /** First offset, next offset, count and digest of one partition. */
    static class Lane {
        long first = -1, next, count;
        final MessageDigest digest;
        final DataOutputStream out;

        Lane() throws Exception {
            digest = MessageDigest.getInstance("SHA-256");
            out = new DataOutputStream(new OutputStream() {
                public void write(int b) { digest.update((byte) b); }
                public void write(byte[] b, int at, int size) { digest.update(b, at, size); }
            });
        }

        void sized(byte[] data) throws IOException {
            out.writeInt(data == null ? -1 : data.length);
            if (data != null) out.write(data);
        }

        void add(ConsumerRecord<byte[], byte[]> record) throws IOException {
            if (first < 0) first = record.offset();
            next = record.offset() + 1;
            count++;
            out.writeLong(record.offset());
            sized(record.key());
            sized(record.value());
            Header[] headers = record.headers().toArray();
            out.writeInt(headers.length);
            for (Header header : headers) {
                sized(header.key().getBytes(StandardCharsets.UTF_8));
                sized(header.value());
            }
        }
    }

    static Object consume(Map<String, String> request) throws Exception {
        int enough = Integer.parseInt(request.get("enough")), read = 0;
        var given = settings(request, "group.id", request.get("group"), "enable.auto.commit", false, "auto.offset.reset", "earliest");
        Map<Integer, Lane> lanes = new TreeMap<>();
        long end = System.currentTimeMillis() + 90_000;
        try (var consumer = new KafkaConsumer<byte[], byte[]>(given, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(request.get("topic")));
            while (read < enough && System.currentTimeMillis() < end) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    Lane lane = lanes.get(record.partition());
                    if (lane == null) lanes.put(record.partition(), lane = new Lane());
                    lane.add(record);
                    read++;
                }
            }
            consumer.commitSync();
        }
        Map<String, Object> partitions = new TreeMap<>();
        for (var entry : lanes.entrySet()) {
            Lane lane = entry.getValue();
            partitions.put(entry.getKey().toString(), List.of(lane.first, lane.next, lane.count, HexFormat.of().formatHex(lane.digest.digest())));
        }
        return Map.of("partitions", partitions);
    }

    static Object member(Map<String, String> request) {
        var given = settings(request, "group.id", request.get("group"), "enable.auto.commit", false, "auto.offset.reset", "earliest",
            "heartbeat.interval.ms", 500, "max.poll.records", 100);
        List<List<Integer>> shares = new ArrayList<>();
        Map<String, List<List<Long>>> reads = new TreeMap<>();
        long end = System.currentTimeMillis() + (long) (1000 * Double.parseDouble(request.get("lasting")));
        try (var consumer = new KafkaConsumer<byte[], byte[]>(given, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(request.get("topic")));
            while (System.currentTimeMillis() < end) {
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    var ranges = reads.computeIfAbsent(Integer.toString(record.partition()), any -> new ArrayList<>());
                    long next = record.offset() + 1;
                    if (!ranges.isEmpty() && ranges.get(ranges.size() - 1).get(1) == record.offset()) ranges.get(ranges.size() - 1).set(1, next);
                    else ranges.add(new ArrayList<>(List.of(record.offset(), next)));
                }
                List<Integer> share = consumer.assignment().stream().map(TopicPartition::partition).sorted().toList();
                if (shares.isEmpty() || !shares.get(shares.size() - 1).equals(share)) shares.add(share);
                try {
                    consumer.commitSync();
                } catch (CommitFailedException | RebalanceInProgressException error) {
                    System.err.println("read again by whoever has the partition next: " + error.getMessage());
                }
            }
        }
        return Map.of("shares", shares, "reads", reads);
    }

    static Object transaction(Map<String, String> request) {
        long began = System.currentTimeMillis();
        Throwable error = null;
        var given = settings(request, "transactional.id", request.get("topic"));
        try (var producer = new KafkaProducer<byte[], byte[]>(given, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(request.get("topic"), ascii("x")));
            producer.commitTransaction();
        } catch (KafkaException found) {
            error = found;
        }
        double seconds = (System.currentTimeMillis() - began) / 1000.0;
        return Map.of("error", error == null ? "" : said(error), "final", error != null && !(error instanceof RetriableException), "seconds", seconds);
    }

    static Object admin(Map<String, String> request) throws Exception {
        String topic = request.get("topic"), group = request.get("group");
        var place = new TopicPartition(topic, 0);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, Object> seen = new LinkedHashMap<>();
        try (Admin admin = Admin.create(settings(request))) {
            seen.put("brokers", admin.describeCluster().nodes().get().size());
            seen.put("cluster id", admin.describeCluster().clusterId().get().length());
            var wanted = List.of(new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "7200000")));
            admin.createTopics(wanted).all().get();
            try {
                admin.createTopics(wanted).all().get();
                seen.put("create again", "created");
            } catch (ExecutionException error) {
                seen.put("create again", said(error));
            }
            seen.put("listed", admin.listTopics().names().get().contains(topic));
            seen.put("partitions", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            seen.put("retention", admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value());
            var set = new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
            seen.put("altered", admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value());
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            seen.put("grown", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            long first = System.currentTimeMillis() - 60_000;
            try (var producer = new KafkaProducer<byte[], byte[]>(settings(request), new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>(topic, 0, first + 1000 * i, null, ascii("v" + i)));
            }
            seen.put("earliest", admin.listOffsets(Map.of(place, OffsetSpec.earliest())).partitionResult(place).get().offset());
            seen.put("latest", admin.listOffsets(Map.of(place, OffsetSpec.latest())).partitionResult(place).get().offset());
            seen.put("at time", admin.listOffsets(Map.of(place, OffsetSpec.forTimestamp(first + 3500))).partitionResult(place).get().offset());
            seen.put("newest time", admin.listOffsets(Map.of(place, OffsetSpec.maxTimestamp())).partitionResult(place).get().offset());
            consume(Map.of("bootstrap", request.get("bootstrap"), "topic", topic, "group", group, "enough", "10"));
            seen.put("group listed", admin.listGroups().all().get().stream().anyMatch(found -> found.groupId().equals(group)));
            seen.put("group state", admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState().toString());
            seen.put("group offset", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(place).offset());
            admin.alterConsumerGroupOffsets(group, Map.of(place, new OffsetAndMetadata(3))).all().get();
            seen.put("group moved", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(place).offset());
            admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(5))).all().get();
            seen.put("records deleted", admin.listOffsets(Map.of(place, OffsetSpec.earliest())).partitionResult(place).get().offset());
            admin.deleteConsumerGroups(List.of(group)).all().get();
            seen.put("group deleted", admin.listGroups().all().get().stream().noneMatch(found -> found.groupId().equals(group)));
            admin.deleteTopics(List.of(topic)).all().get();
            seen.put("deleted", !admin.listTopics().names().get().contains(topic));
        }
        return seen;
    }

    static String said(Throwable error) {
        Throwable cause = error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            var parts = new StringJoiner(", ", "{", "}");
            map.forEach((name, part) -> parts.add(json(name) + ": " + json(part)));
            return parts.toString();
        }
        if (value instanceof List<?> list) {
            var parts = new StringJoiner(", ", "[", "]");
            list.forEach(part -> parts.add(json(part)));
            return parts.toString();
        }
        if (value instanceof Number || value instanceof Boolean) return value.toString();
        var out = new StringBuilder("\"");
        for (char letter : String.valueOf(value).toCharArray()) {
            if (letter == '"' || letter == '\\') out.append('\\').append(letter);
            else if (letter < ' ') out.append(String.format("\\u%04x", (int) letter));
            else out.append(letter);
        }
        return out.append('"').toString();
    }
}
