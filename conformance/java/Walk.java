import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Named steps that are carried out in turn, each told in a line of JSON, and what the steps need of the client. */
final class Walk {
    interface Body {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static final long STEP_MS = 45_000;
    static final Duration LONG = Duration.ofSeconds(20);
    static final Duration POLL = Duration.ofMillis(100);

    final String bootstrap;
    private final Map<String, Body> steps = new LinkedHashMap<>();
    private final String suffix = Long.toString(System.nanoTime(), 36);
    private int names = 0;

    Walk(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void step(String name, Body body) {
        if (steps.put(name, body) != null) {
            throw new IllegalArgumentException("two steps are called " + name);
        }
    }

    void go() {
        List<String> plan = new ArrayList<>();
        for (String name : steps.keySet()) {
            plan.add(quoted(name));
        }
        System.out.println("{\"plan\": [" + String.join(", ", plan) + "]}");
        for (Map.Entry<String, Body> step : steps.entrySet()) {
            String error = carriedOut(step.getValue());
            System.out.println("{\"name\": " + quoted(step.getKey()) + ", \"ok\": " + (error == null)
                + ", \"error\": " + quoted(error == null ? "" : error) + "}");
        }
    }

    private static String carriedOut(Body body) {
        CompletableFuture<String> end = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                body.run();
                end.complete("");
            } catch (Throwable problem) {
                Throwable cause = problem instanceof ExecutionException && problem.getCause() != null
                    ? problem.getCause() : problem;
                end.complete(cause.toString() + " " + where(problem));
            }
        }, "step");
        thread.setDaemon(true);
        thread.start();
        try {
            String error = end.get(STEP_MS, TimeUnit.MILLISECONDS);
            return error.isEmpty() ? null : error;
        } catch (TimeoutException slow) {
            return "not done within " + STEP_MS + " ms " + where(thread.getStackTrace());
        } catch (InterruptedException | ExecutionException problem) {
            return problem.toString();
        }
    }

    private static String where(Throwable problem) {
        return where(problem.getStackTrace());
    }

    private static String where(StackTraceElement[] frames) {
        for (StackTraceElement frame : frames) {
            if (frame.getClassName().contains("Steps")) {
                return "(" + frame.getFileName() + ":" + frame.getLineNumber() + ")";
            }
        }
        return "";
    }

    private static String quoted(String text) {
        StringBuilder shown = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                shown.append('\\').append(each);
            } else if (each < ' ') {
                shown.append(' ');
            } else {
                shown.append(each);
            }
        }
        return shown.append('"').toString();
    }

    // --- what steps check ---------------------------------------------------------------------------------------

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object expected, Object found) {
        if (expected == null ? found != null : !expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    /** The call fails with this exception, thrown or as the cause of what is thrown. */
    static void fails(Class<? extends Throwable> expected, Body body) throws Exception {
        try {
            body.run();
        } catch (Throwable problem) {
            for (Throwable each = problem; each != null; each = each.getCause()) {
                if (expected.isInstance(each)) {
                    return;
                }
            }
            throw new AssertionError("expected " + expected.getSimpleName() + ", found " + problem, problem);
        }
        throw new AssertionError("expected " + expected.getSimpleName() + ", and nothing failed");
    }

    /** What was changed is seen everywhere in a moment. */
    static void soon(String what, Condition condition) throws Exception {
        long end = System.nanoTime() + LONG.toNanos();
        Throwable last = null;
        while (System.nanoTime() < end) {
            try {
                if (condition.holds()) {
                    return;
                }
                last = null;
            } catch (Exception | AssertionError problem) {
                last = problem;
            }
            Thread.sleep(50);
        }
        throw new AssertionError("not in time: " + what + (last == null ? "" : " " + last), last);
    }

    // --- what steps use -----------------------------------------------------------------------------------------

    String named(String what) {
        names++;
        return what + "-" + suffix + "-" + names;
    }

    static Map<String, Object> settings(String... pairs) {
        Map<String, Object> found = new HashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            found.put(pairs[i], pairs[i + 1]);
        }
        return found;
    }

    /** What a client needs to get in, and more settings. The way in is told by variables of the environment. */
    Map<String, Object> connecting(String... pairs) {
        Map<String, Object> found = settings("bootstrap.servers", bootstrap);
        Map<String, String> environment = System.getenv();
        if (environment.containsKey("WALK_CA")) {
            found.put("ssl.truststore.type", "PEM");
            found.put("ssl.truststore.location", environment.get("WALK_CA"));
            boolean login = environment.containsKey("WALK_USER");
            found.put("security.protocol", login ? "SASL_SSL" : "SSL");
            if (login) {
                found.put("sasl.mechanism", "SCRAM-SHA-512");
                found.put("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required "
                    + "username=\"" + environment.get("WALK_USER") + "\" "
                    + "password=\"" + environment.get("WALK_PASSWORD") + "\";");
            } else {
                found.put("ssl.keystore.type", "PEM");
                found.put("ssl.keystore.certificate.chain", text(environment.get("WALK_CERTIFICATE")));
                found.put("ssl.keystore.key", text(environment.get("WALK_KEY")));
            }
        }
        found.putAll(settings(pairs));
        return found;
    }

    private static String text(String path) {
        try {
            return Files.readString(Path.of(path));
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    /** The broker has an authorizer; the walk's own user may do everything. */
    boolean secured() {
        return System.getenv().containsKey("WALK_CA");
    }

    /** The walk has a user with a password. */
    boolean loggedIn() {
        return System.getenv().containsKey("WALK_USER");
    }

    Admin admin(String... pairs) {
        return Admin.create(connecting(pairs));
    }

    KafkaProducer<String, String> producer(String... pairs) {
        Map<String, Object> all = connecting("max.block.ms", "20000");
        all.putAll(settings(pairs));
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(String... pairs) {
        Map<String, Object> all = connecting("auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "default.api.timeout.ms", "20000");
        all.putAll(settings(pairs));
        if (!"consumer".equals(all.get("group.protocol"))) {
            // A member hears of a rebalance by its heartbeat; the new protocol takes the broker's interval.
            all.put("heartbeat.interval.ms", "500");
        }
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    /** A new topic, once it can be used. */
    String topic(int partitions, String... configs) throws Exception {
        String name = named("topic");
        Map<String, String> chosen = new HashMap<>();
        for (int i = 0; i < configs.length; i += 2) {
            chosen.put(configs[i], configs[i + 1]);
        }
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(chosen))).all().get();
            soon("topic " + name, () -> admin.describeTopics(List.of(name)).allTopicNames().get().get(name)
                .partitions().stream().filter(each -> each.leader() != null).count() == partitions);
        }
        return name;
    }

    /** Values "0" to the number, round about the partitions. */
    void fill(String topic, int partitions, int count) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, i % partitions, "k" + i, String.valueOf(i)));
            }
            producer.flush();
        }
    }

    /** Poll until this many records have come, or time is up. */
    static List<ConsumerRecord<String, String>> read(Consumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long end = System.nanoTime() + LONG.toNanos();
        while (found.size() < count && System.nanoTime() < end) {
            consumer.poll(POLL).forEach(found::add);
        }
        check(found.size() >= count, found.size() + " records of " + count);
        return found;
    }

    /** All committed records of a topic's partition from its start to its end. */
    List<ConsumerRecord<String, String>> committed(String topic, int partition) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        TopicPartition where = new TopicPartition(topic, partition);
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", "read_committed")) {
            consumer.assign(List.of(where));
            consumer.seekToBeginning(List.of(where));
            long last = consumer.endOffsets(List.of(where)).get(where);
            long end = System.nanoTime() + LONG.toNanos();
            while (consumer.position(where) < last && System.nanoTime() < end) {
                consumer.poll(POLL).forEach(found::add);
            }
            check(consumer.position(where) >= last, "read up to " + consumer.position(where) + " of " + last);
        }
        return found;
    }

    static List<String> values(Collection<ConsumerRecord<String, String>> records) {
        List<String> found = new ArrayList<>();
        for (ConsumerRecord<String, String> each : records) {
            found.add(each.value());
        }
        return found;
    }

    static List<String> sorted(Collection<String> texts) {
        List<String> found = new ArrayList<>(texts);
        Collections.sort(found);
        return found;
    }
}
