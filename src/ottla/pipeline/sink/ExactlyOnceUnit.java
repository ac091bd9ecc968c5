package ottla.pipeline;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.SparkEnv;

/**
 * Writes one unit of a batch, exactly once: the counterpart of exactly_once_writer.py, and of its ledger's readers.
 *
 * 1. initTransactions. Once it is answered, every older producer of the unit is fenced and its transaction has
 *    ended, one way or the other. So the ledger does not change any more until this producer commits.
 * 2. Read the ledger. Batch b is written already if the ledger says b + 1.
 * 3. Produce the rows, add b + 1 to the ledger inside the same transaction, commit.
 *
 * A producer that has committed is kept for the unit's next batch. Where all tasks run in this process, its last
 * entry is kept with it and step 2 is done as well: if another process has written the unit since, it has fenced
 * this producer, so that nothing is committed, and the task's next attempt makes a new one.
 */
public final class ExactlyOnceUnit {
    private static final int MOST_KEPT = 64;
    /** A producer's pool of memory does not shrink, so those that have written much make room sooner. */
    private static final long MOST_KEPT_BYTES = Runtime.getRuntime().maxMemory() / 8;
    private static final long BUFFER_BYTES = 32L << 20;
    private static final int MOST_TOPICS = 10000;
    private static final long CALLBACK_NANOS = 2000000000L;
    private static final String DRIVER = "driver";
    /** By unit: producers that have committed, the least recently used first. */
    private static final LinkedHashMap KEPT = new LinkedHashMap();
    /** What the pools of the producers in KEPT may hold together; guarded by KEPT. */
    private static long keptBytes = 0;

    final String where;
    /** The batch is in Kafka already: the rows that come are to be left alone. */
    final boolean isWritten;

    private final SinkOptions options;
    private final Place place;
    private final String group;
    private final Kept kept;
    private final Ledger ledger;
    private long beganNanos = 0;
    private long sentBytes = 0;
    private boolean hasBegun = false;
    private boolean isDone;
    private boolean isFenced = false;

    /** A producer of a unit, and the unit's ledger as far as this process knows it. */
    private static final class Kept implements Callback {
        final KafkaProducer producer;
        final long bufferBytes;
        final long batchBytes;
        final Set topics = new HashSet();
        LedgerEntry entry = null;
        /** The most that the producer's pool may hold after its transactions up to now. */
        long poolBytes = 0;
        /** The first error of a record, and that record's topic: later ones are its consequences. */
        volatile Exception failure = null;
        volatile String failedTopic = null;
        /** As many as the highest number of a partition that got a record says. */
        private volatile int partitions = 0;

        Kept(KafkaProducer producer, long bufferBytes, long batchBytes) {
            this.producer = producer;
            this.bufferBytes = bufferBytes;
            this.batchBytes = batchBytes;
        }

        public void onCompletion(RecordMetadata metadata, Exception error) {
            if (error == null) {
                if (metadata.partition() >= partitions) {
                    partitions = metadata.partition() + 1;
                }
            } else if (failure == null) {
                synchronized (this) {
                    failedTopic = metadata == null ? null : metadata.topic();
                    failure = error;
                    notifyAll();
                }
            }
        }

