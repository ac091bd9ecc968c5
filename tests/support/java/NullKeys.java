import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Kafka Streams' joins and groupings over the records that standard input gives: topic, key, value, time a
 * line, tabs between them, {@code -} for null. Prints topic, key, value and time of each record that comes out.
 */
public final class NullKeys {
    private static final String[] OUTPUTS = {
        "inner", "left", "outer", "rekeyed-left", "rekeyed-inner", "table", "left-table", "rekeyed-left-table",
        "global", "left-global", "tables", "foreign", "left-foreign", "count", "group", "to-table",
    };

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "null-keys");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[0]);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        try (TopologyTestDriver driver = new TopologyTestDriver(topology().build(), properties)) {
            BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split("\t");
                driver.createInputTopic(words[0], new StringSerializer(), new StringSerializer())
                    .pipeInput(
                        new TestRecord<>(
                            given(words[1]), given(words[2]), Instant.ofEpochMilli(Long.parseLong(words[3]))));
            }
            for (String name : OUTPUTS) {
                TestOutputTopic<String, String> topic =
                    driver.createOutputTopic("out-" + name, new StringDeserializer(), new StringDeserializer());
                while (!topic.isEmpty()) {
                    TestRecord<String, String> record = topic.readRecord();
                    System.out.println(
                        name + "\t" + told(record.key()) + "\t" + told(record.value()) + "\t" + record.timestamp());
                }
            }
        }
    }

    private static StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        Serde<String> text = Serdes.String();
        Consumed<String, String> read = Consumed.with(text, text);
        KStream<String, String> left = builder.stream("in-left", read);
        KStream<String, String> right = builder.stream("in-right", read);
        KTable<String, String> table = builder.table("in-table", read);
        KTable<String, String> other = builder.table("in-other", read);
        GlobalKTable<String, String> global = builder.globalTable("in-global", read);
        KStream<String, String> rekeyed = left.selectKey((key, value) -> key);
        ValueJoiner<String, String, String> both = (one, two) -> told(one) + "|" + told(two);
        JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(10), Duration.ZERO);
        StreamJoined<String, String, String> joined = StreamJoined.with(text, text, text);
        to(left.join(right, both, near, joined), "inner");
        to(left.leftJoin(right, both, near, joined), "left");
        to(left.outerJoin(right, both, near, joined), "outer");
        to(rekeyed.leftJoin(right, both, near, joined), "rekeyed-left");
        to(rekeyed.join(right, both, near, joined), "rekeyed-inner");
        to(left.join(table, both), "table");
        to(left.leftJoin(table, both), "left-table");
        to(rekeyed.leftJoin(table, both, Joined.with(text, text, text)), "rekeyed-left-table");
        to(left.join(global, (key, value) -> key, both), "global");
        to(left.leftJoin(global, (key, value) -> key, both), "left-global");
        to(table.outerJoin(other, both).toStream(), "tables");
        to(table.join(other, NullKeys::foreignKey, both).toStream(), "foreign");
        to(table.leftJoin(other, NullKeys::foreignKey, both).toStream(), "left-foreign");
        to(left.groupByKey(Grouped.with(text, text)).count().toStream().mapValues(String::valueOf), "count");
        to(
            left.groupBy((key, value) -> foreignKey(value), Grouped.with(text, text))
                .count(Materialized.with(text, Serdes.Long()))
                .toStream()
                .mapValues(String::valueOf),
            "group");
        to(left.toTable(Materialized.with(text, text)).toStream(), "to-table");
        return builder;
    }

    /** The letter before the colon; null without one. */
    private static String foreignKey(String value) {
        return value == null || value.startsWith(":") ? null : value.substring(0, value.indexOf(':'));
    }

    private static void to(KStream<String, String> stream, String name) {
        stream.to("out-" + name, Produced.with(Serdes.String(), Serdes.String()));
    }

    private static String told(String text) {
        return text == null ? "-" : text;
    }

    private static String given(String word) {
        return word.equals("-") ? null : word;
    }
}
