import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;

/** What a producer does, idempotent and transactional ones among them. */
final class ProducerSteps {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};

    static void add(Walk walk) {
        plain(walk);
        refused(walk);
        transactions(walk);
    }

    private static void plain(Walk walk) {
        for (String acks : new String[] {"0", "1", "all"}) {
            walk.step("producer: acks=" + acks, () -> {
                String topic = walk.topic(1);
                try (KafkaProducer<String, String> producer =
                        walk.producer("acks", acks, "enable.idempotence", "false")) {
                    List<Future<RecordMetadata>> sent = new ArrayList<>();
                    for (int i = 0; i < 100; i++) {
                        sent.add(producer.send(new ProducerRecord<>(topic, "k", String.valueOf(i))));
                    }
                    for (int i = 0; i < 100; i++) {
                        RecordMetadata metadata = sent.get(i).get();
                        Walk.equal(acks.equals("0") ? -1L : (long) i, metadata.offset());
                        Walk.equal(0, metadata.partition());
                    }
                }
                Walk.soon("all are read", () -> walk.committed(topic, 0).size() == 100);
            });
        }
        for (String codec : CODECS) {
            walk.step("producer: compressed with " + codec, () -> {
                String topic = walk.topic(1);
                List<String> expected = new ArrayList<>();
                try (KafkaProducer<String, String> producer =
                        walk.producer("compression.type", codec, "linger.ms", "50", "batch.size", "100000")) {
                    for (int i = 0; i < 500; i++) {
                        expected.add(("value " + i + " ").repeat(20));
                        producer.send(new ProducerRecord<>(topic, "key " + i, expected.get(i)));
                    }
                }
                Walk.equal(expected, Walk.values(walk.committed(topic, 0)));
            });
            walk.step("producer: a topic's own codec is " + codec, () -> {
                String topic = walk.topic(1, "compression.type", codec.equals("none") ? "uncompressed" : codec);
                try (KafkaProducer<String, String> producer = walk.producer("compression.type", "gzip")) {
                    producer.send(new ProducerRecord<>(topic, "key", "value ".repeat(100))).get();
                }
                Walk.equal(List.of("value ".repeat(100)), Walk.values(walk.committed(topic, 0)));
            });
        }
        walk.step("producer: idempotent with five requests in flight", () -> {
            String topic = walk.topic(1);
            AtomicInteger failed = new AtomicInteger();
            try (KafkaProducer<String, String> producer = walk.producer("enable.idempotence", "true",
                    "max.in.flight.requests.per.connection", "5", "batch.size", "200", "linger.ms", "0")) {
                for (int i = 0; i < 3000; i++) {
                    producer.send(new ProducerRecord<>(topic, String.valueOf(i)), (metadata, problem) -> {
                        if (problem != null) {
                            failed.incrementAndGet();
                        }
                    });
                }
            }
            Walk.equal(0, failed.get());
            List<ConsumerRecord<String, String>> found = walk.committed(topic, 0);
            Walk.equal(3000, found.size());
            for (int i = 0; i < 3000; i++) {
                Walk.equal(String.valueOf(i), found.get(i).value());
                Walk.equal((long) i, found.get(i).offset());
            }
        });
        walk.step("producer: keys, headers, empty and null values", () -> {
            String topic = walk.topic(1);
            try (KafkaProducer<String, String> producer = walk.producer()) {
                ProducerRecord<String, String> rich = new ProducerRecord<>(topic, 0, null, "v");
                rich.headers().add("a", new byte[] {1, 2}).add("a", new byte[0]).add(new RecordHeader("b", null));
                producer.send(rich).get();
                producer.send(new ProducerRecord<>(topic, "tombstone", null)).get();
                producer.send(new ProducerRecord<>(topic, "", "")).get();
            }
            List<ConsumerRecord<String, String>> found = walk.committed(topic, 0);
            Walk.equal(null, found.get(0).key());
            Walk.equal(3, found.get(0).headers().toArray().length);
            Walk.equal("a", found.get(0).headers().toArray()[1].key());
            Walk.equal(0, found.get(0).headers().toArray()[1].value().length);
            Walk.equal(null, found.get(0).headers().toArray()[2].value());
            Walk.equal(null, found.get(1).value());
            Walk.equal("", found.get(2).key());
            Walk.equal("", found.get(2).value());
        });
        walk.step("producer: timestamps of its own", () -> {
            String topic = walk.topic(1);
            long now = System.currentTimeMillis();
            try (KafkaProducer<String, String> producer = walk.producer()) {
                Walk.equal(1_000L, producer.send(new ProducerRecord<>(topic, 0, 1_000L, "k", "v")).get().timestamp());
                producer.send(new ProducerRecord<>(topic, 0, now, "k", "v")).get();
            }
            List<ConsumerRecord<String, String>> found = walk.committed(topic, 0);
            Walk.equal(1_000L, found.get(0).timestamp());
            Walk.equal(now, found.get(1).timestamp());
            Walk.equal(TimestampType.CREATE_TIME, found.get(0).timestampType());
        });
        walk.step("producer: timestamps of the log", () -> {
            String topic = walk.topic(1, "message.timestamp.type", "LogAppendTime");
            long before = System.currentTimeMillis();
            long told;
            try (KafkaProducer<String, String> producer = walk.producer("compression.type", "lz4")) {
                told = producer.send(new ProducerRecord<>(topic, 0, 1_000L, "k", "v")).get().timestamp();
            }
            ConsumerRecord<String, String> found = walk.committed(topic, 0).get(0);
            Walk.check(told >= before - 1000, "the answer says " + told);
            Walk.equal(told, found.timestamp());
            Walk.equal(TimestampType.LOG_APPEND_TIME, found.timestampType());
        });
        walk.step("producer: a key goes to one partition", () -> {
            String topic = walk.topic(4);
            Map<String, Integer> where = new HashMap<>();
            try (KafkaProducer<String, String> producer = walk.producer()) {
                for (int i = 0; i < 100; i++) {
                    String key = "key" + i % 20;
                    int partition = producer.send(new ProducerRecord<>(topic, key, "v")).get().partition();
                    Integer earlier = where.put(key, partition);
                    Walk.check(earlier == null || earlier == partition, key + " moved");
                }
            }
            Walk.check(new HashSet<>(where.values()).size() > 1, "all in one partition");
        });
        walk.step("producer: round robin without keys", () -> {
            String topic = walk.topic(3);
            Set<Integer> seen = new HashSet<>();
            try (KafkaProducer<String, String> producer = walk.producer("partitioner.class",
                    "org.apache.kafka.clients.producer.RoundRobinPartitioner")) {
                for (int i = 0; i < 30; i++) {
                    seen.add(producer.send(new ProducerRecord<>(topic, "v")).get().partition());
                }
            }
            Walk.equal(Set.of(0, 1, 2), seen);
        });
        walk.step("producer: sticky without keys", () -> {
            String topic = walk.topic(3);
            try (KafkaProducer<String, String> producer = walk.producer("batch.size", "300", "linger.ms", "5")) {
                for (int i = 0; i < 600; i++) {
                    producer.send(new ProducerRecord<>(topic, "value " + i));
                }
            }
            int total = 0;
            for (int partition = 0; partition < 3; partition++) {
                total += walk.committed(topic, partition).size();
            }
            Walk.equal(600, total);
        });
        walk.step("producer: partitionsFor and metrics", () -> {
            String topic = walk.topic(3);
            try (KafkaProducer<String, String> producer = walk.producer()) {
                Walk.equal(3, producer.partitionsFor(topic).size());
                Walk.check(producer.partitionsFor(topic).get(0).inSyncReplicas().length == 1, "in-sync replicas");
                Walk.check(!producer.metrics().isEmpty(), "no metrics");
            }
        });
        walk.step("producer: a topic is made by the first record", () -> {
            String topic = walk.named("made");
            try (KafkaProducer<String, String> producer = walk.producer()) {
                Walk.equal(0L, producer.send(new ProducerRecord<>(topic, "v")).get().offset());
            }
        });
    }

    private static void refused(Walk walk) {
        walk.step("producer refused: a record larger than the topic takes", () -> {
            String topic = walk.topic(1, "max.message.bytes", "1000");
            try (KafkaProducer<String, String> producer = walk.producer()) {
                Walk.fails(RecordTooLargeException.class,
                    () -> producer.send(new ProducerRecord<>(topic, "x".repeat(2000))).get());
                producer.send(new ProducerRecord<>(topic, "x".repeat(500))).get();
            }
        });
        walk.step("producer refused: no key in a compacted topic", () -> {
            String topic = walk.topic(1, "cleanup.policy", "compact");
            try (KafkaProducer<String, String> producer = walk.producer()) {
                Walk.fails(InvalidRecordException.class,
                    () -> producer.send(new ProducerRecord<>(topic, "no key")).get());
                producer.send(new ProducerRecord<>(topic, "key", "value")).get();
            }
        });
        walk.step("producer refused: a timestamp too far off", () -> {
            String topic = walk.topic(1, "message.timestamp.before.max.ms", "1000");
            try (KafkaProducer<String, String> producer = walk.producer()) {
                Walk.fails(InvalidTimestampException.class,
                    () -> producer.send(new ProducerRecord<>(topic, 0, 1_000L, "k", "v")).get());
            }
        });
        walk.step("producer refused: a topic with a name that is none", () -> {
            try (KafkaProducer<String, String> producer = walk.producer()) {
                Walk.fails(InvalidTopicException.class,
                    () -> producer.send(new ProducerRecord<>("what is this?", "v")).get());
            }
        });
        walk.step("producer refused: a partition that is not there", () -> {
            String topic = walk.topic(1);
            try (KafkaProducer<String, String> producer = walk.producer("max.block.ms", "1000")) {
                Walk.fails(TimeoutException.class,
                    () -> producer.send(new ProducerRecord<>(topic, 7, "k", "v")).get());
            }
        });
        walk.step("producer refused: a transaction's timeout beyond the broker's", () -> {
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"),
                    "transaction.timeout.ms", "900001")) {
                Walk.fails(KafkaException.class, producer::initTransactions);
            }
        });
    }

    private static void transactions(Walk walk) {
        walk.step("transactions: committed, aborted, committed", () -> {
            String topic = walk.topic(2);
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"))) {
                producer.initTransactions();
                for (int round = 0; round < 6; round++) {
                    producer.beginTransaction();
                    for (int i = 0; i < 10; i++) {
                        producer.send(new ProducerRecord<>(topic, i % 2, "k", round + "." + i));
                    }
                    if (round % 2 == 0) {
                        producer.commitTransaction();
                    } else {
                        producer.flush();
                        producer.abortTransaction();
                    }
                }
            }
            List<String> expected = new ArrayList<>();
            for (int round = 0; round < 6; round += 2) {
                for (int i = 0; i < 10; i += 2) {
                    expected.add(round + "." + i);
                }
            }
            Walk.equal(expected, Walk.values(walk.committed(topic, 0)));
        });
        walk.step("transactions: those who read uncommitted see aborted records", () -> {
            String topic = walk.topic(1);
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"))) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "aborted")).get();
                producer.abortTransaction();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "committed")).get();
                producer.commitTransaction();
            }
            try (KafkaConsumer<String, String> consumer = walk.consumer()) {
                consumer.assign(List.of(new TopicPartition(topic, 0)));
                Walk.equal(List.of("aborted", "committed"), Walk.values(Walk.read(consumer, 2)));
            }
            Walk.equal(List.of("committed"), Walk.values(walk.committed(topic, 0)));
        });
        walk.step("transactions: an open one holds up those who read committed", () -> {
            String topic = walk.topic(1);
            TopicPartition where = new TopicPartition(topic, 0);
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"));
                    KafkaProducer<String, String> other = walk.producer();
                    KafkaConsumer<String, String> consumer = walk.consumer("isolation.level", "read_committed")) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "open")).get();
                other.send(new ProducerRecord<>(topic, "after")).get();
                consumer.assign(List.of(where));
                Walk.equal(0L, consumer.endOffsets(List.of(where)).get(where));
                Walk.equal(0, consumer.poll(Duration.ofMillis(500)).count());
                producer.commitTransaction();
                Walk.equal(List.of("open", "after"), Walk.values(Walk.read(consumer, 2)));
            }
        });
        walk.step("transactions: offsets are committed and aborted with them", () -> {
            String topic = walk.topic(1);
            String group = walk.named("group");
            TopicPartition where = new TopicPartition(topic, 0);
            walk.fill(topic, 1, 10);
            try (KafkaConsumer<String, String> consumer = walk.consumer("group.id", group);
                    KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"))) {
                consumer.subscribe(List.of(topic));
                Walk.read(consumer, 10);
                producer.initTransactions();
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(where, new OffsetAndMetadata(3)), consumer.groupMetadata());
                producer.abortTransaction();
                Walk.equal(null, consumer.committed(Set.of(where)).get(where));
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(
                    Map.of(where, new OffsetAndMetadata(5, "why")), consumer.groupMetadata());
                producer.commitTransaction();
                Walk.soon("the offset is committed", () -> consumer.committed(Set.of(where)).get(where) != null);
                Walk.equal(5L, consumer.committed(Set.of(where)).get(where).offset());
                Walk.equal("why", consumer.committed(Set.of(where)).get(where).metadata());
            }
        });
        walk.step("transactions: a successor fences its predecessor", () -> {
            String topic = walk.topic(1);
            String id = walk.named("id");
            try (KafkaProducer<String, String> first = walk.producer("transactional.id", id);
                    KafkaProducer<String, String> second = walk.producer("transactional.id", id)) {
                first.initTransactions();
                first.beginTransaction();
                first.send(new ProducerRecord<>(topic, "first")).get();
                second.initTransactions();
                second.beginTransaction();
                second.send(new ProducerRecord<>(topic, "second")).get();
                second.commitTransaction();
                Walk.fails(KafkaException.class, first::commitTransaction);
            }
            Walk.equal(List.of("second"), Walk.values(walk.committed(topic, 0)));
        });
        walk.step("transactions: one that takes too long is aborted", () -> {
            String topic = walk.topic(1);
            try (KafkaProducer<String, String> producer = walk.producer(
                    "transactional.id", walk.named("id"), "transaction.timeout.ms", "1000")) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "late")).get();
                TopicPartition where = new TopicPartition(topic, 0);
                try (KafkaConsumer<String, String> consumer = walk.consumer("isolation.level", "read_committed")) {
                    Walk.soon("the marker", () -> consumer.endOffsets(List.of(where)).get(where) == 2L);
                }
                Walk.fails(KafkaException.class, producer::commitTransaction);
            }
            Walk.equal(List.of(), walk.committed(topic, 0));
        });
        walk.step("transactions: an empty one is committed", () -> {
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"))) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.commitTransaction();
                producer.beginTransaction();
                producer.abortTransaction();
            }
        });
        walk.step("transactions: many partitions in one", () -> {
            String topic = walk.topic(20);
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"))) {
                producer.initTransactions();
                for (int round = 0; round < 3; round++) {
                    producer.beginTransaction();
                    for (int i = 0; i < 200; i++) {
                        producer.send(new ProducerRecord<>(topic, i % 20, "k", "v"));
                    }
                    producer.commitTransaction();
                }
            }
            Walk.equal(30, walk.committed(topic, 19).size());
        });
    }
}
