package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * MirrorMaker 2's own records and offset syncs: a question a line, its answer a line.
 *
 * Words are divided by tabs; texts and bytes stand in Base64, offsets in digits.
 */
public class MirrorOracle {
    private static final TopicPartition PARTITION = new TopicPartition("t", 3);

    /** A store that is fed by hand. */
    private static final class Fed extends OffsetSyncStore {
        @Override
        void backingStoreStart() {
        }

        void feed(long upstream, long downstream) {
            OffsetSync sync = new OffsetSync(PARTITION, upstream, downstream);
            handleRecord(new ConsumerRecord<>("syncs", 0, 0, sync.recordKey(), sync.recordValue()));
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.split("\t", -1)));
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "sync": {
                OffsetSync sync = new OffsetSync(
                    new TopicPartition(text(words[1]), number(words[2])), Long.parseLong(words[3]), Long.parseLong(words[4]));
                OffsetSync back = OffsetSync.deserializeRecord(record(sync.recordKey(), sync.recordValue()));
                return bytes(sync.recordKey()) + "\t" + bytes(sync.recordValue()) + "\t" + back.downstreamOffset();
            }
            case "checkpoint": {
                Checkpoint made = new Checkpoint(
                    text(words[1]), new TopicPartition(text(words[2]), number(words[3])), Long.parseLong(words[4]),
                    Long.parseLong(words[5]), text(words[6]));
                Checkpoint back = Checkpoint.deserializeRecord(record(made.recordKey(), made.recordValue()));
                return bytes(made.recordKey()) + "\t" + bytes(made.recordValue()) + "\t" + back.downstreamOffset();
            }
            case "heartbeat": {
                Heartbeat made = new Heartbeat(text(words[1]), text(words[2]), Long.parseLong(words[3]));
                Heartbeat back = Heartbeat.deserializeRecord(record(made.recordKey(), made.recordValue()));
                return bytes(made.recordKey()) + "\t" + bytes(made.recordValue()) + "\t" + back.timestamp();
            }
            case "store":
                return store(words);
            case "translate":
                return translated(words);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** store, syncs "up:down,…", offsets "n,…": what each offset is translated to, or "-". */
    private static String store(String[] words) {
        Fed store = new Fed();
        store.start(false);
        for (String sync : words[1].split(",")) {
            String[] ends = sync.split(":");
            store.feed(Long.parseLong(ends[0]), Long.parseLong(ends[1]));
        }
        StringBuilder said = new StringBuilder();
        for (String offset : words[2].split(",")) {
            OptionalLong found = store.translateDownstream("g", PARTITION, Long.parseLong(offset));
            said.append(said.length() == 0 ? "" : ",").append(found.isPresent() ? found.getAsLong() : -2);
        }
        return said.toString();
    }

    /** translate, bootstrap, source alias, group: RemoteClusterUtils, as "topic-partition=offset" with blanks. */
    private static String translated(String[] words) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", words[1]);
        Map<TopicPartition, OffsetAndMetadata> found = RemoteClusterUtils.translateOffsets(
            properties, words[2], text(words[3]), java.time.Duration.ofSeconds(30));
        StringBuilder said = new StringBuilder();
        found.forEach((key, value) -> said.append(said.length() == 0 ? "" : " ").append(key).append('=').append(value.offset()));
        return said.toString();
    }

    private static ConsumerRecord<byte[], byte[]> record(byte[] key, byte[] value) {
        return new ConsumerRecord<>("any", 0, 0, key, value);
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String bytes(byte[] data) {
        return Base64.getEncoder().encodeToString(data);
    }
}
