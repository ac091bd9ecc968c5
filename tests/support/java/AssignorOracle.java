import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileReader;
import java.io.FileWriter;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Assigns partitions with Kafka's own server-side assignors.
 *
 * Each line of the first file is "assignor type counts members": counts are "4,3" for topics 0 and 1; members are
 * "id;instance;topics;current" with "|" between them, where current is "topic:partition.partition,topic:...". The
 * same line of the second file has "id=topic:partitions,..." for each member. Plain old Java, for Janino.
 */
public class AssignorOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new FileReader(arguments[0]));
        BufferedWriter out = new BufferedWriter(new FileWriter(arguments[1]));
        String line = in.readLine();
        while (line != null) {
            out.write(answer(line.split(" ", -1)));
            out.newLine();
            line = in.readLine();
        }
        out.close();
        in.close();
    }

    private static Uuid topic(String number) {
        return new Uuid(0L, Long.parseLong(number) + 1L);
    }

    private static String answer(String[] words) {
        final String[] counts = words[2].split(",");
        Map members = new HashMap();
        Map inverted = new HashMap();
        String[] texts = words[3].split("\\|");
        for (int i = 0; i < texts.length; i++) {
            String[] parts = texts[i].split(";", -1);
            Set topics = new HashSet();
            String[] wanted = parts[2].split(",");
            for (int j = 0; j < wanted.length; j++) {
                if (wanted[j].length() > 0) {
                    topics.add(topic(wanted[j]));
                }
            }
            Map current = new HashMap();
            String[] held = parts[3].split(",");
            for (int j = 0; j < held.length; j++) {
                if (held[j].length() == 0) {
                    continue;
                }
                String[] pair = held[j].split(":");
                Set partitions = new HashSet();
                String[] numbers = pair[1].split("\\.");
                for (int k = 0; k < numbers.length; k++) {
                    Integer partition = Integer.valueOf(numbers[k]);
                    partitions.add(partition);
                    Map owners = (Map) inverted.get(topic(pair[0]));
                    if (owners == null) {
                        owners = new HashMap();
                        inverted.put(topic(pair[0]), owners);
                    }
                    owners.put(partition, parts[0]);
                }
                current.put(topic(pair[0]), partitions);
            }
            Optional instance = parts[1].length() == 0 ? Optional.empty() : Optional.of(parts[1]);
            members.put(parts[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, topics, new Assignment(current)));
        }
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topicId) {
                return Integer.parseInt(counts[(int) topicId.getLeastSignificantBits() - 1]);
            }

            public Set racksForPartition(Uuid topicId, int partition) {
                return Collections.EMPTY_SET;
            }
        };
        SubscriptionType type = SubscriptionType.valueOf(words[1]);
        GroupSpecImpl group = new GroupSpecImpl(members, type, inverted);
        GroupAssignment made;
        if (words[0].equals("range")) {
            made = new RangeAssignor().assign(group, describer);
        } else {
            made = new UniformAssignor().assign(group, describer);
        }
        StringBuilder shown = new StringBuilder();
        Iterator each = new TreeMap(made.members()).entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            shown.append(shown.length() == 0 ? "" : "|").append(entry.getKey()).append("=");
            Map partitions = ((MemberAssignment) entry.getValue()).partitions();
            String comma = "";
            Iterator topics = partitions.entrySet().iterator();
            while (topics.hasNext()) {
                Map.Entry of = (Map.Entry) topics.next();
                Iterator numbers = new TreeSet((Set) of.getValue()).iterator();
                String separator = comma + (((Uuid) of.getKey()).getLeastSignificantBits() - 1L) + ":";
                while (numbers.hasNext()) {
                    shown.append(separator).append(numbers.next());
                    separator = ".";
                    comma = ",";
                }
            }
        }
        return shown.toString();
    }
}
