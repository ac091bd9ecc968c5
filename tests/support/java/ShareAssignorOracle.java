import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileReader;
import java.io.FileWriter;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Assigns with Kafka's own assignor of share groups.
 *
 * Each line of the first file is "topic|topic... member|member...". A topic is "number:partitions:assignable",
 * a member "name=topics=current", where current is "number:partitions;number:partitions...", and lists have
 * commas. The same line of the second file has "name=new|name=new...". Plain old Java, as Janino compiles it.
 */
public class ShareAssignorOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new FileReader(arguments[0]));
        BufferedWriter out = new BufferedWriter(new FileWriter(arguments[1]));
        String line = in.readLine();
        while (line != null) {
            String[] words = line.split(" ", -1);
            out.write(assign(words[0], words[1]));
            out.newLine();
            line = in.readLine();
        }
        out.close();
        in.close();
    }

    private static String assign(String topics, String members) {
        final Map counts = new HashMap();
        Map assignable = new HashMap();
        String[] eachTopic = topics.split("\\|");
        for (int i = 0; i < eachTopic.length; i++) {
            String[] parts = eachTopic[i].split(":", -1);
            counts.put(topicId(parts[0]), Integer.valueOf(parts[1]));
            assignable.put(topicId(parts[0]), numbers(parts[2]));
        }
        Map specs = new LinkedHashMap();
        Set subscriptions = new HashSet();
        String[] eachMember = members.split("\\|");
        for (int i = 0; i < eachMember.length; i++) {
            String[] parts = eachMember[i].split("=", -1);
            Set wanted = new HashSet();
            Iterator numbers = numbers(parts[1]).iterator();
            while (numbers.hasNext()) {
                wanted.add(topicId(String.valueOf(numbers.next())));
            }
            subscriptions.add(wanted);
            specs.put(parts[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), wanted, new Assignment(current(parts[2]))));
        }
        SubscriptionType type = subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topicId) {
                return counts.containsKey(topicId) ? ((Integer) counts.get(topicId)).intValue() : -1;
            }

            public Set racksForPartition(Uuid topicId, int partition) {
                return new HashSet();
            }
        };
        GroupSpecImpl spec = new GroupSpecImpl(specs, type, new HashMap(), Optional.of(assignable));
        Map assigned = new TreeMap(new SimpleAssignor().assign(spec, describer).members());
        StringBuilder text = new StringBuilder();
        Iterator entries = assigned.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            text.append(text.length() == 0 ? "" : "|").append(entry.getKey()).append('=');
            text.append(show(((MemberAssignment) entry.getValue()).partitions()));
        }
        return text.toString();
    }

    private static String show(Map partitions) {
        TreeMap shown = new TreeMap();
        Iterator entries = partitions.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            if (!((Set) entry.getValue()).isEmpty()) {
                String list = new TreeSet((Set) entry.getValue()).toString().replaceAll("[\\[\\] ]", "");
                shown.put(Long.valueOf(((Uuid) entry.getKey()).getLeastSignificantBits()), list);
            }
        }
        return shown.toString().replaceAll("[{} ]", "").replaceAll(",(?=\\d+=)", ";").replace('=', ':');
    }

    private static Map current(String text) {
        Map topics = new HashMap();
        String[] each = text.split(";");
        for (int i = 0; i < each.length; i++) {
            if (each[i].length() > 0) {
                String[] parts = each[i].split(":", -1);
                topics.put(topicId(parts[0]), numbers(parts[1]));
            }
        }
        return topics;
    }

    private static Set numbers(String text) {
        Set found = new HashSet();
        String[] each = text.split(",");
        for (int i = 0; i < each.length; i++) {
            if (each[i].length() > 0) {
                found.add(Integer.valueOf(each[i]));
            }
        }
        return found;
    }

    private static Uuid topicId(String number) {
        return new Uuid(0x1234567890L, Long.parseLong(number));
    }
}
