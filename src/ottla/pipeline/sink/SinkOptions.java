package ottla.pipeline;

import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;

/** The sink's settings, as exactly_once_jvm.py writes them into the options of a query's writer. */
public final class SinkOptions {
    private static final String CLIENT = "secret.kafka.";
    private static final String PRODUCER = "producer.";

    final String bootstrap;
    final String queryName;
    final boolean bySource;
    final String topic;
    final String ledgerTopic;
    final int transactionTimeoutMs;
    /** Java's properties of all clients, and those of producers, which win. */
    final Map client = new TreeMap();
    final Map producer = new TreeMap();

    public SinkOptions(Map options) {
        bootstrap = (String) options.get("ottla.bootstrap");
        queryName = (String) options.get("ottla.query");
        bySource = "source".equals(options.get("ottla.identity"));
        topic = (String) options.get("ottla.topic");
        ledgerTopic = (String) options.get("ottla.ledger");
        transactionTimeoutMs = Integer.parseInt((String) options.get("ottla.transaction.timeout.ms"));
        for (Iterator names = options.keySet().iterator(); names.hasNext();) {
            String name = (String) names.next();
            if (name.startsWith(CLIENT)) {
                client.put(name.substring(CLIENT.length()), options.get(name));
            } else if (name.startsWith(PRODUCER)) {
                producer.put(name.substring(PRODUCER.length()), options.get(name));
            }
        }
    }

    String group(String unit) {
        return queryName + "-sink-" + unit;
    }

    Map clientProperties() {
        Map found = new TreeMap(client);
        // No metrics: neither for JMX nor for the cluster.
        found.put("auto.include.jmx.reporter", "false");
        found.put("enable.metrics.push", "false");
        return found;
    }

    Map producerProperties() {
        Map found = clientProperties();
        found.putAll(producer);
        return found;
    }
}
