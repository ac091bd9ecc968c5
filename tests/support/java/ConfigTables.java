import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileReader;
import java.io.FileWriter;
import java.lang.reflect.Field;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Writes Apache Kafka's own tables of settings and features to a file, a line each, words apart by tabs.
 *
 * With two more files, reads lines of table, name and value (in hexadecimal UTF-16) from the one, and writes to
 * the other whether the value is taken, and how it is shown, or why it is refused.
 *
 * Plain old Java: it is compiled by Janino where the Java runtime has no compiler.
 */
public class ConfigTables {
    public static void main(String[] arguments) throws Exception {
        BufferedWriter out = new BufferedWriter(new FileWriter(arguments[0]));
        settings(out, "broker", kafka.server.KafkaConfig.configDef().configKeys());
        settings(out, "broker", DynamicConfig.Broker.configKeys());
        settings(out, "topic", LogConfig.configDefCopy().configKeys());
        settings(out, "group", groupDefinition().configKeys());
        settings(out, "client-metrics", ClientMetricsConfigs.configDef().configKeys());
        settings(out, "client", AdminClientConfig.configDef().configKeys());
        settings(out, "client", ConsumerConfig.configDef().configKeys());
        settings(out, "client", ProducerConfig.configDef().configKeys());
        pairs(out, "mode", DynamicBrokerConfig.dynamicConfigUpdateModes());
        Iterator topics = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.entrySet().iterator();
        while (topics.hasNext()) {
            Map.Entry entry = (Map.Entry) topics.next();
            Iterator synonyms = ((List) entry.getValue()).iterator();
            while (synonyms.hasNext()) {
                ConfigSynonym synonym = (ConfigSynonym) synonyms.next();
                line(out, new Object[] {"synonym", entry.getKey(), synonym.name()});
            }
        }
        Iterator features = Feature.PRODUCTION_FEATURES.iterator();
        while (features.hasNext()) {
            Feature feature = (Feature) features.next();
            line(out, new Object[] {
                "feature", feature.featureName(), "" + feature.minimumProduction(), "" + feature.latestProduction()
            });
        }
        line(out, new Object[] {
            "feature",
            MetadataVersion.FEATURE_NAME,
            "" + MetadataVersion.MINIMUM_VERSION.featureLevel(),
            "" + MetadataVersion.latestProduction().featureLevel()
        });
        out.close();
        if (arguments.length > 1) {
            values(arguments[1], arguments[2]);
        }
    }

    private static void values(String from, String to) throws Exception {
        Map tables = new HashMap();
        tables.put("broker", kafka.server.KafkaConfig.configDef().configKeys());
        tables.put("topic", LogConfig.configDefCopy().configKeys());
        tables.put("group", groupDefinition().configKeys());
        BufferedReader in = new BufferedReader(new FileReader(from));
        BufferedWriter out = new BufferedWriter(new FileWriter(to));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            ConfigDef.ConfigKey key = (ConfigDef.ConfigKey) ((Map) tables.get(words[0])).get(words[1]);
            ConfigDef one = new ConfigDef();
            one.define(key);
            try {
                Map parsed = one.parse(Collections.singletonMap(words[1], fromHexadecimal(words[2])));
                Object value = parsed.get(words[1]);
                line(out, new Object[] {"taken", hexadecimal(ConfigDef.convertToString(value, key.type))});
            } catch (ConfigException refused) {
                line(out, new Object[] {"refused", hexadecimal(refused.getMessage())});
            }
        }
        in.close();
        out.close();
    }

    private static String fromHexadecimal(String digits) {
        StringBuffer text = new StringBuffer();
        for (int i = 0; i < digits.length(); i += 4) {
            text.append((char) Integer.parseInt(digits.substring(i, i + 4), 16));
        }
        return text.toString();
    }

    private static String hexadecimal(String text) {
        StringBuffer digits = new StringBuffer();
        for (int i = 0; i < text.length(); i++) {
            digits.append(Integer.toHexString(0x10000 + text.charAt(i)).substring(1));
        }
        return digits.toString();
    }

    private static ConfigDef groupDefinition() throws Exception {
        Field[] fields = GroupConfig.class.getDeclaredFields();
        for (int i = 0; i < fields.length; i++) {
            if (fields[i].getType() == ConfigDef.class) {
                fields[i].setAccessible(true);
                return (ConfigDef) fields[i].get(null);
            }
        }
        throw new IllegalStateException("GroupConfig has no definition");
    }

    private static void settings(BufferedWriter out, String table, Map keys) throws Exception {
        Iterator values = keys.values().iterator();
        while (values.hasNext()) {
            ConfigDef.ConfigKey key = (ConfigDef.ConfigKey) values.next();
            String text = "<required>";
            if (key.hasDefault()) {
                text = ConfigDef.convertToString(key.defaultValue, key.type);
            }
            line(out, new Object[] {
                table,
                key.name,
                key.type.toString(),
                text == null ? "<none>" : text,
                "" + key.internalConfig,
                key.importance.toString().toLowerCase()
            });
        }
    }

    private static void pairs(BufferedWriter out, String table, Map entries) throws Exception {
        Iterator iterator = entries.entrySet().iterator();
        while (iterator.hasNext()) {
            Map.Entry entry = (Map.Entry) iterator.next();
            line(out, new Object[] {table, entry.getKey(), entry.getValue()});
        }
    }

    private static void line(BufferedWriter out, Object[] words) throws Exception {
        for (int i = 0; i < words.length; i++) {
            out.write(i == 0 ? "" : "\t");
            out.write((String) words[i]);
        }
        out.newLine();
    }
}
