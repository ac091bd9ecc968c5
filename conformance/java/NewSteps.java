import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.serialization.StringDeserializer;

/** What the client of Apache Kafka 4 can and that of 3.9 can't: share groups, and more of the administration. */
final class NewSteps {
    static void add(Walk walk) {
        share(walk);
        admin(walk);
    }

    private static KafkaShareConsumer<String, String> sharer(Walk walk, String group, String... pairs) {
        Map<String, Object> all = walk.connecting("group.id", group);
        all.putAll(Walk.settings(pairs));
        return new KafkaShareConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    /** A group that begins with the first record. */
    private static String group(Walk walk) throws Exception {
        String name = walk.named("share");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, name);
        try (Admin admin = walk.admin()) {
            admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(
                new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get();
            Walk.soon("the setting", () -> admin.describeConfigs(List.of(resource)).all().get().get(resource)
                .get("share.auto.offset.reset").value().equals("earliest"));
        }
        return name;
    }

    private static List<ConsumerRecord<String, String>> take(KafkaShareConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long end = System.nanoTime() + Walk.LONG.toNanos();
        while (found.size() < count && System.nanoTime() < end) {
            consumer.poll(Walk.POLL).forEach(found::add);
        }
        Walk.check(found.size() >= count, found.size() + " records of " + count);
        return found;
    }

    private static void share(Walk walk) {
        walk.step("share group: acknowledged by the next poll", () -> {
            String topic = walk.topic(2);
            String group = group(walk);
            walk.fill(topic, 2, 20);
            try (KafkaShareConsumer<String, String> consumer = sharer(walk, group)) {
                consumer.subscribe(List.of(topic));
                Walk.equal(Set.of(topic), consumer.subscription());
                Walk.equal(20, take(consumer, 20).size());
                Walk.equal(0, consumer.poll(Duration.ofMillis(500)).count());
            }
        });
        walk.step("share group: accepted, released and rejected one by one", () -> {
            String topic = walk.topic(1);
            String group = group(walk);
            walk.fill(topic, 1, 9);
            try (KafkaShareConsumer<String, String> consumer =
                    sharer(walk, group, "share.acknowledgement.mode", "explicit")) {
                consumer.subscribe(List.of(topic));
                for (ConsumerRecord<String, String> each : take(consumer, 9)) {
                    Walk.equal((short) 1, each.deliveryCount().get());
                    consumer.acknowledge(each, AcknowledgeType.values()[(int) (each.offset() % 3)]);
                }
                consumer.commitSync().values().forEach(problem -> Walk.check(problem.isEmpty(), problem.toString()));
                List<ConsumerRecord<String, String>> again = take(consumer, 3);
                Walk.equal(3, again.size());
                for (ConsumerRecord<String, String> each : again) {
                    Walk.equal((short) 2, each.deliveryCount().get());
                    Walk.equal(AcknowledgeType.RELEASE, AcknowledgeType.values()[(int) (each.offset() % 3)]);
                    consumer.acknowledge(each);
                }
                consumer.commitSync();
                Walk.equal(0, consumer.poll(Duration.ofMillis(500)).count());
            }
        });
        walk.step("share group: acknowledgements are told to a callback", () -> {
            String topic = walk.topic(1);
            String group = group(walk);
            walk.fill(topic, 1, 5);
            List<Long> offsets = new ArrayList<>();
            List<Exception> problems = new ArrayList<>();
            try (KafkaShareConsumer<String, String> consumer = sharer(walk, group)) {
                consumer.setAcknowledgementCommitCallback((told, problem) -> {
                    told.values().forEach(offsets::addAll);
                    if (problem != null) {
                        problems.add(problem);
                    }
                });
                consumer.subscribe(List.of(topic));
                take(consumer, 5);
                consumer.commitAsync();
                Walk.soon("the callback", () -> {
                    consumer.poll(Walk.POLL);
                    return offsets.size() == 5;
                });
            }
            Walk.equal(List.of(), problems);
        });
        walk.step("share group: two consumers of one partition", () -> {
            String topic = walk.topic(1);
            String group = group(walk);
            try (KafkaShareConsumer<String, String> one = sharer(walk, group, "max.poll.records", "10");
                    KafkaShareConsumer<String, String> two = sharer(walk, group, "max.poll.records", "10");
                    KafkaProducer<String, String> producer = walk.producer("linger.ms", "0")) {
                one.subscribe(List.of(topic));
                two.subscribe(List.of(topic));
                List<String> first = new ArrayList<>();
                List<String> second = new ArrayList<>();
                Walk.soon("both get some", () -> {
                    producer.send(new ProducerRecord<>(topic, "v")).get();
                    one.poll(Duration.ofMillis(20)).forEach(each -> first.add(each.value()));
                    producer.send(new ProducerRecord<>(topic, "v")).get();
                    two.poll(Duration.ofMillis(20)).forEach(each -> second.add(each.value()));
                    return !first.isEmpty() && !second.isEmpty();
                });
            }
        });
        walk.step("share group: what a consumer leaves goes to another", () -> {
            String topic = walk.topic(1);
            String group = group(walk);
            walk.fill(topic, 1, 5);
            try (KafkaShareConsumer<String, String> one =
                    sharer(walk, group, "share.acknowledgement.mode", "explicit")) {
                one.subscribe(List.of(topic));
                take(one, 5);
            }
            try (KafkaShareConsumer<String, String> two = sharer(walk, group)) {
                two.subscribe(List.of(topic));
                for (ConsumerRecord<String, String> each : take(two, 5)) {
                    Walk.equal((short) 2, each.deliveryCount().get());
                }
            }
        });
        walk.step("share group: described, listed, its offsets, deleted", () -> {
            String topic = walk.topic(1);
            String group = group(walk);
            TopicPartition where = new TopicPartition(topic, 0);
            walk.fill(topic, 1, 10);
            try (Admin admin = walk.admin()) {
                try (KafkaShareConsumer<String, String> consumer = sharer(walk, group)) {
                    consumer.subscribe(List.of(topic));
                    take(consumer, 10);
                    consumer.commitSync();
                    ShareGroupDescription found =
                        admin.describeShareGroups(List.of(group)).all().get().get(group);
                    Walk.equal(GroupState.STABLE, found.groupState());
                    Walk.equal(1, found.members().size());
                }
                Walk.soon("empty", () -> admin.describeShareGroups(List.of(group)).all().get().get(group)
                    .groupState() == GroupState.EMPTY);
                Walk.check(admin.listGroups(ListGroupsOptions.forShareGroups()).all().get().stream()
                    .anyMatch(each -> each.groupId().equals(group)), "not listed");
                admin.alterShareGroupOffsets(group, Map.of(where, 4L)).all().get();
                Walk.soon("altered", () -> admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
                    .partitionsToOffsetInfo(group).get().get(where).startOffset() == 4L);
                admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get();
                admin.deleteShareGroups(List.of(group)).all().get();
                Walk.fails(GroupIdNotFoundException.class,
                    () -> admin.describeShareGroups(List.of(group)).all().get());
            }
        });
    }

    private static void admin(Walk walk) {
        walk.step("group (consumer): topics by a pattern that the broker evaluates", () -> {
            String stem = walk.named("pattern");
            try (KafkaConsumer<String, String> consumer = walk.consumer(
                    "group.id", walk.named("group"), "group.protocol", "consumer");
                    KafkaProducer<String, String> producer = walk.producer()) {
                producer.send(new ProducerRecord<>(stem + "-a", "a")).get();
                consumer.subscribe(new SubscriptionPattern(stem + "-[ab]"));
                Walk.equal(List.of("a"), Walk.values(Walk.read(consumer, 1)));
            }
            try (KafkaConsumer<String, String> consumer = walk.consumer(
                    "group.id", walk.named("group"), "group.protocol", "consumer")) {
                consumer.subscribe(new SubscriptionPattern("(["));
                Walk.fails(InvalidRegularExpression.class, () -> {
                    while (true) {
                        consumer.poll(Walk.POLL);
                    }
                });
            }
        });
        walk.step("group (consumer): begins as long ago as it is told", () -> {
            String topic = walk.topic(1);
            long now = System.currentTimeMillis();
            try (KafkaProducer<String, String> producer = walk.producer()) {
                producer.send(new ProducerRecord<>(topic, 0, now - 3_600_000, "k", "old")).get();
                producer.send(new ProducerRecord<>(topic, 0, now, "k", "new")).get();
            }
            try (KafkaConsumer<String, String> consumer = walk.consumer("group.id", walk.named("group"),
                    "group.protocol", "consumer", "auto.offset.reset", "by_duration:PT10M")) {
                consumer.subscribe(List.of(topic));
                Walk.equal(List.of("new"), Walk.values(Walk.read(consumer, 1)));
            }
        });
        walk.step("admin: groups of every type are listed", () -> {
            String topic = walk.topic(1);
            String group = walk.named("group");
            try (Admin admin = walk.admin(); KafkaConsumer<String, String> consumer =
                    walk.consumer("group.id", group, "group.protocol", "classic")) {
                consumer.subscribe(List.of(topic));
                Walk.soon("assigned", () -> {
                    consumer.poll(Walk.POLL);
                    return !consumer.assignment().isEmpty();
                });
                Walk.check(admin.listGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)
                    && each.type().get() == GroupType.CLASSIC), "not listed");
                Walk.equal(1, admin.describeClassicGroups(List.of(group)).all().get().get(group).members().size());
            }
        });
        walk.step("admin: settings of a group", () -> {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, group(walk));
            try (Admin admin = walk.admin()) {
                Walk.fails(InvalidConfigurationException.class, () -> admin.incrementalAlterConfigs(Map.of(group,
                    List.of(new AlterConfigOp(new ConfigEntry("consumer.session.timeout.ms", "1"),
                        AlterConfigOp.OpType.SET)))).all().get());
            }
        });
        walk.step("admin: resources with settings are listed", () -> {
            String group = group(walk);
            try (Admin admin = walk.admin()) {
                Walk.check(admin.listConfigResources().all().get()
                    .contains(new ConfigResource(ConfigResource.Type.GROUP, group)), "not all");
                Walk.check(admin.listConfigResources(Set.of(ConfigResource.Type.BROKER),
                    new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get()
                    .contains(new ConfigResource(ConfigResource.Type.BROKER, "1")), "no broker");
            }
        });
        walk.step("admin: a transaction is ended by force", () -> {
            String topic = walk.topic(1);
            String id = walk.named("id");
            try (Admin admin = walk.admin();
                    KafkaProducer<String, String> producer = walk.producer("transactional.id", id)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "v")).get();
                admin.forceTerminateTransaction(id).result().get();
            }
            Walk.equal(List.of(), walk.committed(topic, 0));
        });
        walk.step("admin: fenced brokers are told of", () -> {
            try (Admin admin = walk.admin()) {
                Walk.equal(1, admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true))
                    .nodes().get().size());
            }
        });
    }
}
