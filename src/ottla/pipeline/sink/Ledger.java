package ottla.pipeline;

import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads the ledger of the sink's units, and has its topic made: the counterpart of exactly_once_ledger.py.
 *
 * A unit's entry is an offset of a group of its own, and a record of the query's ledger topic. The group is read
 * first; where it has no offset, the topic.
 */
final class Ledger {
    private static final long READ_SECONDS = 15;
    private static final int MOST_ADMINS = 16;
    /** One for each cluster that this process writes to, the least recently used first. */
    private static final LinkedHashMap ADMINS = new LinkedHashMap();

    private final SinkOptions options;
    private final String where;
    private final Admin admin;

    Ledger(SinkOptions options, String where) {
        this.options = options;
        this.where = where;
        this.admin = admin(options.clientProperties());
    }

    private static Admin admin(Map properties) {
        synchronized (ADMINS) {
            String key = String.valueOf(properties);
            Admin found = (Admin) ADMINS.remove(key);
            if (found == null) {
                found = Admin.create(properties);
            }
            ADMINS.put(key, found);
            if (ADMINS.size() > MOST_ADMINS) {
                Iterator all = ADMINS.values().iterator();
                Admin oldest = (Admin) all.next();
                all.remove();
                oldest.close(Duration.ZERO);
            }
            return found;
        }
    }

    /** What the unit's group says, once no transaction does anything to it any more; null if it has no offset. */
    LedgerEntry ofGroup(String group) {
        TopicPartition place = new TopicPartition(options.topic, 0);
        Map wanted = Collections.singletonMap(
            group, new ListConsumerGroupOffsetsSpec().topicPartitions(Collections.singleton(place)));
        ListConsumerGroupOffsetsOptions stable = new ListConsumerGroupOffsetsOptions().requireStable(true);
        Map found = (Map) await(admin.listConsumerGroupOffsets(wanted, stable).partitionsToOffsetAndMetadata(group));
        OffsetAndMetadata committed = (OffsetAndMetadata) found.get(place);
        if (committed == null || committed.offset() < 0) {
            return null;
        }
        String holder = "group " + group + " holds offsets that are not this sink's";
        return LedgerEntry.parse(holder, committed.offset(), committed.metadata());
    }

