package ottla.audit;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Audits a Java producer: gives each record its mark, and reports to `_audit` how many were sent.
 *
 * <p>Marks and reports are those of ottla's producers in Python: instance, stream, bucket and sequence. A record
 * counts as sent when `send` was called: an interceptor can't take a number back when the producer then has no
 * room, so such a record is named lost, as `send` said that it failed. An interceptor hears nothing of commits
 * and aborts either, so a transactional producer is refused rather than counted wrongly.
 *
 * <p>Reports go by a producer of their own, from a daemon thread; whatever fails there is told by the next
 * report, since they are cumulative, and never fails the producer.
 */
public final class AuditInterceptor implements ProducerInterceptor<Object, Object> {
    private static final String PREFIX = "ottla.audit.";
    private static final String HEADER = "ottla-audit";
    private static final byte VERSION = 1;
    private static final int MOST_SEQUENCES = 1 << 26;
    private static final int MOST_SLOTS = 100_000;
    private static final int MOST_NAME = 255;
    private static final long LAST_BUCKET_MS = ((1L << 32) - 1) * 1_000;
    private static final long CLOSE_SECONDS = 10;

    private final Object reporting = new Object();
    private final UUID instance = UUID.randomUUID();
    private final Map<String, Slot> newest = new HashMap<>();
    private final Map<String, Map<Long, Slot>> slots = new HashMap<>();
    private final Map<String, Integer> streamOf = new HashMap<>();
    private final List<Slot> ended = new ArrayList<>();
    private int streams;
    private int kept;
    private long number;

    private String tier;
    private String host;
    private String client;
    private String topic;
    private long bucketMs;
    private long intervalMs;
    private Map<String, Object> connection;
    private KafkaProducer<byte[], byte[]> sender;
    private Thread thread;
    private String problem = "";
    private boolean closed;

    /** One bucket of one stream. sent: the sequence of its next record. */
    private static final class Slot {
        final String topic;
        final int stream;
        final long startMs;
        int sent;
        int reported;

        Slot(String topic, int stream, long startMs) {
            this.topic = topic;
            this.stream = stream;
            this.startMs = startMs;
        }
    }

    /** What is told of a slot: `sent` as it was when the report was made. */
    private static final class Report {
        final Slot slot;
        final int sent;
        final byte[] key;
        final byte[] value;

        Report(Slot slot, byte[] key, byte[] value) {
            this.slot = slot;
            this.sent = slot.sent;
            this.key = key;
            this.value = value;
        }
    }

