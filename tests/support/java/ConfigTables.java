import java.io.BufferedWriter;
import java.io.FileWriter;
import java.lang.reflect.Field;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
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
                table, key.name, key.type.toString(), text == null ? "<none>" : text, "" + key.internalConfig
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