    /**
     * What the ledger topic says about a unit; null if nothing. It is read up to the end that it has now, so
     * transactions of others that are open must end first, and the unit's own last one has ended.
     */
    LedgerEntry ofTopic(String group) {
        TopicPartition place = new TopicPartition(options.ledgerTopic, 0);
        Map wanted = Collections.singletonMap(place, OffsetSpec.latest());
        long end = ((ListOffsetsResult.ListOffsetsResultInfo) await(
            admin.listOffsets(wanted).partitionResult(place))).offset();
        if (end == 0) {
            return null;
        }
        Map properties = options.clientProperties();
        properties.put("group.id", group);
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("fetch.max.wait.ms", "10");
        // A follower may not have what was committed last.
        properties.remove("client.rack");
        KafkaConsumer consumer =
            new KafkaConsumer(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        try {
            consumer.assign(Collections.singleton(place));
            consumer.seekToBeginning(Collections.singleton(place));
            long deadline = System.nanoTime() + (READ_SECONDS * 1000L + options.transactionTimeoutMs) * 1000000L;
            LedgerEntry entry = null;
            String holder = "topic " + options.ledgerTopic + " holds records that are not this sink's";
            while (consumer.position(place) < end) {
                if (System.nanoTime() > deadline) {
                    throw new SinkError(where + ": topic " + options.ledgerTopic + " cannot be read to its end: a "
                        + "transaction into it is open, or a broker away; try again");
                }
                for (Iterator records = consumer.poll(Duration.ofMillis(100)).iterator(); records.hasNext();) {
                    ConsumerRecord record = (ConsumerRecord) records.next();
                    if (record.key() != null && record.value() != null) {
                        LedgerEntry read = LedgerEntry.parseRecord(holder, (byte[]) record.value());
                        if (Arrays.equals((byte[]) record.key(), ExactlyOnceUnit.utf8(group))) {
                            entry = read;
                        }
                    }
                }
            }
            return entry;
        } finally {
            consumer.close(Duration.ZERO);
        }
    }

    /** Have a ledger topic that forgets nothing: it is made if it is missing, as often kept as the rows' topic. */
    void requireTopic() {
        short replicas = replicasOf(options.topic);
        if (replicasOf(options.ledgerTopic) == 0) {
            Map settings = new HashMap();
            settings.put("cleanup.policy", "compact");
            // The least that Kafka takes: what is written since the last full segment is read in whole.
            settings.put("segment.bytes", String.valueOf(1 << 20));
            NewTopic topic = new NewTopic(options.ledgerTopic, 1, replicas).configs(settings);
            try {
                awaited(admin.createTopics(Collections.singleton(topic)).all());
            } catch (TopicExistsException error) {
                // Another task has made it.
            } catch (RuntimeException error) {
                throw new SinkError("the exactly-once sink's ledger: cannot create topic " + options.ledgerTopic + ": "
                    + error.getMessage() + "; create it with one partition and cleanup.policy=compact");
            }
        }
        String policy = settingOf(options.ledgerTopic, "cleanup.policy");
        if (policy != null && !"compact".equals(policy)) {
            throw new SinkError("the exactly-once sink's ledger, topic " + options.ledgerTopic
                + ", has cleanup.policy=" + policy + " and would forget batches: set it to compact");
        }
    }

    /** The most bytes of a batch of records that the topic of the rows takes; null if it may not be asked. */
    Integer largestBatchBytes() {
        String found = settingOf(options.topic, "max.message.bytes");
        return found == null ? null : Integer.valueOf(found);
    }

    /** A topic's setting. Null if this client may not look, or the broker has not heard of a topic made just now. */
    private String settingOf(String topic, String name) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try {
            Config found =
                (Config) ((Map) awaited(admin.describeConfigs(Collections.singleton(resource)).all())).get(resource);
            ConfigEntry entry = found.get(name);
            return entry == null ? null : entry.value();
        } catch (TopicAuthorizationException error) {
            return null;
        } catch (ClusterAuthorizationException error) {
            return null;
        } catch (UnknownTopicOrPartitionException error) {
            return null;
        }
    }

    /** Raises SinkError for a topic that does not exist. */
    void requireExisting(String topic) {
        if (replicasOf(topic) == 0) {
            throw new SinkError(
                where + ": topic " + topic + " does not exist on " + options.bootstrap + ": create it");
        }
    }

    /** How often each record of a topic is kept; 0 for one that does not exist. */
    private short replicasOf(String topic) {
        try {
            TopicDescription found = (TopicDescription) awaited(
                (KafkaFuture) admin.describeTopics((Collection) Collections.singleton(topic)).topicNameValues().get(topic));
            return (short) ((TopicPartitionInfo) found.partitions().get(0)).replicas().size();
        } catch (UnknownTopicOrPartitionException error) {
            return 0;
        } catch (SinkError error) {
            throw error;
        } catch (RuntimeException error) {
            throw failed(error);
        }
    }

    private Object await(KafkaFuture future) {
        try {
            return awaited(future);
        } catch (SinkError error) {
            throw error;
        } catch (RuntimeException error) {
            throw failed(error);
        }
    }

    private SinkError failed(RuntimeException error) {
        return new SinkError(where + ": " + error.getMessage() + " (" + options.bootstrap + ")");
    }

    private static Object awaited(KafkaFuture future) {
        try {
            return future.get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof RuntimeException) {
                throw (RuntimeException) error.getCause();
            }
            throw new IllegalStateException(String.valueOf(error.getCause()));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new SinkError("the task was ended");
        }
    }
}
