import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/*
 * Many clients of Kafka's own library in one process, for bench/connection_clients.py: Producers, Consumers, Rereader.
 *
 * Each prints {"ready": ...} once its clients are connected, then answers each line of its standard input with one
 * line of JSON, and ends when its input does. A failure of any client prints {"failed": ...} and ends the process.
 * Arguments are name=value: those in capitals are the program's, the others the clients' own properties.
 * Written for Janino: no lambdas, no generic types.
 */

/** What the three have in common: arguments, answers, failures. */
class Program {
    private static final int FAILED = 3;
    final Properties properties = new Properties();

    Program(String[] arguments) {
        for (int index = 0; index < arguments.length; index++) {
            int at = arguments[index].indexOf('=');
            properties.setProperty(arguments[index].substring(0, at), arguments[index].substring(at + 1));
        }
    }

    String take(String name) {
        String value = (String) properties.remove(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is missing");
        }
        return value;
    }

    int takeNumber(String name) {
        return Integer.parseInt(take(name));
    }

    Properties withClientId(String clientId) {
        Properties copy = new Properties();
        copy.putAll(properties);
        copy.setProperty("client.id", properties.getProperty("client.id", "") + clientId);
        return copy;
    }

    static synchronized void say(String json) {
        System.out.println(json);
        System.out.flush();
    }

    static void fail(Throwable failure) {
        failure.printStackTrace();
        say("{\"failed\": \"" + failure.toString().replace('\\', '/').replace('"', '\'').replace('\n', ' ') + "\"}");
        Runtime.getRuntime().halt(FAILED);
    }

    /** A metric of the client as a whole (its only tag is the client's id), NaN where there is none. */
    static double metric(Collection metrics, String group, String name) {
        for (Iterator each = metrics.iterator(); each.hasNext();) {
            Metric metric = (Metric) each.next();
            MetricName found = metric.metricName();
            if (found.name().equals(name) && found.group().equals(group) && found.tags().size() == 1) {
                return ((Number) metric.metricValue()).doubleValue();
            }
        }
        return Double.NaN;
    }
}

/** Nanoseconds, added by one thread and taken by another. */
class Samples {
    private long[] values = new long[1024];
    private int size;

    synchronized void add(long value) {
        if (size == values.length) {
            values = Arrays.copyOf(values, 2 * size);
        }
        values[size++] = value;
    }

    synchronized long[] takeAll() {
        long[] taken = Arrays.copyOf(values, size);
        size = 0;
        return taken;
    }

    static void clear(Samples[] all) {
        for (int index = 0; index < all.length; index++) {
            all[index].takeAll();
        }
    }

    /** The samples of all as members of a JSON object: how many, and the nearest ranks in milliseconds. */
    static String describe(Samples[] all) {
        long[][] parts = new long[all.length][];
        int count = 0;
        for (int index = 0; index < all.length; index++) {
            parts[index] = all[index].takeAll();
            count += parts[index].length;
        }
        long[] merged = new long[count];
        int at = 0;
        for (int index = 0; index < all.length; index++) {
            System.arraycopy(parts[index], 0, merged, at, parts[index].length);
            at += parts[index].length;
        }
        Arrays.sort(merged);
        return "\"count\": " + count + ", \"p50_ms\": " + rank(merged, 0.5) + ", \"p99_ms\": " + rank(merged, 0.99);
    }

    private static String rank(long[] sorted, double fraction) {
        if (sorted.length == 0) {
            return "null";
        }
        return String.valueOf(sorted[(int) Math.ceil(fraction * sorted.length) - 1] / 1e6);
    }
}

/**
 * PRODUCERS producers, a connection each, every one to its own partition (of PARTITIONS, in a ring) of TOPIC, with
 * records of RECORD_BYTES.
 *
 * "load N WINDOW" waits for what is unacknowledged and lets the first N begin. RATE=0: each keeps WINDOW records
 * unacknowledged, the next is sent by the callback of the last. Else each sends RATE records a second by the clock.
 * "run SECONDS" lets them go on for so long; "measure SECONDS" counts the acknowledgements meanwhile, with the time
 * from send() to each; "stop" ends all and tells how many records were acknowledged since the start.
 */
public class Producers {
    static volatile boolean running;
    static volatile boolean counting;

