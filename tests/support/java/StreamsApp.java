import java.io.FileInputStream;
import java.time.Duration;
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
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts values: reads strings, groups them by value (a repartition topic), counts each in a store (a changelog),
 * writes the counts.
 *
 * Arguments: a properties file, the input topic, the output topic. Says "state X" when its state changes and
 * "failed: ..." when a thread dies; a line "close" on its input closes it, as its end does.
 * Plain old Java: it is compiled by Janino where the Java runtime has no compiler.
 */
public class StreamsApp {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(new FileInputStream(arguments[0]));
        StreamsBuilder builder = new StreamsBuilder();
        KStream input = builder.stream(arguments[1], Consumed.with(Serdes.String(), Serdes.String()));
        KeyValueMapper byValue = new KeyValueMapper() {
            public Object apply(Object key, Object value) {
                return value;
            }
        };
        KTable counts = input
            .groupBy(byValue, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"));
        counts.toStream().to(arguments[2], Produced.with(Serdes.String(), Serdes.Long()));
        final KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
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
        int read = System.in.read();
        while (read >= 0 && read != '\n') {
            read = System.in.read();
        }
        System.out.println("closed " + streams.close(Duration.ofSeconds(60)));
    }
}
