import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer with the audit's interceptor: BOOTSTRAP TOPIC TIER FLUSHED HELD [SETTING=VALUE]. It sends and
 * flushes so many records, hands over more that stay in its buffer, says `held`, and closes when a line comes in.
 */
public final class AuditedSends {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("client.id", "a \"quoted\" client");
        settings.put("linger.ms", "3600000");
        settings.put("delivery.timeout.ms", "2147483647");
        settings.put("batch.size", "1000000");
        settings.put("interceptor.classes", "ottla.audit.AuditInterceptor");
        settings.put("ottla.audit.tier", words[2]);
        settings.put("ottla.audit.report.interval.ms", "100");
        for (int at = 5; at < words.length; at++) {
            String[] setting = words[at].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        for (int number = 0; number < Integer.parseInt(words[3]); number++) {
            producer.send(new ProducerRecord<>(words[1], "key " + number, "value " + number));
        }
        producer.flush();
        for (int number = 0; number < Integer.parseInt(words[4]); number++) {
            producer.send(new ProducerRecord<>(words[1], 0, "key", "held " + number));
        }
        System.out.println("held");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        producer.close();
    }
}
