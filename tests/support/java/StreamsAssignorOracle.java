import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileReader;
import java.io.FileWriter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Assigns tasks with Kafka's own sticky task assignor.
 *
 * Each line of the first file is "standbys|subtopology:tasks:stateful ...|member:process:active:standby:offsets ...",
 * where active and standby are "subtopology-partition,..." and offsets "subtopology-partition-offset,...", or empty.
 * The same line of the second file is
 * "member:active:standby ...", all in order. Plain old Java: Janino compiles it.
 */
public class StreamsAssignorOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new FileReader(arguments[0]));
        BufferedWriter out = new BufferedWriter(new FileWriter(arguments[1]));
        String line = in.readLine();
        while (line != null) {
            out.write(answer(line.split("\\|", -1)));
            out.newLine();
            line = in.readLine();
        }
        out.close();
        in.close();
    }

    private static String answer(String[] parts) {
        Map configs = new HashMap();
        configs.put("num.standby.replicas", parts[0]);
        final Map counts = new TreeMap();
        final Set stateful = new HashSet();
        String[] subtopologies = parts[1].split(" ");
        for (int i = 0; i < subtopologies.length; i++) {
            String[] words = subtopologies[i].split(":");
            counts.put(words[0], Integer.valueOf(words[1]));
            if (words[2].equals("1")) {
                stateful.add(words[0]);
            }
        }
        Map members = new LinkedHashMap();
        String[] specs = parts[2].split(" ");
        for (int i = 0; i < specs.length; i++) {
            String[] words = specs[i].split(":", -1);
            members.put(words[0], new MemberMetadataAndStateImpl(
                Optional.empty(), Optional.empty(), words[1], new HashMap(), tasks(words[2]), tasks(words[3]),
                new HashMap(), offsets(words[4]), new HashMap()));
        }
        TopologyDescriber describer = new TopologyDescriber() {
            public List subtopologies() {
                return new ArrayList(counts.keySet());
            }

            public int maxNumInputPartitions(String subtopologyId) {
                return ((Integer) counts.get(subtopologyId)).intValue();
            }

            public boolean isStateful(String subtopologyId) {
                return stateful.contains(subtopologyId);
            }
        };
        GroupAssignment assignment = new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, AssignmentConfigsImpl.fromMap(configs)), describer);
        StringBuilder said = new StringBuilder();
        Iterator each = new TreeMap(assignment.members()).entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            MemberAssignment member = (MemberAssignment) entry.getValue();
            said.append(said.length() == 0 ? "" : " ").append(entry.getKey()).append(":")
                .append(shown(member.activeTasks())).append(":").append(shown(member.standbyTasks()));
        }
        return said.toString();
    }

    private static Map tasks(String text) {
        Map tasks = new HashMap();
        String[] words = text.split(",");
        for (int i = 0; i < words.length; i++) {
            if (words[i].length() > 0) {
                String[] task = words[i].split("-");
                if (!tasks.containsKey(task[0])) {
                    tasks.put(task[0], new HashSet());
                }
                ((Set) tasks.get(task[0])).add(Integer.valueOf(task[1]));
            }
        }
        return tasks;
    }

    private static Map offsets(String text) {
        Map offsets = new HashMap();
        String[] words = text.split(",");
        for (int i = 0; i < words.length; i++) {
            if (words[i].length() > 0) {
                String[] task = words[i].split("-");
                if (!offsets.containsKey(task[0])) {
                    offsets.put(task[0], new HashMap());
                }
                ((Map) offsets.get(task[0])).put(Integer.valueOf(task[1]), Long.valueOf(task[2]));
            }
        }
        return offsets;
    }

    private static String shown(Map tasks) {
        StringBuilder said = new StringBuilder();
        Iterator each = new TreeMap(tasks).entrySet().iterator();
        while (each.hasNext()) {
            Map.Entry entry = (Map.Entry) each.next();
            Iterator partitions = new TreeSet((Set) entry.getValue()).iterator();
            while (partitions.hasNext()) {
                said.append(said.length() == 0 ? "" : ",").append(entry.getKey()).append("-").append(partitions.next());
            }
        }
        return said.toString();
    }
}
