import java.io.FileInputStream;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * The pipeline's scenarios as Kafka Streams topologies.
 *
 * Arguments: a properties file, the program (upper, windowed-count, count), the input topic, the output topic.
 * Says "state X" when its state changes. SIGTERM closes it, and it leaves its group: the next start need not wait
 * for its session to time out.
 * Plain old Java: it is compiled by Janino where the Java runtime has no compiler.
 */
public class StreamsPrograms {
    private static final long WINDOW_MS = 60000L;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(new FileInputStream(arguments[0]));
        StreamsBuilder builder = new StreamsBuilder();
        KStream input = builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()));
        if (arguments[1].equals("upper")) {
            upper(input, arguments[3]);
        } else if (arguments[1].equals("windowed-count")) {
            windowedCount(input, arguments[3]);
        } else if (arguments[1].equals("count")) {
            input.groupByKey().count(Materialized.as("counts"))
                .toStream().to(arguments[3], Produced.with(Serdes.String(), Serdes.Long()));
        } else {
            throw new IllegalArgumentException("no program " + arguments[1]);
        }
        run(new KafkaStreams(builder.build(properties), properties));
    }

    private static void upper(KStream input, String output) {
        ValueMapper toUpper = new ValueMapper() {
            public Object apply(Object value) {
                return ((String) value).toUpperCase();
            }
        };
        input.mapValues(toUpper).to(output, Produced.with(Serdes.String(), Serdes.String()));
    }

    private static void windowedCount(KStream input, String output) {
        Duration size = Duration.ofMillis(WINDOW_MS);
        input.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .windowedBy(TimeWindows.ofSizeAndGrace(size, size))
            .count(Materialized.as("counts"))
            .toStream()
            .to(output, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW_MS), Serdes.Long()));
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
        Runtime.getRuntime().addShutdownHook(new Thread() {
            public void run() {
                streams.close(CloseOptions.timeout(Duration.ofSeconds(100))
                    .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
            }
        });
        streams.start();
    }
}
