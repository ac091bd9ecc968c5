package ottla.pipeline;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;

import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's own Kafka sources, except for where their batches end: a planner outside says it, for all sources of
 * a query at once. planned_source.py compiles this with the Janino that is in Spark, so it is written for Java 8
 * without generics and lambdas.
 */
public final class PlannedKafka {

    /**
     * The sources of a query that is about to be made.
     *
     * planner: is given the starts and the latest ends of all sources, a line of JSON each, and gives the ends of
     * the batch in the same form; given nothing, it gives the starts, or nothing if it does not know them. order:
     * the sources' numbers, in the order in which their ends are asked, with commas between.
     */
    public Group group(Function planner, String order) {
        String[] texts = order.split(",");
        int[] numbers = new int[texts.length];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = Integer.parseInt(texts[i]);
        }
        return new Group(planner, numbers);
    }

    /** The sources of one query. Spark asks each of them in turn for the end of the next batch. */
    public static final class Group {
        private final Function planner;
        private final Stream[] streams;
        private final int[] order;
        private final Map planned = new HashMap();
        private String done = "";
        private boolean isLearning = false;

        Group(Function planner, int[] order) {
            this.planner = planner;
            this.order = order;
            this.streams = new Stream[order.length];
        }

        /** A relation of Spark's Kafka source, as source `number` of this group. */
        public Object planned(Object relation, int number) throws Exception {
            scala.Product fields = (scala.Product) relation;
            Object[] values = new Object[fields.productArity()];
            for (int i = 0; i < values.length; i++) {
                Object value = fields.productElement(i);
                values[i] = value instanceof SupportsRead ? new Table((SupportsRead) value, this, number) : value;
            }
            return relation.getClass().getConstructors()[0].newInstance(values);
        }

        synchronized Offset next(Stream asking, Offset start) {
            Offset end = (Offset) planned.remove(asking);
            if (end != null && !start.equals(asking.start)) {
                throw new IllegalStateException(asking + " was planned from " + asking.start + ", not " + start);
            }
            if (end == null) {
                asking.start = start;
                if (knowsStarts(asking)) {
                    plan();
                    end = (Offset) planned.remove(asking);
                } else {
                    asking.latest();
                    end = start;
                }
            }
            asking.start = end;
            return end;
        }

        /**
         * The sources of a query that goes on begin where its checkpoint says, those of a new one at their initial
         * offsets. Where the planner can't read the checkpoint, Spark tells the starts, one after the other:
         * nothing is read until it has told all.
         */
        private boolean knowsStarts(Stream asking) {
            boolean knows = true;
            for (int i = 0; i < streams.length; i++) {
                knows = knows && streams[i].start != null;
            }
            if (knows) {
                return !wasLearning();
            }
            String answer = isLearning ? "" : (String) planner.apply("");
            if (answer.length() == 0 && !asking.isNew) {
                isLearning = true;
                return false;
            }
            String[] lines = answer.split("\n");
            for (int i = 0; i < streams.length; i++) {
                if (streams[i].start == null) {
                    MicroBatchStream kafka = streams[i].kafka;
                    streams[i].start = answer.length() == 0 ? kafka.initialOffset() : kafka.deserializeOffset(lines[i]);
                }
            }
            return true;
        }

        /** The source that tells its start last must not be read before the others either. */
        private boolean wasLearning() {
            boolean was = isLearning;
            isLearning = false;
            return was;
        }

        private void plan() {
            planned.clear();
            Offset[] ends = new Offset[streams.length];
            for (int i = 0; i < order.length; i++) {
                ends[order[i]] = streams[order[i]].latest();
            }
            StringBuilder starts = new StringBuilder();
            StringBuilder latest = new StringBuilder();
            boolean nothing = true;
            for (int i = 0; i < streams.length; i++) {
                starts.append(streams[i].start.json()).append('\n');
                latest.append(ends[i].json()).append('\n');
                nothing = nothing && ends[i].equals(streams[i].start);
            }
            if (nothing && done.equals(starts.toString())) {
                for (int i = 0; i < streams.length; i++) {
                    planned.put(streams[i], streams[i].start);
                }
                return;
            }
            String[] lines = ((String) planner.apply(starts.toString() + latest.toString())).split("\n");
            for (int i = 0; i < streams.length; i++) {
                planned.put(streams[i], streams[i].kafka.deserializeOffset(lines[i]));
            }
            done = starts.toString();
        }

        /** A source of the query, which is made anew when the query is started anew. */
        synchronized Stream stream(int number, MicroBatchStream kafka) {
            done = "";
            isLearning = false;
            planned.clear();
            streams[number] = new Stream(kafka, this);
            return streams[number];
        }
    }

    public static final class Table implements SupportsRead {
        private final SupportsRead kafka;
        private final Group group;
        private final int number;

        public Table(SupportsRead kafka, Group group, int number) {
            this.kafka = kafka;
            this.group = group;
            this.number = number;
        }

        public String name() {
            return kafka.name();
        }

        public StructType schema() {
            return kafka.schema();
        }

        public Set capabilities() {
            return kafka.capabilities();
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new PlannedScan(kafka.newScanBuilder(options).build(), group, number);
        }
    }

    public static final class PlannedScan implements ScanBuilder, Scan {
        private final Scan kafka;
        private final Group group;
        private final int number;

        public PlannedScan(Scan kafka, Group group, int number) {
            this.kafka = kafka;
            this.group = group;
            this.number = number;
        }

        public Scan build() {
            return this;
        }

        public StructType readSchema() {
            return kafka.readSchema();
        }

        public String description() {
            return kafka.description();
        }

        public Batch toBatch() {
            return kafka.toBatch();
        }

        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return group.stream(number, kafka.toMicroBatchStream(checkpoint));
        }

        public CustomMetric[] supportedCustomMetrics() {
            return kafka.supportedCustomMetrics();
        }

        public CustomTaskMetric[] reportDriverMetrics() {
            return kafka.reportDriverMetrics();
        }
    }

    public static final class Stream
            implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
        final MicroBatchStream kafka;
        private final Group group;
        Offset start = null;
        boolean isNew = false;

        public Stream(MicroBatchStream kafka, Group group) {
            this.kafka = kafka;
            this.group = group;
        }

        private SupportsAdmissionControl admission() {
            return (SupportsAdmissionControl) kafka;
        }

        /** The end of all that there is; with Trigger.AvailableNow, that there was at the first question. */
        Offset latest() {
            Offset end = admission().latestOffset(start, ReadLimit.allAvailable());
            return end == null ? start : end;
        }

        public Offset initialOffset() {
            isNew = true;
            return kafka.initialOffset();
        }

        public Offset latestOffset() {
            throw new UnsupportedOperationException("a batch is planned from its start");
        }

        public Offset latestOffset(Offset start, ReadLimit limit) {
            return group.next(this, start);
        }

        public ReadLimit getDefaultReadLimit() {
            return admission().getDefaultReadLimit();
        }

        public Offset reportLatestOffset() {
            return admission().reportLatestOffset();
        }

        public void prepareForTriggerAvailableNow() {
            ((SupportsTriggerAvailableNow) kafka).prepareForTriggerAvailableNow();
        }

        public Map metrics(Optional latestConsumed) {
            return ((ReportsSourceMetrics) kafka).metrics(latestConsumed);
        }

        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            isNew = false; // the first batch of a new query asks for its start too, when it is repeated
            return kafka.planInputPartitions(start, end);
        }

        public PartitionReaderFactory createReaderFactory() {
            return kafka.createReaderFactory();
        }

        public Offset deserializeOffset(String json) {
            return kafka.deserializeOffset(json);
        }

        public void commit(Offset end) {
            kafka.commit(end);
        }

        public void stop() {
            kafka.stop();
        }

        public String toString() {
            return kafka.toString();
        }
    }
}
