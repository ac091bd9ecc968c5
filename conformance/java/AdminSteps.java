import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeProducersResult.PartitionProducerState;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.LogDirNotFoundException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** What the Admin interface does on one node, security apart. */
final class AdminSteps {
    static void add(Walk walk) {
        topics(walk);
        configs(walk);
        records(walk);
        groups(walk);
        transactions(walk);
        cluster(walk);
    }

    private interface Use {
        void with(Admin admin) throws Exception;
    }

    private static void step(Walk walk, String name, Use use) {
        walk.step("admin: " + name, () -> {
            try (Admin admin = walk.admin()) {
                use.with(admin);
            }
        });
    }

    private static ConfigResource resource(ConfigResource.Type type, String name) {
        return new ConfigResource(type, name);
    }

    private static Config config(Admin admin, ConfigResource of) throws Exception {
        return admin.describeConfigs(List.of(of)).all().get().get(of);
    }

    private static void alter(Admin admin, ConfigResource of, OpType type, String name, String value)
            throws Exception {
        admin.incrementalAlterConfigs(
            Map.of(of, List.of(new AlterConfigOp(new ConfigEntry(name, value), type)))).all().get();
    }

    private static void topics(Walk walk) {
        step(walk, "create topics and what is told of them", admin -> {
            String name = walk.named("made");
            CreateTopicsResult made = admin.createTopics(List.of(new NewTopic(name, Optional.of(3), Optional.empty())
                .configs(Map.of("retention.ms", "1000"))));
            made.all().get();
            Walk.equal(3, made.numPartitions(name).get());
            Walk.equal(1, made.replicationFactor(name).get());
            Walk.check(!made.topicId(name).get().equals(Uuid.ZERO_UUID), "no id");
            Walk.equal("1000", made.config(name).get().get("retention.ms").value());
            Walk.soon("described by its id", () -> admin.describeTopics(
                TopicCollection.ofTopicIds(List.of(made.topicId(name).get()))).allTopicIds().get().size() == 1);
        });
        step(walk, "create topics with replicas placed, and only tried", admin -> {
            String name = walk.named("placed");
            NewTopic placed = new NewTopic(name, Map.of(0, List.of(1), 1, List.of(1)));
            admin.createTopics(List.of(placed), new CreateTopicsOptions().validateOnly(true)).all().get();
            Walk.check(!admin.listTopics().names().get().contains(name), "it was made");
            admin.createTopics(List.of(placed)).all().get();
            Walk.soon("in the list", () -> admin.listTopics().names().get().contains(name));
        });
        step(walk, "refused topics", admin -> {
            String there = walk.topic(1);
            Walk.fails(TopicExistsException.class, () -> create(admin, new NewTopic(there, 1, (short) 1)));
            Walk.fails(InvalidTopicException.class, () -> create(admin, new NewTopic("a b", 1, (short) 1)));
            Walk.fails(InvalidPartitionsException.class,
                () -> create(admin, new NewTopic(walk.named("x"), 0, (short) 1)));
            Walk.fails(InvalidReplicationFactorException.class,
                () -> create(admin, new NewTopic(walk.named("x"), 1, (short) 5)));
            Walk.fails(InvalidReplicaAssignmentException.class,
                () -> create(admin, new NewTopic(walk.named("x"), Map.of(0, List.of(99)))));
            Walk.fails(InvalidConfigurationException.class, () -> create(admin,
                new NewTopic(walk.named("x"), 1, (short) 1).configs(Map.of("retention.ms", "never"))));
        });
        step(walk, "delete topics by name and by id", admin -> {
            String one = walk.topic(1);
            String two = walk.topic(1);
            Uuid id = admin.describeTopics(List.of(two)).allTopicNames().get().get(two).topicId();
            admin.deleteTopics(List.of(one)).all().get();
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            Walk.soon("both are gone", () -> {
                Set<String> names = admin.listTopics().names().get();
                return !names.contains(one) && !names.contains(two);
            });
            Walk.fails(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(one)).all().get());
            Walk.fails(UnknownTopicIdException.class,
                () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get());
        });
        step(walk, "describe topics", admin -> {
            String name = walk.topic(2);
            TopicDescription found = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
            Walk.equal(2, found.partitions().size());
            Walk.equal(1, found.partitions().get(1).leader().id());
            Walk.equal(1, found.partitions().get(1).isr().size());
            Walk.check(!found.isInternal(), "internal");
            Walk.fails(UnknownTopicOrPartitionException.class,
                () -> admin.describeTopics(List.of(walk.named("nowhere"))).allTopicNames().get());
        });
        step(walk, "more partitions", admin -> {
            String name = walk.topic(1);
            admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all().get();
            Walk.soon("three", () -> admin.describeTopics(List.of(name)).allTopicNames().get().get(name)
                .partitions().size() == 3);
            Walk.fails(InvalidPartitionsException.class,
                () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all().get());
            Walk.fails(UnknownTopicOrPartitionException.class, () -> admin.createPartitions(
                Map.of(walk.named("nowhere"), NewPartitions.increaseTo(2))).all().get());
            Walk.fails(InvalidReplicaAssignmentException.class, () -> admin.createPartitions(
                Map.of(name, NewPartitions.increaseTo(4, List.of(List.of(99))))).all().get());
        });
    }

    private static void create(Admin admin, NewTopic topic) throws Exception {
        admin.createTopics(List.of(topic)).all().get();
    }

    private static void configs(Walk walk) {
        step(walk, "settings of a topic: set, append, subtract, delete", admin -> {
            ConfigResource topic = resource(ConfigResource.Type.TOPIC, walk.topic(1));
            alter(admin, topic, OpType.SET, "retention.ms", "7000");
            Walk.soon("set", () -> config(admin, topic).get("retention.ms").value().equals("7000"));
            Walk.equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config(admin, topic).get("retention.ms").source());
            alter(admin, topic, OpType.APPEND, "cleanup.policy", "compact");
            Walk.soon("appended", () -> config(admin, topic).get("cleanup.policy").value().equals("delete,compact"));
            alter(admin, topic, OpType.SUBTRACT, "cleanup.policy", "delete");
            Walk.soon("subtracted", () -> config(admin, topic).get("cleanup.policy").value().equals("compact"));
            alter(admin, topic, OpType.DELETE, "retention.ms", null);
            Walk.soon("deleted", () -> config(admin, topic).get("retention.ms").value().equals("604800000"));
            Walk.check(config(admin, topic).get("retention.ms").isDefault(), "not the default");
        });
        step(walk, "settings with synonyms and documentation", admin -> {
            ConfigResource topic = resource(ConfigResource.Type.TOPIC, walk.topic(1));
            Config found = admin.describeConfigs(List.of(topic), new DescribeConfigsOptions()
                .includeSynonyms(true).includeDocumentation(true)).all().get().get(topic);
            Walk.equal(ConfigEntry.ConfigType.LIST, found.get("cleanup.policy").type());
            Walk.equal("log.cleanup.policy", found.get("cleanup.policy").synonyms().get(0).name());
            Walk.check(!found.get("cleanup.policy").documentation().isEmpty(), "no documentation");
        });
        step(walk, "settings only tried, and refused", admin -> {
            ConfigResource topic = resource(ConfigResource.Type.TOPIC, walk.topic(1));
            Collection<AlterConfigOp> change =
                List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), OpType.SET));
            admin.incrementalAlterConfigs(
                Map.of(topic, change), new AlterConfigsOptions().validateOnly(true)).all().get();
            Walk.equal("604800000", config(admin, topic).get("retention.ms").value());
            Walk.fails(InvalidConfigurationException.class,
                () -> alter(admin, topic, OpType.SET, "retention.ms", "never"));
            Walk.fails(InvalidConfigurationException.class, () -> alter(admin, topic, OpType.SET, "no.such", "1"));
            Walk.fails(InvalidConfigurationException.class,
                () -> alter(admin, topic, OpType.APPEND, "retention.ms", "1"));
            Walk.fails(UnknownTopicOrPartitionException.class, () -> alter(admin,
                resource(ConfigResource.Type.TOPIC, walk.named("nowhere")), OpType.SET, "retention.ms", "1"));
        });
        step(walk, "settings of a broker and of all brokers", admin -> {
            ConfigResource broker = resource(ConfigResource.Type.BROKER, "1");
            ConfigResource all = resource(ConfigResource.Type.BROKER, "");
            String before = config(admin, broker).get("log.cleaner.backoff.ms").value();
            alter(admin, all, OpType.SET, "log.cleaner.backoff.ms", "15002");
            Walk.soon("all", () -> config(admin, broker).get("log.cleaner.backoff.ms").value().equals("15002"));
            alter(admin, broker, OpType.SET, "log.cleaner.backoff.ms", "15003");
            Walk.soon("one", () -> config(admin, broker).get("log.cleaner.backoff.ms").value().equals("15003"));
            alter(admin, broker, OpType.DELETE, "log.cleaner.backoff.ms", null);
            alter(admin, all, OpType.DELETE, "log.cleaner.backoff.ms", null);
            Walk.soon("back", () -> config(admin, broker).get("log.cleaner.backoff.ms").value().equals(before));
            Walk.check(config(admin, broker).get("node.id").isReadOnly(), "node.id may be changed");
            Walk.fails(KafkaException.class, () -> alter(admin, broker, OpType.SET, "node.id", "7"));
        });
        step(walk, "levels of a broker's loggers", admin -> {
            ConfigResource loggers = resource(ConfigResource.Type.BROKER_LOGGER, "1");
            Walk.check(config(admin, loggers) != null, "not described");
        });
        step(walk, "subscriptions to clients' metrics", admin -> {
            String name = walk.named("metrics");
            ConfigResource metrics = resource(ConfigResource.Type.CLIENT_METRICS, name);
            alter(admin, metrics, OpType.SET, "interval.ms", "60000");
            Walk.soon("listed", () -> admin.listClientMetricsResources().all().get().stream()
                .anyMatch(each -> each.name().equals(name)));
            alter(admin, metrics, OpType.DELETE, "interval.ms", null);
        });
    }

    private static void records(Walk walk) {
        step(walk, "offsets by every rule", admin -> {
            String topic = walk.topic(1);
            TopicPartition where = new TopicPartition(topic, 0);
            try (KafkaProducer<String, String> producer = walk.producer("linger.ms", "100")) {
                producer.send(new ProducerRecord<>(topic, 0, 1000L, "k", "v"));
                producer.send(new ProducerRecord<>(topic, 0, 9000L, "k", "v"));
                producer.send(new ProducerRecord<>(topic, 0, 5000L, "k", "v"));
            }
            Walk.equal(0L, offset(admin, where, OffsetSpec.earliest()));
            Walk.equal(3L, offset(admin, where, OffsetSpec.latest()));
            Walk.equal(1L, offset(admin, where, OffsetSpec.maxTimestamp()));
            Walk.equal(1L, offset(admin, where, OffsetSpec.forTimestamp(2000)));
            Walk.equal(-1L, offset(admin, where, OffsetSpec.forTimestamp(9001)));
            Walk.equal(0L, offset(admin, where, OffsetSpec.earliestLocal()));
            Walk.equal(-1L, offset(admin, where, OffsetSpec.latestTiered()));
        });
        step(walk, "delete records", admin -> {
            String topic = walk.topic(1);
            TopicPartition where = new TopicPartition(topic, 0);
            walk.fill(topic, 1, 10);
            Walk.equal(4L, admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(4)))
                .lowWatermarks().get(where).get().lowWatermark());
            Walk.equal(4L, offset(admin, where, OffsetSpec.earliest()));
            Walk.equal(10L, admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(-1)))
                .lowWatermarks().get(where).get().lowWatermark());
            Walk.fails(OffsetOutOfRangeException.class,
                () -> admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(11))).all().get());
        });
        step(walk, "log directories", admin -> {
            String topic = walk.topic(2);
            walk.fill(topic, 2, 10);
            Map<String, LogDirDescription> found = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
            Walk.equal(1, found.size());
            String directory = found.keySet().iterator().next();
            LogDirDescription described = found.get(directory);
            Walk.equal(null, described.error());
            Walk.check(described.replicaInfos().get(new TopicPartition(topic, 0)).size() > 0, "no size");
            Walk.check(described.totalBytes().getAsLong() > 0, "no total");
            Walk.check(described.usableBytes().getAsLong() > 0, "no room");
            TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, 1);
            Walk.equal(directory, admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica)
                .getCurrentReplicaLogDir());
            admin.alterReplicaLogDirs(Map.of(replica, directory)).all().get();
            Walk.fails(LogDirNotFoundException.class,
                () -> admin.alterReplicaLogDirs(Map.of(replica, "/no/such/directory")).all().get());
        });
        step(walk, "elections", admin -> {
            String topic = walk.topic(1);
            TopicPartition where = new TopicPartition(topic, 0);
            Walk.fails(ElectionNotNeededException.class,
                () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(where)).all().get());
            Walk.fails(ElectionNotNeededException.class,
                () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(where)).all().get());
            Walk.fails(UnknownTopicOrPartitionException.class, () -> admin.electLeaders(ElectionType.PREFERRED,
                Set.of(new TopicPartition(walk.named("nowhere"), 0))).all().get());
            Walk.check(admin.electLeaders(ElectionType.PREFERRED, null).partitions().get().isEmpty(), "elected");
        });
        step(walk, "reassignments", admin -> {
            String topic = walk.topic(1);
            TopicPartition where = new TopicPartition(topic, 0);
            admin.alterPartitionReassignments(
                Map.of(where, Optional.of(new NewPartitionReassignment(List.of(1))))).all().get();
            Walk.soon("none under way",
                () -> admin.listPartitionReassignments(Set.of(where)).reassignments().get().isEmpty());
            Walk.check(admin.listPartitionReassignments().reassignments().get().isEmpty(), "some under way");
            Walk.fails(NoReassignmentInProgressException.class,
                () -> admin.alterPartitionReassignments(Map.of(where, Optional.empty())).all().get());
            Walk.fails(InvalidReplicaAssignmentException.class, () -> admin.alterPartitionReassignments(
                Map.of(where, Optional.of(new NewPartitionReassignment(List.of(1, 99))))).all().get());
        });
    }

    private static long offset(Admin admin, TopicPartition where, OffsetSpec rule) throws Exception {
        return admin.listOffsets(Map.of(where, rule)).all().get().get(where).offset();
    }

    private static void groups(Walk walk) {
        for (String protocol : new String[] {"classic", "consumer"}) {
            step(walk, "a " + protocol + " group with a member", admin -> {
                String topic = walk.topic(2);
                String group = walk.named("group");
                try (KafkaConsumer<String, String> consumer = walk.consumer(
                        "group.id", group, "group.protocol", protocol, "client.id", "the-client")) {
                    consumer.subscribe(List.of(topic));
                    Walk.soon("assigned", () -> {
                        consumer.poll(Walk.POLL);
                        return consumer.assignment().size() == 2;
                    });
                    Walk.soon("stable", () -> {
                        consumer.poll(Walk.POLL);
                        return admin.describeConsumerGroups(List.of(group)).all().get().get(group).state()
                            .toString().equals("Stable");
                    });
                    ConsumerGroupDescription found =
                        admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                    Walk.equal(1, found.members().size());
                    Walk.equal("the-client", found.members().iterator().next().clientId());
                    Walk.equal(2, found.members().iterator().next().assignment().topicPartitions().size());
                    Walk.equal(1, found.coordinator().id());
                    Walk.equal(protocol.equals("classic") ? "range" : "uniform", found.partitionAssignor());
                    Walk.check(!found.isSimpleConsumerGroup(), "simple");
                    Walk.check(admin.listConsumerGroups().all().get().stream()
                        .anyMatch(each -> each.groupId().equals(group)), "not listed");
                    Walk.fails(GroupNotEmptyException.class,
                        () -> admin.deleteConsumerGroups(List.of(group)).all().get());
                }
            });
            step(walk, "offsets of a " + protocol + " group", admin -> {
                String topic = walk.topic(2);
                String group = walk.named("group");
                TopicPartition zero = new TopicPartition(topic, 0);
                TopicPartition one = new TopicPartition(topic, 1);
                walk.fill(topic, 2, 10);
                try (KafkaConsumer<String, String> consumer =
                        walk.consumer("group.id", group, "group.protocol", protocol)) {
                    consumer.subscribe(List.of(topic));
                    Walk.read(consumer, 10);
                    consumer.commitSync();
                }
                Walk.equal(5L, offsets(admin, group).get(zero).offset());
                admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(2, "two"))).all().get();
                Walk.equal(2L, offsets(admin, group).get(zero).offset());
                Walk.equal("two", offsets(admin, group).get(zero).metadata());
                admin.deleteConsumerGroupOffsets(group, Set.of(one)).all().get();
                Walk.equal(Set.of(zero), offsets(admin, group).keySet());
                admin.deleteConsumerGroups(List.of(group)).all().get();
                Walk.fails(GroupIdNotFoundException.class,
                    () -> admin.deleteConsumerGroups(List.of(group)).all().get());
            });
        }
        step(walk, "members are removed from a group", admin -> {
            String topic = walk.topic(1);
            String group = walk.named("group");
            try (KafkaConsumer<String, String> consumer =
                    walk.consumer("group.id", group, "group.instance.id", "static")) {
                consumer.subscribe(List.of(topic));
                Walk.soon("assigned", () -> {
                    consumer.poll(Walk.POLL);
                    return consumer.assignment().size() == 1;
                });
                admin.removeMembersFromConsumerGroup(group,
                    new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("static")))).all().get();
            }
            Walk.equal(0, admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().size());
        });
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private static void transactions(Walk walk) {
        step(walk, "transactions and their producers are described", admin -> {
            String topic = walk.topic(1);
            String id = walk.named("id");
            TopicPartition where = new TopicPartition(topic, 0);
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", id)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "v")).get();
                TransactionDescription found = admin.describeTransactions(List.of(id)).all().get().get(id);
                Walk.equal(TransactionState.ONGOING, found.state());
                Walk.equal(Set.of(where), found.topicPartitions());
                Walk.equal(60000L, found.transactionTimeoutMs());
                Walk.check(found.transactionStartTimeMs().getAsLong() > 0, "no start");
                PartitionProducerState states =
                    admin.describeProducers(List.of(where)).all().get().get(where);
                ProducerState state = states.activeProducers().get(0);
                Walk.equal(found.producerId(), state.producerId());
                Walk.equal(0L, state.currentTransactionStartOffset().getAsLong());
                Walk.check(admin.listTransactions(new ListTransactionsOptions()
                    .filterStates(Set.of(TransactionState.ONGOING))).all().get().stream()
                    .anyMatch(each -> each.transactionalId().equals(id)), "not listed");
                Walk.check(admin.listTransactions(new ListTransactionsOptions()
                    .filterProducerIds(Set.of(state.producerId()))).all().get().size() == 1, "not by producer");
                Walk.check(admin.listTransactions(new ListTransactionsOptions()
                    .filterOnDuration(1_000_000)).all().get().stream()
                    .noneMatch(each -> each.transactionalId().equals(id)), "too long");
                producer.commitTransaction();
                Walk.soon("complete", () -> admin.describeTransactions(List.of(id)).all().get().get(id).state()
                    == TransactionState.COMPLETE_COMMIT);
            }
            Walk.fails(TransactionalIdNotFoundException.class,
                () -> admin.describeTransactions(List.of(walk.named("nobody"))).all().get());
        });
        step(walk, "an open transaction is aborted", admin -> {
            String topic = walk.topic(1);
            TopicPartition where = new TopicPartition(topic, 0);
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", walk.named("id"))) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "v")).get();
                ProducerState state = admin.describeProducers(List.of(where)).all().get().get(where)
                    .activeProducers().get(0);
                admin.abortTransaction(new AbortTransactionSpec(where, state.producerId(),
                    (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all().get();
            }
            Walk.equal(List.of(), walk.committed(topic, 0));
        });
        step(walk, "a producer is fenced", admin -> {
            String topic = walk.topic(1);
            String id = walk.named("id");
            try (KafkaProducer<String, String> producer = walk.producer("transactional.id", id)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "v")).get();
                admin.fenceProducers(List.of(id)).all().get();
                Walk.fails(KafkaException.class, producer::commitTransaction);
            }
            Walk.equal(List.of(), walk.committed(topic, 0));
        });
    }

    private static void cluster(Walk walk) {
        step(walk, "the cluster", admin -> {
            Walk.equal(1, admin.describeCluster().nodes().get().size());
            Walk.equal(1, admin.describeCluster().controller().get().id());
            Walk.equal(22, admin.describeCluster().clusterId().get().length());
            Walk.check(admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true))
                .authorizedOperations().get() != null, "no operations");
        });
        step(walk, "features", admin -> {
            FeatureMetadata found = admin.describeFeatures().featureMetadata().get();
            Walk.equal((short) 2, found.finalizedFeatures().get("transaction.version").maxVersionLevel());
            Walk.check(found.supportedFeatures().get("metadata.version").maxVersion() >= 25, "metadata.version");
            Walk.check(found.finalizedFeaturesEpoch().isPresent(), "no epoch");
            admin.updateFeatures(Map.of("group.version",
                new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
                new UpdateFeaturesOptions().validateOnly(true)).all().get();
            Walk.fails(KafkaException.class, () -> admin.updateFeatures(Map.of("no.such.version",
                new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
                new UpdateFeaturesOptions()).all().get());
        });
        step(walk, "the metadata quorum", admin -> {
            QuorumInfo found = admin.describeMetadataQuorum().quorumInfo().get();
            Walk.equal(1, found.leaderId());
            Walk.equal(1, found.voters().size());
            Walk.equal(1, found.voters().get(0).replicaId());
            Walk.check(found.highWatermark() > 0, "no high watermark");
            Walk.check(found.observers().isEmpty(), "observers");
        });
        step(walk, "a broker that is not there is unregistered", admin ->
            Walk.fails(BrokerIdNotRegisteredException.class, () -> admin.unregisterBroker(77).all().get()));
        step(walk, "metrics", admin -> Walk.check(!admin.metrics().isEmpty(), "none"));
    }
}