        /**
         * Wait for the callback of a record whose failure has put the producer into its error state: the producer
         * changes its state first, so that another call may be refused before the record's topic is known.
         */
        synchronized void awaitFailure() {
            long until = System.nanoTime() + CALLBACK_NANOS;
            long left = CALLBACK_NANOS;
            try {
                while (failure == null && left > 0) {
                    wait(left / 1000000L + 1);
                    left = until - System.nanoTime();
                }
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        /** A transaction with so many bytes of keys and values is committed. */
        void hasCommitted(long bytes) {
            long held = Math.min(bufferBytes, bytes + batchBytes * partitions * topics.size());
            poolBytes = Math.max(poolBytes, held);
        }

        void close() {
            try {
                producer.close(Duration.ZERO);
            } catch (KafkaException error) {
                // Its thread ends all the same.
            }
        }
    }

    private ExactlyOnceUnit(
        SinkOptions options, Place place, String where, String group, Ledger ledger, Kept kept, boolean isWritten
    ) {
        this.options = options;
        this.place = place;
        this.where = where;
        this.group = group;
        this.ledger = ledger;
        this.kept = kept;
        this.isWritten = isWritten;
        this.isDone = isWritten;
        if (isWritten) {
            keep(options, group, kept);
        }
    }

    /** Steps 1 and 2. Throws SinkError. */
    public static ExactlyOnceUnit open(SinkOptions options, Place place, String unit) {
        String where = "query " + options.queryName + ", batch " + place.batch + ", unit " + unit;
        String group = options.group(unit);
        Ledger ledger = new Ledger(options, where);
        Kept kept = take(options, group);
        try {
            if (kept != null && !isUpToDate(kept, place)) {
                LedgerEntry entry = ledger.ofGroup(group);
                // No other producer has committed since, or this one makes way for a new one.
                if (entry == null || entry.nextBatch != kept.entry.nextBatch) {
                    kept.close();
                    kept = null;
                } else {
                    kept.entry = entry;
                }
            }
            if (kept == null) {
                kept = fenced(options, group, ledger, where);
                kept.entry = ledger.ofGroup(group);
                if (kept.entry == null) {
                    // The group may have forgotten what the topic has not.
                    kept.entry = ledger.ofTopic(group);
                }
            }
            boolean isWritten = isWritten(kept.entry, options, place, where);
            return new ExactlyOnceUnit(options, place, where, group, ledger, kept, isWritten);
        } catch (RuntimeException error) {
            if (kept != null) {
                kept.close();
            }
            throw named(error, where, options.bootstrap);
        } catch (Error error) {
            if (kept != null) {
                kept.close();
            }
            throw error;
        }
    }

    public boolean isWritten() {
        return isWritten;
    }

    /** Whether the entry beside a producer is the ledger's, or else the producer is fenced. */
    private static boolean isUpToDate(Kept kept, Place place) {
        boolean isOnlyProcess = SparkEnv.get() != null && DRIVER.equals(SparkEnv.get().executorId());
        return isOnlyProcess && kept.entry != null && place.runId.equals(kept.entry.runId);
    }

    private static Kept fenced(SinkOptions options, String group, Ledger ledger, String where) {
        ledger.requireExisting(options.topic);
        ledger.requireTopic();
        Map properties = options.producerProperties();
        properties.put("transactional.id", group);
        properties.put("transaction.timeout.ms", String.valueOf(options.transactionTimeoutMs));
        // Java's producer would split a batch that the topic refuses into pieces of batch.size, for ever.
        Integer largest = ledger.largestBatchBytes();
        long batchBytes = Long.parseLong((String) properties.get("batch.size"));
        long bufferBytes = BUFFER_BYTES;
        if (largest != null) {
            batchBytes = Math.min(batchBytes, largest.longValue());
            // A record must fit into the buffer: one that the topic takes does.
            long request = Long.parseLong((String) properties.get("max.request.size"));
            bufferBytes += Math.min(request, largest.longValue());
        }
        properties.put("batch.size", String.valueOf(batchBytes));
        properties.put("buffer.memory", String.valueOf(bufferBytes));
        KafkaProducer producer =
            new KafkaProducer(properties, new ByteArraySerializer(), new ByteArraySerializer());
        Kept kept = new Kept(producer, bufferBytes, batchBytes);
        kept.topics.add(options.topic);
        try {
            producer.initTransactions();
        } catch (TimeoutException error) {
            kept.close();
            throw new SinkError(where + ": no answer to the start of transactions; is transaction_timeout_ms="
                + options.transactionTimeoutMs + " more than the broker's transaction.max.timeout.ms, or a broker away? ("
                + options.bootstrap + ")");
        } catch (RuntimeException error) {
            kept.close();
            throw error;
        }
        return kept;
    }

    private static boolean isWritten(LedgerEntry entry, SinkOptions options, Place place, String where) {
        if (entry != null && !entry.queryId.equals(place.queryId)) {
            throw new SinkError("the exactly-once sink " + options.queryName + " was written by query " + entry.queryId
                + " and now query " + place.queryId + " comes under its name: bring the lost checkpoint back, give the"
                + " query another name, or forget the former one with reset_sink('" + options.queryName + "')");
        }
        if (entry == null || entry.nextBatch < place.batch + 1) {
            return false;
        }
        if (entry.nextBatch > place.batch + 1) {
            throw new SinkError(where + ": batch " + (entry.nextBatch - 1) + " is written already, so this checkpoint is"
                + " older than the output: go on with the newest checkpoint, or give up the batches in between with"
                + " reset_sink('" + options.queryName + "')");
        }
        if (!entry.runId.isEmpty() && entry.runId.equals(place.runId) && entry.task != place.task) {
            throw new SinkError(where + ": tasks " + entry.task + " and " + place.task + " of one batch have rows of the"
                + " same source partition (a topic read twice, or minPartitions): name them differently in `source`");
        }
        if (entry.identity.equals("task") && !entry.shufflePartitions.isEmpty()
            && !entry.shufflePartitions.equals(place.shufflePartitions)) {
            throw new SinkError(where + ": the batch was written with " + entry.shufflePartitions + " shuffle partitions"
                + " and comes again with " + place.shufflePartitions + ": set spark.sql.shuffle.partitions back");
        }
        return true;
    }

    /** The first part of step 3, for one row. Throws SinkError. */
    public void send(
        String topic, Integer partition, Long timestamp, byte[] key, byte[] value, Headers headers
    ) {
        try {
            if (!hasBegun) {
                kept.producer.beginTransaction();
                hasBegun = true;
                beganNanos = System.nanoTime();
            }
            requireTopic(topic);
            sentBytes += (key == null ? 0 : key.length) + (value == null ? 0 : value.length);
            kept.producer.send(new ProducerRecord(topic, partition, timestamp, key, value, headers), kept);
        } catch (RuntimeException error) {
            throw failed(error);
        }
        if (kept.failure != null) {
            throw failed(new KafkaException());
        }
    }

    /** The end of step 3: commit all rows and the ledger's entry, or nothing. Throws SinkError. */
    public void commit() {
        if (isDone) {
            return;
        }
        String identity = options.bySource ? "source" : "task";
        LedgerEntry entry = new LedgerEntry(
            place.batch + 1,
            options.queryName,
            place.queryId,
            place.runId,
            identity,
            place.task,
            place.shufflePartitions
        );
        try {
            // The record is the last one of the transaction: until it ends, others cannot read behind it.
            byte[] key = utf8(group);
            kept.producer.send(
                new ProducerRecord(options.ledgerTopic, Integer.valueOf(0), (Long) null, key, entry.record(), null), kept);
            // An attempt that was overtaken learns of it here: refused while the offsets' request waits in the queue,
            // Java's producer lets that request wait for max.block.ms. A commit takes as long with it as without.
            kept.producer.flush();
            if (kept.failure != null) {
                throw failed(new KafkaException());
            }
            kept.producer.sendOffsetsToTransaction(
                Collections.singletonMap(
                    new TopicPartition(options.topic, 0), new OffsetAndMetadata(entry.nextBatch, entry.metadata())),
                new ConsumerGroupMetadata(group)
            );
            commitTransaction();
        } catch (RuntimeException error) {
            throw failed(error);
        }
        isDone = true;
        kept.entry = entry;
        kept.hasCommitted(sentBytes);
        keep(options, group, kept);
    }

    /**
     * The answer to a commit may be late; it is asked for until the transaction's own time is over. An interrupt has to
     * wait for it: left at this point, the transaction could neither be ended otherwise, nor would it end soon.
     */
    private void commitTransaction() {
        boolean isInterrupted = false;
        try {
            while (true) {
                try {
                    kept.producer.commitTransaction();
                    return;
                } catch (KafkaException error) {
                    if (error instanceof InterruptException) {
                        isInterrupted = true;
                        Thread.interrupted();
                    } else if (!(error instanceof TimeoutException) || isOverdue()) {
                        throw error;
                    }
                }
            }
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** End the transaction now rather than at its timeout; the next attempt's step 1 would end it too. */
    public void abort() {
        if (isDone) {
            return;
        }
        isDone = true;
        // Spark interrupts the tasks of a query that is stopped. Until their transactions end, consumers of committed
        // records wait, so the interrupt has to wait as well.
        boolean isInterrupted = Thread.interrupted();
        try {
            // The transaction of a fenced producer has ended; the client may wait a minute for that.
            if (hasBegun && !isFenced) {
                kept.producer.abortTransaction();
            }
        } catch (RuntimeException error) {
            // It is fenced, or the broker away.
        } finally {
            kept.close();
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void requireTopic(String topic) {
        if (kept.topics.contains(topic)) {
            return;
        }
        if (kept.topics.size() >= MOST_TOPICS) {
            throw new SinkError(where + ": the rows name more than " + MOST_TOPICS + " topics");
        }
        ledger.requireExisting(topic);
        kept.topics.add(topic);
    }

    private boolean isOverdue() {
        return hasBegun && System.nanoTime() - beganNanos > options.transactionTimeoutMs * 1000000L;
    }

    private RuntimeException failed(RuntimeException error) {
        if (error instanceof SinkError || error instanceof InterruptException) {
            return error;
        }
        Throwable refused = error instanceof ApiException ? error : error.getCause();
        if (refused instanceof ApiException && !isFence(refused)) {
            kept.awaitFailure();
        }
        Throwable cause = kept.failure == null ? error : kept.failure;
        if (isFence(cause) || isFence(error) || isFence(error.getCause())) {
            isFenced = true;
            String reason = isOverdue()
                ? "the transaction was open for longer than " + options.transactionTimeoutMs / 1000 + " s and the broker"
                    + " ended it: read less a batch (maxOffsetsPerTrigger) or raise transaction_timeout_ms"
                : "another attempt of the task has taken over";
            return new SinkError(where + ": " + reason + " (" + options.bootstrap + ")");
        }
        String topic = cause == error || kept.failedTopic == null ? "" : ": topic " + kept.failedTopic;
        return named(cause, where + topic, options.bootstrap);
    }

    private static boolean isFence(Throwable error) {
        return error instanceof ProducerFencedException || error instanceof InvalidProducerEpochException;
    }

    private static RuntimeException named(Throwable error, String where, String bootstrap) {
        if (error instanceof SinkError || error instanceof InterruptException) {
            return (RuntimeException) error;
        }
        Throwable cause = error;
        while (cause.getCause() != null && cause.getCause().getMessage() != null) {
            cause = cause.getCause();
        }
        return new SinkError(where + ": " + cause.getMessage() + " (" + bootstrap + ")");
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Kept take(SinkOptions options, String group) {
        synchronized (KEPT) {
            Kept taken = (Kept) KEPT.remove(keyOf(options, group));
            keptBytes -= taken == null ? 0 : taken.poolBytes;
            return taken;
        }
    }

    private static void keep(SinkOptions options, String group, Kept kept) {
        List left = new ArrayList();
        synchronized (KEPT) {
            Kept replaced = (Kept) KEPT.put(keyOf(options, group), kept);
            keptBytes += kept.poolBytes;
            if (replaced != null) {
                keptBytes -= replaced.poolBytes;
                left.add(replaced);
            }
            Iterator all = KEPT.values().iterator();
            while (KEPT.size() > MOST_KEPT || (KEPT.size() > 1 && keptBytes > MOST_KEPT_BYTES)) {
                Kept oldest = (Kept) all.next();
                all.remove();
                keptBytes -= oldest.poolBytes;
                left.add(oldest);
            }
        }
        for (int i = 0; i < left.size(); i++) {
            ((Kept) left.get(i)).close();
        }
    }

    private static String keyOf(SinkOptions options, String group) {
        return group + " " + options.transactionTimeoutMs + " " + options.producerProperties();
    }
}
