import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileReader;
import java.io.FileWriter;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.share.SharePartitionKey;

/**
 * Finds partitions with Kafka's own functions.
 *
 * A line of the first file is "name COUNT HEX", the name's UTF-16 code units in hexadecimal; "key COUNT HEX", a
 * record's key in bytes; or "share COUNT HEX UUID PARTITION", a share group's name, a topic id, a partition. The
 * same line of the second file is the partition. Plain old Java, as Janino compiles it.
 */
public class PartitionOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new FileReader(arguments[0]));
        BufferedWriter answers = new BufferedWriter(new FileWriter(arguments[1]));
        String line = questions.readLine();
        while (line != null) {
            answers.write(Integer.toString(partition(line.split(" ", -1))));
            answers.newLine();
            line = questions.readLine();
        }
        answers.close();
        questions.close();
    }

    private static int partition(String[] words) {
        int count = Integer.parseInt(words[1]);
        if (words[0].equals("key")) {
            return BuiltInPartitioner.partitionForKey(bytes(words[2]), count);
        }
        String name = text(words[2]);
        if (words[0].equals("share")) {
            Uuid topic = Uuid.fromString(words[3]);
            name = SharePartitionKey.getInstance(name, topic, Integer.parseInt(words[4])).asCoordinatorKey();
        }
        return Utils.abs(name.hashCode()) % count;
    }

    private static String text(String hex) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < hex.length(); at += 4) {
            text.append((char) Integer.parseInt(hex.substring(at, at + 4), 16));
        }
        return text.toString();
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return bytes;
    }
}