    public static void main(String[] arguments) throws Exception {
        Program program = new Program(arguments);
        String topic = program.take("TOPIC");
        int partitions = program.takeNumber("PARTITIONS");
        int recordBytes = program.takeNumber("RECORD_BYTES");
        int rate = program.takeNumber("RATE");
        Load[] loads = new Load[program.takeNumber("PRODUCERS")];
        Samples[] samples = new Samples[loads.length];
        for (int number = 0; number < loads.length; number++) {
            KafkaProducer producer = new KafkaProducer(
                program.withClientId("producer-" + number), new ByteArraySerializer(), new ByteArraySerializer());
            producer.partitionsFor(topic);
            samples[number] = new Samples();
            loads[number] = new Load(producer, topic, number % partitions, recordBytes, rate, samples[number]);
        }
        Program.say("{\"ready\": " + loads.length + "}");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("stop")) {
                Program.say(stop(loads));
            } else if (words[0].equals("load")) {
                drain(loads);
                running = true;
                int count = Integer.parseInt(words[1]);
                for (int number = 0; number < count; number++) {
                    loads[number].begin(Integer.parseInt(words[2]));
                }
                Program.say("{\"loaded\": " + count + "}");
            } else {
                Samples.clear(samples);
                counting = words[0].equals("measure");
                long began = System.nanoTime();
                Thread.sleep((long) (1000 * Double.parseDouble(words[1])));
                counting = false;
                long took = System.nanoTime() - began;
                Program.say("{\"seconds\": " + took / 1e9 + ", " + Samples.describe(samples) + "}");
            }
        }
    }

    private static void drain(Load[] loads) throws Exception {
        running = false;
        for (int number = 0; number < loads.length; number++) {
            loads[number].end();
        }
    }

    private static String stop(Load[] loads) throws Exception {
        drain(loads);
        long acknowledged = 0;
        double perRequest = 0;
        for (int number = 0; number < loads.length; number++) {
            acknowledged += loads[number].acknowledged();
            double found = Program.metric(
                loads[number].producer.metrics().values(), "producer-metrics", "records-per-request-avg");
            perRequest = Math.max(perRequest, Double.isNaN(found) ? 0 : found);
            loads[number].producer.close(Duration.ofSeconds(30));
        }
        return "{\"acknowledged\": " + acknowledged + ", \"records_per_request\": " + perRequest + "}";
    }
}

class Load implements Runnable {
    final KafkaProducer producer;
    private final ProducerRecord record;
    private final int rate;
    private final Samples samples;
    private final AtomicInteger unacknowledged = new AtomicInteger();
    private volatile long acknowledged;
    private Thread pacer;

    Load(KafkaProducer producer, String topic, int partition, int recordBytes, int rate, Samples samples) {
        byte[] value = new byte[recordBytes];
        Arrays.fill(value, (byte) 'x');
        this.producer = producer;
        this.record = new ProducerRecord(topic, Integer.valueOf(partition), null, value);
        this.rate = rate;
        this.samples = samples;
    }

    void begin(int window) {
        if (rate > 0) {
            pacer = new Thread(this);
            pacer.setDaemon(true);
            pacer.start();
        } else {
            for (int number = 0; number < window; number++) {
                send();
            }
        }
    }

    public void run() {
        long began = System.nanoTime();
        for (long number = 0; Producers.running; number++) {
            long due = began + number * 1000000000L / rate;
            for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            send();
        }
    }

    void send() {
        unacknowledged.incrementAndGet();
        producer.send(record, new Sent(this, System.nanoTime()));
    }

    void acknowledge(long began, Exception failure) {
        if (failure != null) {
            Program.fail(failure);
        }
        if (Producers.counting) {
            samples.add(System.nanoTime() - began);
        }
        acknowledged++;
        if (rate == 0 && Producers.running) {
            send();
        }
        unacknowledged.decrementAndGet();
    }

    long acknowledged() {
        return acknowledged;
    }

    /** Wait for the last acknowledgement. */
    void end() throws Exception {
        if (pacer != null) {
            pacer.join();
        }
        long deadline = System.nanoTime() + 30000000000L;
        while (unacknowledged.get() > 0) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(unacknowledged.get() + " records are not acknowledged");
            }
            Thread.sleep(1);
        }
    }
}

class Sent implements Callback {
    private final Load load;
    private final long began;

