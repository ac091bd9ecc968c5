import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/**
 * Runs the task of one of Debezium's connectors, whose class is the second argument, without Kafka, from no
 * offset, and prints each record as a line of JSON in the form of ConnectOracle. The end of standard input ends it.
 */
public class DebeziumSource {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream records = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        Map<String, String> config = JSON.readValue(arguments[0], new TypeReference<Map<String, String>>() {});
        SourceTask task = (SourceTask) Class.forName(arguments[1]).getDeclaredConstructor().newInstance();
        task.initialize(new NoOffsets(config));
        task.start(config);
        Thread ending = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException closed) {
                System.err.println(closed);
            }
            task.stop();
            System.exit(0);
        });
        ending.setDaemon(true);
        ending.start();
        while (true) {
            List<SourceRecord> found = task.poll();
            if (found == null) {
                continue;
            }
            for (SourceRecord each : found) {
                records.println(JSON.writeValueAsString(told(each)));
            }
        }
    }

    private static ObjectNode told(SourceRecord record) {
        ObjectNode told = JSON.createObjectNode();
        told.put("topic", record.topic());
        told.put("partition", record.kafkaPartition());
        told.set("keySchema", ConnectOracle.told(record.keySchema()));
        told.set("key", ConnectOracle.told(record.key()));
        told.set("valueSchema", ConnectOracle.told(record.valueSchema()));
        told.set("value", ConnectOracle.told(record.value()));
        told.put("timestamp", record.timestamp());
        ArrayNode headers = told.putArray("headers");
        for (Header each : record.headers()) {
            headers.addArray()
                    .add(each.key())
                    .add(ConnectOracle.told(each.schema()))
                    .add(ConnectOracle.told(each.value()));
        }
        told.set("sourcePartition", JSON.valueToTree(record.sourcePartition()));
        told.set("sourceOffset", JSON.valueToTree(record.sourceOffset()));
        return told;
    }

    private record NoOffsets(Map<String, String> configs) implements SourceTaskContext, OffsetStorageReader {
        @Override
        public OffsetStorageReader offsetStorageReader() {
            return this;
        }

        @Override
        public PluginMetrics pluginMetrics() {
            return null;
        }

        @Override
        public <T> Map<String, Object> offset(Map<String, T> partition) {
            return null;
        }

        @Override
        public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
            return new HashMap<>();
        }
    }
}
