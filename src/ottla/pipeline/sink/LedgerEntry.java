package ottla.pipeline;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** A unit's ledger, as exactly_once_ledger.py has it: the next batch to write, and what wrote the last one. */
public final class LedgerEntry {
    private static final int FORMAT_VERSION = 1;
    private static final ObjectMapper JSON = new ObjectMapper();

    final long nextBatch;
    final String queryName;
    final String queryId;
    final String runId;
    final String identity;
    final int task;
    final String shufflePartitions;

    LedgerEntry(
        long nextBatch,
        String queryName,
        String queryId,
        String runId,
        String identity,
        int task,
        String shufflePartitions
    ) {
        this.nextBatch = nextBatch;
        this.queryName = queryName;
        this.queryId = queryId;
        this.runId = runId;
        this.identity = identity;
        this.task = task;
        this.shufflePartitions = shufflePartitions;
    }

    /** The metadata of a group's offset. `holder` says where it was found, for the message of a SinkError. */
    static LedgerEntry parse(String holder, long nextBatch, String metadata) {
        try {
            return of(nextBatch, JSON.readTree(metadata));
        } catch (Exception error) {
            throw new SinkError(holder + " (" + error.getMessage() + "): give the query another name");
        }
    }

    /** The value of a record of the ledger topic. */
    static LedgerEntry parseRecord(String holder, byte[] value) {
        try {
            JsonNode fields = JSON.readTree(value);
            JsonNode next = field(fields, "next");
            if (!next.isIntegralNumber()) {
                throw new IllegalArgumentException("next is " + next);
            }
            return of(next.asLong(), fields);
        } catch (Exception error) {
            throw new SinkError(holder + " (" + error.getMessage() + "): give the query another name");
        }
    }

    private static LedgerEntry of(long nextBatch, JsonNode fields) {
        if (field(fields, "ottla").asInt() != FORMAT_VERSION) {
            throw new IllegalArgumentException("version " + fields.get("ottla"));
        }
        return new LedgerEntry(
            nextBatch,
            field(fields, "name").asText(),
            field(fields, "query").asText(),
            field(fields, "run").asText(),
            field(fields, "identity").asText(),
            field(fields, "task").asInt(),
            field(fields, "shuffle").asText()
        );
    }

    private static JsonNode field(JsonNode fields, String name) {
        JsonNode found = fields == null ? null : fields.get(name);
        if (found == null) {
            throw new IllegalArgumentException("no " + name);
        }
        return found;
    }

    String metadata() {
        return fields(JSON.createObjectNode()).toString();
    }

    byte[] record() {
        return fields(JSON.createObjectNode().put("next", nextBatch)).toString().getBytes(
            java.nio.charset.StandardCharsets.UTF_8);
    }

    private ObjectNode fields(ObjectNode node) {
        return node.put("ottla", FORMAT_VERSION).put("name", queryName).put("query", queryId).put("run", runId)
            .put("identity", identity).put("task", task).put("shuffle", shufflePartitions);
    }
}