    Sent(Load load, long began) {
        this.load = load;
        this.began = began;
    }

    public void onCompletion(RecordMetadata metadata, Exception failure) {
        load.acknowledge(began, failure);
    }
}

/**
 * CONSUMERS consumers of TOPIC, each in a thread of its own that waits in poll(). GROUPS=0: each reads partition 0
 * from its end on, alone. Else they are members of so many groups, and ready when every one has a partition.
 *
 * "idle SECONDS" waits and tells how many fetches were answered: the fewest to a consumer, and in all.
 * "trickle RATE SECONDS" writes so many records of RECORD_BYTES a second, each read by every consumer.
 * "flood SECONDS" writes the next when every consumer has the last.
 * Both tell the deliveries counted and the time from send() to each one's return from poll().
 */
public class Consumers {
    /** So many connect at a time: a thousand at once on two cores is a stampede that nobody measures. */
    static final Semaphore CONNECTING = new Semaphore(32);
    static final CountDownLatch PENDING = new CountDownLatch(1);
    static final AtomicInteger NOT_READY = new AtomicInteger();
    static final AtomicInteger UNDELIVERED = new AtomicInteger();
    static volatile Thread writer;

    public static void main(String[] arguments) throws Exception {
        Program program = new Program(arguments);
        String topic = program.take("TOPIC");
        int groups = program.takeNumber("GROUPS");
        int recordBytes = program.takeNumber("RECORD_BYTES");
        Reading[] readings = new Reading[program.takeNumber("CONSUMERS")];
        Samples[] samples = new Samples[readings.length];
        NOT_READY.set(readings.length);
        for (int number = 0; number < readings.length; number++) {
            Properties properties = program.withClientId("consumer-" + number);
            if (groups > 0) {
                properties.setProperty("group.id", "group-" + number % groups);
            }
            samples[number] = new Samples();
            readings[number] = new Reading(properties, topic, samples[number]);
            readings[number].start();
        }
        PENDING.await();
        KafkaProducer producer = producer(program.properties.getProperty("bootstrap.servers"));
        producer.partitionsFor(topic);
        Program.say("{\"ready\": " + readings.length + "}");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("idle")) {
                Program.say(idle(readings, Double.parseDouble(words[1])));
            } else {
                boolean flood = words[0].equals("flood");
                int rate = flood ? 0 : Integer.parseInt(words[1]);
                double seconds = Double.parseDouble(words[words.length - 1]);
                Program.say(write(producer, topic, recordBytes, rate, seconds, samples));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static KafkaProducer producer(String bootstrap) {
        Properties properties = new Properties();
        properties.setProperty("bootstrap.servers", bootstrap);
        properties.setProperty("acks", "1");
        properties.setProperty("linger.ms", "0");
        return new KafkaProducer(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static String idle(Reading[] readings, double seconds) throws Exception {
        double[] before = new double[readings.length];
        for (int number = 0; number < readings.length; number++) {
            before[number] = readings[number].fetches();
        }
        Thread.sleep((long) (1000 * seconds));
        double all = 0;
        double fewest = Double.MAX_VALUE;
        for (int number = 0; number < readings.length; number++) {
            double fetches = readings[number].fetches() - before[number];
            all += fetches;
            fewest = Math.min(fewest, fetches);
        }
        return "{\"fewest_fetches\": " + (long) fewest + ", \"fetches\": " + (long) all + "}";
    }

    private static String write(
        KafkaProducer producer, String topic, int recordBytes, int rate, double seconds, Samples[] samples
    ) throws Exception {
        writer = Thread.currentThread();
        Samples.clear(samples);
        long began = System.nanoTime();
        long end = began + (long) (1e9 * seconds);
        long last = began;
        int records = 0;
        while (last < end) {
            if (rate > 0) {
                sleepUntil(began + records * 1000000000L / rate);
            }
            UNDELIVERED.addAndGet(samples.length);
            byte[] value = new byte[recordBytes];
            ByteBuffer.wrap(value).putLong(System.nanoTime());
            producer.send(new ProducerRecord(topic, Integer.valueOf(0), null, value));
            records++;
            if (rate == 0) {
                awaitDeliveries();
            }
            last = System.nanoTime();
        }
        awaitDeliveries();
        double took = (System.nanoTime() - began) / 1e9;
        return "{\"records\": " + records + ", \"seconds\": " + took + ", " + Samples.describe(samples) + "}";
    }

    private static void sleepUntil(long due) {
        for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private static void awaitDeliveries() {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (UNDELIVERED.get() > 0) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(UNDELIVERED.get() + " deliveries are missing");
            }
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1));
        }
    }
}

