import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileInputStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * The examples of examples/streams/ as Kafka Streams topologies, in one application: what they are compared with.
 *
 * Argument: a properties file. Reads the examples' input topics and writes to theirs with "java-" before.
 * Says "state X" when its state changes; a line on its input, or that input's end, closes it.
 * Plain old Java: it is compiled by Janino where the Java runtime has no compiler.
 */
public class StreamsFidelity {
    private static final Duration WINDOW = Duration.ofMinutes(1);
    private static final Duration GRACE = Duration.ofSeconds(30);
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(new FileInputStream(arguments[0]));
        StreamsBuilder builder = new StreamsBuilder();
        wordCount(builder, "lines", "java-word-counts");
        pageViews(builder, "page-views", "users", "java-region-views");
        anomalies(builder, "clicks", "java-anomalies");
        run(new KafkaStreams(builder.build(properties), properties));
    }

    private static void wordCount(StreamsBuilder builder, String lines, String counts) {
        ValueMapper words = new ValueMapper() {
            public Object apply(Object line) {
                return Arrays.asList(((String) line).toLowerCase().split("\\W+"));
            }
        };
        KeyValueMapper byWord = new KeyValueMapper() {
            public Object apply(Object key, Object word) {
                return word;
            }
        };
        Predicate notEmpty = new Predicate() {
            public boolean test(Object key, Object word) {
                return !((String) word).isEmpty();
            }
        };
        KStream input = builder.stream(lines, Consumed.with(Serdes.String(), Serdes.String()));
        input.flatMapValues(words)
            .filter(notEmpty)
            .groupBy(byWord, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("words"))
            .toStream()
            .to(counts, Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static void pageViews(StreamsBuilder builder, String views, String users, String counts) {
        ValueJoiner regionOf = new ValueJoiner() {
            public Object apply(Object view, Object user) {
                try {
                    return JSON.readTree((String) user).get("region").asText();
                } catch (Exception malformed) {
                    throw new IllegalStateException(malformed);
                }
            }
        };
        KeyValueMapper byRegion = new KeyValueMapper() {
            public Object apply(Object user, Object region) {
                return region;
            }
        };
        KTable regions = builder.table(users, Consumed.with(Serdes.String(), Serdes.String()));
        KStream pages = builder.stream(views, Consumed.with(Serdes.String(), Serdes.String()));
        pages.join(regions, regionOf)
            .groupBy(byRegion, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("regions"))
            .toStream()
            .to(counts, Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static void anomalies(StreamsBuilder builder, String clicks, String anomalies) {
        Predicate threeOrMore = new Predicate() {
            public boolean test(Object user, Object count) {
                return ((Long) count).longValue() >= 3;
            }
        };
        KStream input = builder.stream(clicks, Consumed.with(Serdes.String(), Serdes.String()));
        input.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
            .count(Materialized.with(Serdes.String(), Serdes.Long()))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .filter(threeOrMore)
            .to(anomalies, Produced.with(
                WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), Serdes.Long()));
    }

    private static void run(final KafkaStreams streams) throws Exception {
        streams.setStateListener(new KafkaStreams.StateListener() {
            public void onChange(KafkaStreams.State newState, KafkaStreams.State oldState) {
                System.out.println("state " + newState);
            }
        });
        streams.setUncaughtExceptionHandler(new StreamsUncaughtExceptionHandler() {
            public StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse handle(Throwable failure) {
                System.out.println("failed: " + failure);
                return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            }
        });
        streams.start();
        System.in.read();
        System.out.println("closed " + streams.close(Duration.ofSeconds(60)));
    }
}
