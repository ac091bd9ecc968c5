import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/**
 * Several share consumers in one process. What a record's value begins with says what becomes of it:
 * "reject", "release" (until its third delivery), "slow" (held for longer than the lock lasts, the first time),
 * "stuck" (each time), anything else is accepted. Each delivery is printed as "consumer value delivery-count type", each commit that
 * failed as "refused consumer error". Ends when nobody has got anything for a while.
 *
 * Arguments: bootstrap, topic, group, number of consumers, how long to hold slow records (ms), idle time (ms). Topic
 * and group may be lists with commas, which the consumers take by turns.
 * Written for Janino: no generics, no lambdas.
 */
public class ShareConsumers {
    // The first delivery may take a while: the group has to begin.
    private static long lastDelivery = System.currentTimeMillis() + 60000L;

    private static synchronized void say(String line) {
        System.out.println(line);
    }

    private static synchronized void delivered() {
        lastDelivery = System.currentTimeMillis();
    }

    private static synchronized boolean isIdle(long idleMs) {
        return System.currentTimeMillis() - lastDelivery > idleMs;
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        Thread[] threads = new Thread[count];
        for (int number = 0; number < count; number++) {
            threads[number] = new Thread(new Consumer(number, arguments));
            threads[number].start();
        }
        for (int number = 0; number < count; number++) {
            threads[number].join();
        }
    }

    private static class Consumer implements Runnable {
        private final int number;
        private final String[] arguments;

        Consumer(int number, String[] arguments) {
            this.number = number;
            this.arguments = arguments;
        }

        public void run() {
            try {
                consume();
            } catch (Exception problem) {
                say("failed " + number + " " + problem);
            }
        }

        private void consume() throws Exception {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", arguments[0]);
            String[] groups = arguments[2].split(",");
            String[] topics = arguments[1].split(",");
            properties.put("group.id", groups[number % groups.length]);
            properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            properties.put("share.acknowledgement.mode", "explicit");
            properties.put("max.poll.records", "7");
            long holdMs = Long.parseLong(arguments[4]);
            long idleMs = Long.parseLong(arguments[5]);
            KafkaShareConsumer consumer = new KafkaShareConsumer(properties);
            try {
                consumer.subscribe(Collections.singletonList(topics[number % topics.length]));
                while (!isIdle(idleMs)) {
                    ConsumerRecords records = consumer.poll(Duration.ofMillis(200L));
                    Iterator each = records.iterator();
                    while (each.hasNext()) {
                        acknowledge(consumer, (ConsumerRecord) each.next(), holdMs);
                    }
                    commit(consumer);
                }
            } finally {
                consumer.close();
            }
        }

        private void acknowledge(KafkaShareConsumer consumer, ConsumerRecord record, long holdMs) throws Exception {
            String value = (String) record.value();
            int deliveries = ((Short) record.deliveryCount().get()).intValue();
            AcknowledgeType type = AcknowledgeType.ACCEPT;
            if (value.startsWith("reject")) {
                type = AcknowledgeType.REJECT;
            } else if (value.startsWith("release") && deliveries < 3) {
                type = AcknowledgeType.RELEASE;
            } else if (value.startsWith("stuck") || value.startsWith("slow") && deliveries == 1) {
                Thread.sleep(holdMs);
            }
            delivered();
            say(number + " " + value + " " + deliveries + " " + type);
            consumer.acknowledge(record, type);
        }

        private void commit(KafkaShareConsumer consumer) {
            Iterator results = consumer.commitSync().entrySet().iterator();
            while (results.hasNext()) {
                Optional error = (Optional) ((Map.Entry) results.next()).getValue();
                if (error.isPresent()) {
                    say("refused " + number + " " + error.get());
                }
            }
        }
    }
}