    @Override
    public void configure(Map<String, ?> configs) {
        tier = text(configs, PREFIX + "tier", null);
        if (tier == null || tier.isEmpty() || tier.length() > MOST_NAME) {
            throw new ConfigException(PREFIX + "tier", tier, "the name of the tier, of 1 to 255 characters, is needed");
        }
        if (configs.get("transactional.id") != null) {
            throw new ConfigException(
                    "transactional.id", configs.get("transactional.id"),
                    "an interceptor hears of no aborts, so the audit can't count a transactional producer");
        }
        host = shortened(text(configs, PREFIX + "host", hostName()));
        client = shortened(text(configs, "client.id", ""));
        topic = text(configs, PREFIX + "topic", "_audit");
        bucketMs = whole(configs, PREFIX + "bucket.ms", 600_000, 1_000, 86_400_000);
        if (bucketMs % 1_000 != 0) {
            throw new ConfigException(PREFIX + "bucket.ms", bucketMs, "a bucket has whole seconds");
        }
        intervalMs = whole(configs, PREFIX + "report.interval.ms", 30_000, 100, 3_600_000);
        connection = new HashMap<>();
        for (Map.Entry<String, ?> one : configs.entrySet()) {
            String name = one.getKey();
            if (name.equals("bootstrap.servers") || name.startsWith("security.") || name.startsWith("sasl.")
                    || name.startsWith("ssl.")) {
                connection.put(name, one.getValue());
            }
        }
        connection.put("client.id", (client.isEmpty() ? "ottla" : client) + "-audit");
        thread = new Thread(this::reportForEver, "ottla-audit");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public ProducerRecord<Object, Object> onSend(ProducerRecord<Object, Object> record) {
        long timestamp = record.timestamp() == null ? System.currentTimeMillis() : record.timestamp();
        // a copy: the headers of a record that is sent again can't be changed
        Headers headers = new RecordHeaders(record.headers());
        headers.remove(HEADER);
        headers.add(HEADER, mark(record.topic(), timestamp));
        return new ProducerRecord<>(
                record.topic(), record.partition(), timestamp, record.key(), record.value(), headers);
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {}

    @Override
    public void close() {
        synchronized (this) {
            if (closed || thread == null) {
                return;
            }
            closed = true;
        }
        thread.interrupt();
        boolean interrupted = false;
        try {
            thread.join(TimeUnit.SECONDS.toMillis(CLOSE_SECONDS));
        } catch (InterruptedException stop) {
            interrupted = true;
        }
        report(true);
        synchronized (reporting) {
            if (sender != null) {
                sender.close(Duration.ofSeconds(CLOSE_SECONDS));
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    // -- counting

    private synchronized byte[] mark(String to, long timestamp) {
        Slot slot = newest.get(to);
        if (slot == null || timestamp < slot.startMs || timestamp >= slot.startMs + bucketMs
                || slot.sent >= MOST_SEQUENCES) {
            slot = slot(to, timestamp);
        }
        return ByteBuffer.allocate(29)
                .put(VERSION)
                .putLong(instance.getMostSignificantBits())
                .putLong(instance.getLeastSignificantBits())
                .putInt(slot.stream)
                .putInt((int) (slot.startMs / 1_000))
                .putInt(slot.sent++)
                .array();
    }

    private Slot slot(String to, long timestamp) {
        long startMs = Math.min(Math.max(timestamp, 0), LAST_BUCKET_MS) / bucketMs * bucketMs;
        Map<Long, Slot> ofTopic = slots.computeIfAbsent(to, name -> new HashMap<>());
        Slot slot = ofTopic.get(startMs);
        if (slot != null && slot.sent >= MOST_SEQUENCES) {
            ended.add(slot);
            streamOf.remove(to);
            slot = null;
        }
        if (slot == null) {
            int stream = streamOf.computeIfAbsent(to, name -> streams++);
            slot = new Slot(to, stream, startMs);
            if (ofTopic.put(startMs, slot) == null) {
                kept++;
            }
        }
        newest.put(to, slot);
        return slot;
    }

    /** What has changed since it was told; all of it for the last time if `last`. */
    private synchronized List<Report> reports(boolean last) {
        List<Slot> all = new ArrayList<>(ended);
        slots.values().forEach(each -> all.addAll(each.values()));
        List<Report> found = new ArrayList<>();
        for (Slot slot : all) {
            if (slot.sent > (last ? 0 : slot.reported)) {
                String key = instance + "/" + slot.stream + "/" + slot.startMs;
                String value = "{\"v\":" + VERSION + ",\"tier\":" + quoted(tier) + ",\"host\":" + quoted(host)
                        + ",\"client\":" + quoted(client) + ",\"topic\":" + quoted(slot.topic)
                        + ",\"instance\":\"" + instance + "\",\"stream\":" + slot.stream
                        + ",\"bucket_start_ms\":" + slot.startMs + ",\"bucket_ms\":" + bucketMs
                        + ",\"sent\":" + slot.sent + ",\"number\":" + ++number
                        + ",\"at_ms\":" + System.currentTimeMillis() + ",\"final\":" + last + "}";
                found.add(new Report(
                        slot, key.getBytes(StandardCharsets.UTF_8), value.getBytes(StandardCharsets.UTF_8)));
            }
        }
        return found;
    }

    /** These reports are in the topic; where too much is kept, what is told is forgotten, the oldest half. */
    private synchronized void told(List<Report> reports) {
        for (Report one : reports) {
            one.slot.reported = Math.max(one.slot.reported, one.sent);
        }
        ended.removeIf(slot -> slot.reported == slot.sent);
        if (kept <= MOST_SLOTS) {
            return;
        }
        List<Slot> old = new ArrayList<>();
        slots.values().forEach(each -> each.values().forEach(slot -> {
            if (slot.reported == slot.sent) {
                old.add(slot);
            }
        }));
        old.sort((one, other) -> Long.compare(one.startMs, other.startMs));
        for (Slot slot : old.subList(0, Math.min(old.size(), MOST_SLOTS / 2))) {
            slots.get(slot.topic).remove(slot.startMs);
            // a topic that comes back has a new stream, so that no sequence is given twice
            newest.remove(slot.topic);
            streamOf.remove(slot.topic);
            kept--;
        }
        slots.values().removeIf(Map::isEmpty);
    }

    // -- reporting

    private void reportForEver() {
        try {
            while (true) {
                Thread.sleep(intervalMs);
                report(false);
            }
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
    }

    private void report(boolean last) {
        synchronized (reporting) {
            send(reports(last));
        }
    }

    private void send(List<Report> reports) {
        if (reports.isEmpty()) {
            return;
        }
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(CLOSE_SECONDS);
        List<Report> acknowledged = Collections.synchronizedList(new ArrayList<>());
        try {
            if (sender == null) {
                sender = newSender();
            }
            for (Report one : reports) {
                if (System.nanoTime() - until > 0) {
                    break; // a cluster that is away: each would wait, and the next round tells all
                }
                sender.send(new ProducerRecord<>(topic, one.key, one.value), (metadata, failure) -> {
                    if (failure == null) {
                        acknowledged.add(one);
                    } else {
                        complain(failure);
                    }
                });
            }
            sender.flush();
        } catch (RuntimeException failure) {
            complain(failure);
        }
        synchronized (acknowledged) {
            told(acknowledged);
        }
    }

    private KafkaProducer<byte[], byte[]> newSender() {
        try (Admin admin = Admin.create(connection)) {
            NewTopic wanted = new NewTopic(topic, Optional.of(1), Optional.empty())
                    .configs(Map.of("cleanup.policy", "compact,delete", "retention.ms", "604800000"));
            admin.createTopics(List.of(wanted)).all().get(CLOSE_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        } catch (Exception mayBeThere) {
            // it is there, or others make it: sending tells if not
        }
        Map<String, Object> settings = new HashMap<>(connection);
        settings.put("acks", "all");
        settings.put("enable.idempotence", true);
        settings.put("linger.ms", 50);
        settings.put("max.block.ms", 5_000);
        settings.put("delivery.timeout.ms", 10_000);
        settings.put("request.timeout.ms", 5_000);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void complain(Exception failure) {
        String words = String.valueOf(failure.getMessage());
        synchronized (this) {
            if (words.equals(problem)) {
                return;
            }
            problem = words;
        }
        System.getLogger("ottla.audit").log(
                System.Logger.Level.WARNING,
                "a report to {0} is not sent, later ones will tell it: {1}", topic, words);
    }

    // -- settings

    private static String text(Map<String, ?> configs, String name, String otherwise) {
        Object value = configs.get(name);
        return value == null ? otherwise : value.toString();
    }

    private static long whole(Map<String, ?> configs, String name, long otherwise, long least, long most) {
        String text = text(configs, name, Long.toString(otherwise)).trim();
        try {
            long value = Long.parseLong(text);
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException malformed) {
            // told below
        }
        throw new ConfigException(name, text, "a whole number from " + least + " to " + most + " is needed");
    }

    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException nameless) {
            return "unknown";
        }
    }

    private static String shortened(String text) {
        return text.length() <= MOST_NAME ? text : text.substring(0, MOST_NAME);
    }

    private static String quoted(String text) {
        StringBuilder written = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one == '"' || one == '\\') {
                written.append('\\').append(one);
            } else if (one < ' ' || Character.isSurrogate(one)) {
                written.append(String.format("\\u%04x", (int) one));
            } else {
                written.append(one);
            }
        }
        return written.append('"').toString();
    }
}
