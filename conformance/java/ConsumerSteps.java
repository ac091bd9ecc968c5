import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidGroupIdException;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.apache.kafka.common.errors.WakeupException;

/** What a consumer does, alone and in groups of both protocols. */
final class ConsumerSteps {
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";

    static void add(Walk walk) {
        alone(walk);
        for (String protocol : new String[] {"classic", "consumer"}) {
            offsets(walk, protocol);
            groups(walk, protocol);
        }
        classicAssignors(walk);
    }

    private static void alone(Walk walk) {
        walk.step("consumer: assigned, from a position", () -> {
            String topic = walk.topic(2);
            walk.fill(topic, 2, 20);
            TopicPartition zero = new TopicPartition(topic, 0);
            TopicPartition one = new TopicPartition(topic, 1);
            try (KafkaConsumer<String, String> consumer = walk.consumer()) {
                consumer.assign(List.of(zero, one));
                consumer.seek(zero, 8);
                consumer.seek(one, new OffsetAndMetadata(9));
                Walk.equal(List.of("16", "18", "19"), Walk.sorted(Walk.values(Walk.read(consumer, 3))));
                Walk.equal(10L, consumer.position(zero));
                Walk.equal(0L, consumer.currentLag(zero).getAsLong());
                consumer.seekToBeginning(List.of(zero));
                Walk.equal(0L, consumer.position(zero));
                consumer.seekToEnd(List.of(zero));
                Walk.equal(10L, consumer.position(zero));
            }
        });
        walk.step("consumer: paused and resumed", () -> {
            String topic = walk.topic(2);
            walk.fill(topic, 2, 10);
            TopicPartition zero = new TopicPartition(topic, 0);
            TopicPartition one = new TopicPartition(topic, 1);
            try (KafkaConsumer<String, String> consumer = walk.consumer()) {
                consumer.assign(List.of(zero, one));
                consumer.pause(List.of(zero));
                Walk.equal(Set.of(zero), consumer.paused());
                for (ConsumerRecord<String, String> each : Walk.read(consumer, 5)) {
                    Walk.equal(1, each.partition());
                }
                consumer.resume(List.of(zero));
                for (ConsumerRecord<String, String> each : Walk.read(consumer, 5)) {
                    Walk.equal(0, each.partition());
                }
            }
        });
        walk.step("consumer: offsets at the beginning and the end", () -> {
            String topic = walk.topic(2);
            walk.fill(topic, 2, 10);
            TopicPartition zero = new TopicPartition(topic, 0);
            TopicPartition one = new TopicPartition(topic, 1);
            try (KafkaConsumer<String, String> consumer = walk.consumer()) {
                Walk.equal(Map.of(zero, 0L, one, 0L), consumer.beginningOffsets(List.of(zero, one)));
                Walk.equal(Map.of(zero, 5L, one, 5L), consumer.endOffsets(List.of(zero, one)));
            }
        });
        walk.step("consumer: offsets for times", () -> {
            String topic = walk.topic(1);
            try (KafkaProducer<String, String> producer = walk.producer("linger.ms", "100")) {
                for (long time = 1; time <= 10; time++) {
                    producer.send(new ProducerRecord<>(topic, 0, time * 1000, "k", "v"));
                }
            }
            TopicPartition where = new TopicPartition(topic, 0);
            try (KafkaConsumer<String, String> consumer = walk.consumer()) {
                OffsetAndTimestamp exact = consumer.offsetsForTimes(Map.of(where, 4000L)).get(where);
                Walk.equal(3L, exact.offset());
                Walk.equal(4000L, exact.timestamp());
                Walk.equal(0, exact.leaderEpoch().get());
                Walk.equal(4L, consumer.offsetsForTimes(Map.of(where, 4001L)).get(where).offset());
                Walk.equal(null, consumer.offsetsForTimes(Map.of(where, 10001L)).get(where));
            }
        });
        walk.step("consumer: topics and partitions", () -> {
            String topic = walk.topic(3);
            try (KafkaConsumer<String, String> consumer = walk.consumer()) {
                Walk.check(consumer.listTopics().containsKey(topic), "not in the list");
                Walk.equal(3, consumer.partitionsFor(topic).size());
            }
        });
        walk.step("consumer: an offset out of range goes to where it is told", () -> {
            String topic = walk.topic(1);
            walk.fill(topic, 1, 5);
            TopicPartition where = new TopicPartition(topic, 0);
            for (String rule : new String[] {"earliest", "latest", "none"}) {
                try (KafkaConsumer<String, String> consumer = walk.consumer("auto.offset.reset", rule)) {
                    consumer.assign(List.of(where));
                    consumer.seek(where, 100);
                    if (rule.equals("earliest")) {
                        Walk.equal(5, Walk.read(consumer, 5).size());
                    } else if (rule.equals("latest")) {
                        Walk.soon("at the end", () -> {
                            consumer.poll(Walk.POLL);
                            return consumer.position(where) == 5;
                        });
                    } else {
                        Walk.fails(OffsetOutOfRangeException.class, () -> {
                            while (true) {
                                consumer.poll(Walk.POLL);
                            }
                        });
                    }
                }
            }
        });
        walk.step("consumer: small fetches", () -> {
            String topic = walk.topic(1);
            walk.fill(topic, 1, 300);
            try (KafkaConsumer<String, String> consumer = walk.consumer("max.partition.fetch.bytes", "100",
                    "fetch.max.bytes", "100", "max.poll.records", "7", "check.crcs", "true")) {
                consumer.assign(List.of(new TopicPartition(topic, 0)));
                Walk.equal(300, Walk.read(consumer, 300).size());
            }
        });
        walk.step("consumer: waits for as much as it asked for", () -> {
            String topic = walk.topic(1);
            walk.fill(topic, 1, 5);
            try (KafkaConsumer<String, String> consumer = walk.consumer("fetch.min.bytes", "1000000",
                    "fetch.max.wait.ms", "300")) {
                consumer.assign(List.of(new TopicPartition(topic, 0)));
                Walk.equal(5, Walk.read(consumer, 5).size());
            }
        });
        walk.step("consumer: woken up", () -> {
            try (KafkaConsumer<String, String> consumer = walk.consumer()) {
                consumer.assign(List.of(new TopicPartition(walk.topic(1), 0)));
                consumer.wakeup();
                Walk.fails(WakeupException.class, () -> consumer.poll(Duration.ofSeconds(5)));
            }
        });
        walk.step("consumer: no group, no commits", () -> {
            try (KafkaConsumer<String, String> consumer = walk.consumer()) {
                consumer.assign(List.of(new TopicPartition(walk.topic(1), 0)));
                Walk.fails(InvalidGroupIdException.class, consumer::commitSync);
            }
        });
    }

