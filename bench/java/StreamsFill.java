import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Fills a topic for the pipeline's scenarios, the same for the same arguments.
 *
 * Arguments: bootstrap, topic, records, keys, value bytes, first timestamp, timestamps' span in ms, order, form.
 * Order is "random" (a key drawn from `keys` for each record) or "once" (keys one after the other).
 * Keys are "key-" and nine digits; values are random small letters, or with the form "json" objects with such
 * a text as NAME and the record's number modulo 100 as MS; timestamps rise evenly over the span.
 * Plain old Java: it is compiled by Janino where the Java runtime has no compiler.
 */
public class StreamsFill {
    private static final int DIFFERENT_VALUES = 1000;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("compression.type", "lz4");
        properties.put("linger.ms", "20");
        properties.put("batch.size", "131072");
        String topic = arguments[1];
        long records = Long.parseLong(arguments[2]);
        int keys = Integer.parseInt(arguments[3]);
        byte[][] values = values(Integer.parseInt(arguments[4]), arguments[8].equals("json"));
        long begin = Long.parseLong(arguments[5]);
        long span = Long.parseLong(arguments[6]);
        boolean random = arguments[7].equals("random");
        Random numbers = new Random(8);
        final AtomicReference failure = new AtomicReference();
        Callback callback = new Callback() {
            public void onCompletion(RecordMetadata metadata, Exception exception) {
                if (exception != null) {
                    failure.set(exception);
                }
            }
        };
        KafkaProducer producer = new KafkaProducer(properties);
        for (long number = 0; number < records && failure.get() == null; number++) {
            int key = random ? numbers.nextInt(keys) : (int) (number % keys);
            Long timestamp = Long.valueOf(begin + number * span / records);
            byte[] value = values[(int) (number % DIFFERENT_VALUES)];
            producer.send(new ProducerRecord(topic, null, timestamp, key(key), value), callback);
        }
        producer.close();
        if (failure.get() != null) {
            System.out.println("failed: " + failure.get());
            System.exit(1);
        }
        System.out.println("filled " + records);
    }

    private static byte[] key(int number) {
        byte[] key = "key-000000000".getBytes(StandardCharsets.ISO_8859_1);
        for (int place = key.length - 1; number > 0; place--) {
            key[place] = (byte) ('0' + number % 10);
            number /= 10;
        }
        return key;
    }

    private static byte[][] values(int size, boolean json) {
        Random letters = new Random(100);
        byte[][] values = new byte[DIFFERENT_VALUES][size];
        for (int value = 0; value < values.length; value++) {
            for (int place = 0; place < size; place++) {
                values[value][place] = (byte) ('a' + letters.nextInt(26));
            }
            if (json) {
                String name = new String(values[value], StandardCharsets.ISO_8859_1);
                String object = "{\"NAME\":\"" + name + "\",\"MS\":" + value % 100 + "}";
                values[value] = object.getBytes(StandardCharsets.ISO_8859_1);
            }
        }
        return values;
    }
}