class Reading extends Thread implements ConsumerRebalanceListener {
    private final Properties properties;
    private final String topic;
    private final Samples samples;
    private KafkaConsumer consumer;
    private boolean ready;

    Reading(Properties properties, String topic, Samples samples) {
        this.properties = properties;
        this.topic = topic;
        this.samples = samples;
        setDaemon(true);
    }

    public void run() {
        try {
            Consumers.CONNECTING.acquire();
            connect();
            Consumers.CONNECTING.release();
            while (true) {
                read(consumer.poll(Duration.ofSeconds(60)));
            }
        } catch (Throwable failure) {
            Program.fail(failure);
        }
    }

    private void connect() {
        consumer = new KafkaConsumer(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (properties.containsKey("group.id")) {
            consumer.partitionsFor(topic);
            consumer.subscribe(Collections.singleton(topic), this);
        } else {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(Collections.singleton(partition));
            consumer.seekToEnd(Collections.singleton(partition));
            consumer.position(partition);
            becomeReady();
        }
    }

    private void read(ConsumerRecords records) {
        long now = System.nanoTime();
        for (Iterator each = records.iterator(); each.hasNext();) {
            samples.add(now - ByteBuffer.wrap((byte[]) ((ConsumerRecord) each.next()).value()).getLong());
            if (Consumers.UNDELIVERED.decrementAndGet() == 0) {
                LockSupport.unpark(Consumers.writer);
            }
        }
    }

    /** Told once: a group may take a partition away again while others join. */
    private void becomeReady() {
        if (!ready) {
            ready = true;
            if (Consumers.NOT_READY.decrementAndGet() == 0) {
                Consumers.PENDING.countDown();
            }
        }
    }

    public void onPartitionsAssigned(Collection partitions) {
        if (!partitions.isEmpty()) {
            becomeReady();
        }
    }

    public void onPartitionsRevoked(Collection partitions) {
    }

    double fetches() {
        double found = Program.metric(consumer.metrics().values(), "consumer-fetch-manager-metrics", "fetch-total");
        return Double.isNaN(found) ? 0 : found;
    }
}

/**
 * One consumer that reads the first RECORDS records of partition 0 of TOPIC from the beginning, again and again.
 *
 * "run SECONDS" reads for so long, and tells the records and bytes (of values) that it got.
 */
public class Rereader {
    public static void main(String[] arguments) throws Exception {
        Program program = new Program(arguments);
        TopicPartition partition = new TopicPartition(program.take("TOPIC"), 0);
        long end = Long.parseLong(program.take("RECORDS"));
        KafkaConsumer consumer = new KafkaConsumer(
            program.properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(Collections.singleton(partition));
        long expected = 0;
        consumer.seek(partition, 0L);
        Object found = consumer.endOffsets(Collections.singleton(partition)).get(partition);
        if (((Long) found).longValue() < end) {
            throw new IllegalStateException("the partition ends at " + found + ", before " + end);
        }
        Program.say("{\"ready\": 1}");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            long began = System.nanoTime();
            long until = began + (long) (1e9 * Double.parseDouble(line.split(" ")[1]));
            long records = 0;
            long bytes = 0;
            while (System.nanoTime() < until) {
                Iterator each = consumer.poll(Duration.ofSeconds(10)).iterator();
                for (; each.hasNext() && expected < end; expected++) {
                    ConsumerRecord record = (ConsumerRecord) each.next();
                    if (record.offset() != expected) {
                        throw new IllegalStateException("offset " + record.offset() + ", not " + expected);
                    }
                    records++;
                    bytes += ((byte[]) record.value()).length;
                }
                if (expected == end) {
                    expected = 0;
                    consumer.seek(partition, 0L);
                }
            }
            double took = (System.nanoTime() - began) / 1e9;
            Program.say("{\"seconds\": " + took + ", \"records\": " + records + ", \"bytes\": " + bytes + "}");
        }
    }
}