    private static void offsets(Walk walk, String protocol) {
        String name = "group (" + protocol + "): ";
        walk.step(name + "commits, sync and async, with metadata", () -> {
            String topic = walk.topic(1);
            walk.fill(topic, 1, 10);
            TopicPartition where = new TopicPartition(topic, 0);
            String group = walk.named("group");
            try (KafkaConsumer<String, String> consumer =
                    walk.consumer("group.id", group, "group.protocol", protocol)) {
                consumer.subscribe(List.of(topic));
                Walk.read(consumer, 10);
                Walk.equal(null, consumer.committed(Set.of(where)).get(where));
                consumer.commitSync();
                Walk.equal(10L, consumer.committed(Set.of(where)).get(where).offset());
                consumer.commitSync(Map.of(where, new OffsetAndMetadata(4, "four")));
                Walk.equal("four", consumer.committed(Set.of(where)).get(where).metadata());
                CompletableFuture<Map<TopicPartition, OffsetAndMetadata>> done = new CompletableFuture<>();
                consumer.commitAsync(Map.of(where, new OffsetAndMetadata(6, "six")), (offsets, problem) -> {
                    if (problem == null) {
                        done.complete(offsets);
                    } else {
                        done.completeExceptionally(problem);
                    }
                });
                Walk.soon("the callback", () -> {
                    consumer.poll(Walk.POLL);
                    return done.isDone();
                });
                Walk.equal(6L, done.get(1, TimeUnit.SECONDS).get(where).offset());
            }
            try (KafkaConsumer<String, String> consumer =
                    walk.consumer("group.id", group, "group.protocol", protocol)) {
                consumer.subscribe(List.of(topic));
                Walk.equal("6", Walk.read(consumer, 4).get(0).value());
            }
        });
        walk.step(name + "commits by itself", () -> {
            String topic = walk.topic(1);
            walk.fill(topic, 1, 10);
            TopicPartition where = new TopicPartition(topic, 0);
            String group = walk.named("group");
            try (KafkaConsumer<String, String> consumer = walk.consumer("group.id", group, "group.protocol",
                    protocol, "enable.auto.commit", "true", "auto.commit.interval.ms", "100")) {
                consumer.subscribe(List.of(topic));
                Walk.read(consumer, 10);
                Walk.soon("committed", () -> {
                    consumer.poll(Walk.POLL);
                    OffsetAndMetadata found = consumer.committed(Set.of(where)).get(where);
                    return found != null && found.offset() == 10;
                });
            }
        });
        walk.step(name + "no offset and no rule to find one", () -> {
            String topic = walk.topic(1);
            try (KafkaConsumer<String, String> consumer = walk.consumer("group.id", walk.named("group"),
                    "group.protocol", protocol, "auto.offset.reset", "none")) {
                consumer.subscribe(List.of(topic));
                Walk.fails(NoOffsetForPartitionException.class, () -> {
                    while (true) {
                        consumer.poll(Walk.POLL);
                    }
                });
            }
        });
        walk.step(name + "commits for assigned partitions", () -> {
            String topic = walk.topic(2);
            TopicPartition where = new TopicPartition(topic, 1);
            try (KafkaConsumer<String, String> consumer =
                    walk.consumer("group.id", walk.named("group"), "group.protocol", protocol)) {
                consumer.assign(List.of(where));
                consumer.commitSync(Map.of(where, new OffsetAndMetadata(0, "")));
                Walk.equal(0L, consumer.committed(Set.of(where)).get(where).offset());
            }
        });
        walk.step(name + "reads committed records only", () -> {
            String topic = walk.topic(1);
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"))) {
                producer.initTransactions();
                for (int round = 0; round < 4; round++) {
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(topic, String.valueOf(round))).get();
                    if (round % 2 == 0) {
                        producer.commitTransaction();
                    } else {
                        producer.abortTransaction();
                    }
                }
            }
            try (KafkaConsumer<String, String> consumer = walk.consumer("group.id", walk.named("group"),
                    "group.protocol", protocol, "isolation.level", "read_committed")) {
                consumer.subscribe(List.of(topic));
                Walk.equal(List.of("0", "2"), Walk.values(Walk.read(consumer, 2)));
            }
        });
    }

    /** Notes what a consumer is given and what is taken from it. */
    private static final class Listener implements ConsumerRebalanceListener {
        final List<TopicPartition> given = new ArrayList<>();
        final List<TopicPartition> taken = new ArrayList<>();

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            given.addAll(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            taken.addAll(partitions);
        }
    }

    /** Poll both until the condition holds. */
    private static void together(String what, Walk.Condition condition, List<KafkaConsumer<String, String>> all)
            throws Exception {
        Walk.soon(what, () -> {
            for (KafkaConsumer<String, String> each : all) {
                each.poll(Duration.ofMillis(20));
            }
            return condition.holds();
        });
    }

    private static void pollUntilOneFails(List<KafkaConsumer<String, String>> all) {
        long end = System.nanoTime() + Walk.LONG.toNanos();
        while (System.nanoTime() < end) {
            for (KafkaConsumer<String, String> each : all) {
                each.poll(Duration.ofMillis(20));
            }
        }
    }

    private static void groups(Walk walk, String protocol) {
        String name = "group (" + protocol + "): ";
        walk.step(name + "two members share and one takes over", () -> {
            share(walk, "group.protocol", protocol);
        });
        walk.step(name + "listeners are told", () -> {
            String topic = walk.topic(2);
            String group = walk.named("group");
            Listener first = new Listener();
            Listener second = new Listener();
            try (KafkaConsumer<String, String> one = walk.consumer("group.id", group, "group.protocol", protocol)) {
                one.subscribe(List.of(topic), first);
                together("the first has both", () -> first.given.size() == 2, List.of(one));
                try (KafkaConsumer<String, String> two =
                        walk.consumer("group.id", group, "group.protocol", protocol)) {
                    two.subscribe(List.of(topic), second);
                    together("one went over", () -> one.assignment().size() == 1 && two.assignment().size() == 1,
                        List.of(one, two));
                    Walk.check(!first.taken.isEmpty(), "nothing was taken from the first");
                }
                Walk.equal(1, second.taken.size());
                together("it came back", () -> one.assignment().size() == 2, List.of(one));
                one.unsubscribe();
            }
        });
        walk.step(name + "topics by a pattern, one of them made later", () -> {
            String stem = walk.named("pattern");
            try (KafkaConsumer<String, String> consumer = walk.consumer("group.id", walk.named("group"),
                    "group.protocol", protocol, "metadata.max.age.ms", "300");
                    KafkaProducer<String, String> producer = walk.producer()) {
                producer.send(new ProducerRecord<>(stem + "-a", "a")).get();
                consumer.subscribe(Pattern.compile(Pattern.quote(stem) + "-.*"));
                Walk.equal(List.of("a"), Walk.values(Walk.read(consumer, 1)));
                consumer.commitSync();
                producer.send(new ProducerRecord<>(stem + "-b", "b")).get();
                Walk.equal(List.of("b"), Walk.values(Walk.read(consumer, 1)));
            }
        });
        walk.step(name + "more partitions are given out", () -> {
            String topic = walk.topic(1);
            try (KafkaConsumer<String, String> consumer = walk.consumer("group.id", walk.named("group"),
                    "group.protocol", protocol, "metadata.max.age.ms", "300")) {
                consumer.subscribe(List.of(topic));
                together("one", () -> consumer.assignment().size() == 1, List.of(consumer));
                try (var admin = walk.admin()) {
                    admin.createPartitions(Map.of(topic,
                        org.apache.kafka.clients.admin.NewPartitions.increaseTo(3))).all().get();
                }
                together("three", () -> consumer.assignment().size() == 3, List.of(consumer));
            }
        });
        walk.step(name + "a static member comes back to its partitions", () -> {
            String topic = walk.topic(2);
            String group = walk.named("group");
            Set<TopicPartition> before;
            try (KafkaConsumer<String, String> other = walk.consumer("group.id", group, "group.protocol", protocol,
                    "group.instance.id", "b")) {
                other.subscribe(List.of(topic));
                KafkaConsumer<String, String> one = walk.consumer("group.id", group, "group.protocol", protocol,
                    "group.instance.id", "a");
                try (one) {
                    one.subscribe(List.of(topic));
                    together("shared", () -> one.assignment().size() == 1 && other.assignment().size() == 1,
                        List.of(one, other));
                    before = new HashSet<>(one.assignment());
                }
                try (KafkaConsumer<String, String> again = walk.consumer("group.id", group, "group.protocol",
                        protocol, "group.instance.id", "a")) {
                    again.subscribe(List.of(topic));
                    together("back", () -> again.assignment().size() == 1, List.of(again, other));
                    Walk.equal(before, again.assignment());
                    Walk.equal(1, other.assignment().size());
                }
            }
        });
        walk.step(name + "a second static member of one name", () -> {
            String topic = walk.topic(1);
            String group = walk.named("group");
            try (KafkaConsumer<String, String> one = walk.consumer("group.id", group, "group.protocol", protocol,
                    "group.instance.id", "a");
                    KafkaConsumer<String, String> two = walk.consumer("group.id", group, "group.protocol", protocol,
                    "group.instance.id", "a")) {
                one.subscribe(List.of(topic));
                together("the first has it", () -> one.assignment().size() == 1, List.of(one));
                two.subscribe(List.of(topic));
                if (protocol.equals("classic")) {
                    // the newcomer takes the name, the first one is fenced
                    Walk.fails(FencedInstanceIdException.class,
                        () -> pollUntilOneFails(List.of(two, one)));
                } else {
                    // the name is taken for as long as the first one is there
                    Walk.fails(UnreleasedInstanceIdException.class,
                        () -> pollUntilOneFails(List.of(one, two)));
                }
            }
        });
        walk.step(name + "the metadata of its group", () -> {
            String topic = walk.topic(1);
            String group = walk.named("group");
            try (KafkaConsumer<String, String> consumer =
                    walk.consumer("group.id", group, "group.protocol", protocol)) {
                consumer.subscribe(List.of(topic));
                together("assigned", () -> consumer.assignment().size() == 1, List.of(consumer));
                Walk.equal(group, consumer.groupMetadata().groupId());
                Walk.check(consumer.groupMetadata().generationId() >= 1, "no generation");
                Walk.check(!consumer.groupMetadata().memberId().isEmpty(), "no member");
            }
        });
    }

    private static void share(Walk walk, String... settings) throws Exception {
        String topic = walk.topic(4);
        walk.fill(topic, 4, 40);
        String[] all = new String[settings.length + 2];
        System.arraycopy(settings, 0, all, 2, settings.length);
        all[0] = "group.id";
        all[1] = walk.named("group");
        Map<String, String> seen = new HashMap<>();
        try (KafkaConsumer<String, String> one = walk.consumer(all)) {
            one.subscribe(List.of(topic));
            try (KafkaConsumer<String, String> two = walk.consumer(all)) {
                two.subscribe(List.of(topic));
                Walk.soon("two each", () -> {
                    for (KafkaConsumer<String, String> each : List.of(one, two)) {
                        each.poll(Duration.ofMillis(20)).forEach(record -> seen.put(record.value(), ""));
                    }
                    return one.assignment().size() == 2 && two.assignment().size() == 2 && seen.size() == 40;
                });
                Set<TopicPartition> both = new HashSet<>(one.assignment());
                both.addAll(two.assignment());
                Walk.equal(4, both.size());
                one.commitSync();
                two.commitSync();
            }
            walk.fill(topic, 4, 40);
            together("all of them", () -> one.assignment().size() == 4, List.of(one));
        }
    }

    private static void classicAssignors(Walk walk) {
        for (String assignor : new String[] {"RangeAssignor", "RoundRobinAssignor", "StickyAssignor",
                "CooperativeStickyAssignor"}) {
            walk.step("group (classic): shared by the " + assignor, () -> share(walk,
                "group.protocol", "classic", "partition.assignment.strategy", ASSIGNORS + assignor));
        }
        for (String assignor : new String[] {"uniform", "range"}) {
            walk.step("group (consumer): shared by the broker's " + assignor + " assignor", () -> share(walk,
                "group.protocol", "consumer", "group.remote.assignor", assignor));
        }
        walk.step("group (classic): a member that asks for a rebalance", () -> {
            String topic = walk.topic(1);
            Listener listener = new Listener();
            try (KafkaConsumer<String, String> consumer = walk.consumer("group.id", walk.named("group"))) {
                consumer.subscribe(List.of(topic), listener);
                together("once", () -> listener.given.size() == 1, List.of(consumer));
                consumer.enforceRebalance("because");
                together("twice", () -> listener.given.size() == 2, List.of(consumer));
            }
        });
        walk.step("group: members move from the classic protocol to the new one", () -> {
            String topic = walk.topic(2);
            String group = walk.named("group");
            try (KafkaConsumer<String, String> old = walk.consumer("group.id", group, "group.protocol", "classic",
                    "partition.assignment.strategy", ASSIGNORS + "CooperativeStickyAssignor");
                    KafkaConsumer<String, String> young =
                        walk.consumer("group.id", group, "group.protocol", "consumer")) {
                old.subscribe(List.of(topic));
                together("the old one has both", () -> old.assignment().size() == 2, List.of(old));
                young.subscribe(List.of(topic));
                together("one each", () -> old.assignment().size() == 1 && young.assignment().size() == 1,
                    List.of(old, young));
            }
        });
    }
}
