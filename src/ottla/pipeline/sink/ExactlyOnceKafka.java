package ottla.pipeline;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

/**
 * Spark's side of the exactly-once sink in the JVM: a streaming sink whose tasks each write one unit of a batch
 * (see ExactlyOnceUnit). exactly_once.py checks the frame, and says in the options what the tasks need.
 *
 * It is a sink of the older kind, as Spark's own foreachBatch: Spark plans a batch for one of the newer kind once
 * more, to describe it. A batch is in Kafka when its last task is, so the driver has nothing to commit or to abort.
 *
 * jvm_classes.py compiles this with the Janino that is in Spark, so it is written for Java 8 without generics and
 * lambdas.
 */
public final class ExactlyOnceKafka implements StreamSinkProvider {

    public Sink createSink(
        SQLContext context, scala.collection.immutable.Map options, Seq partitionColumns, OutputMode mode
    ) {
        return new Batches(new HashMap(CollectionConverters.asJava(options)));
    }

    public static final class Batches implements Sink {
        private final HashMap options;

        public Batches(HashMap options) {
            this.options = options;
        }

        /** Write a batch: its rows are run as they are planned, without another plan around them. */
        public void addBatch(long batch, Dataset rows) {
            RDD planned = ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().toRdd();
            Task task = new Task(options, new Columns(rows.schema()), batch);
            planned.sparkContext().runJob(planned, task, ClassTag$.MODULE$.apply(Object.class));
        }

        public String toString() {
            return "ottla-exactly-once";
        }
    }

    /** What each task of a batch does with its rows. */
    public static final class Task extends AbstractFunction2 implements Serializable {
        private final HashMap options;
        private final Columns columns;
        private final long batch;

        public Task(HashMap options, Columns columns, long batch) {
            this.options = options;
            this.columns = columns;
            this.batch = batch;
        }

        /** Spark's iterator ends after the last row; where a row is lost, or the task is ended, it raises. */
        public Object apply(Object context, Object iterator) {
            Rows rows = new Rows(new SinkOptions(options), columns, (TaskContext) context, batch);
            Iterator all = (Iterator) iterator;
            try {
                while (all.hasNext()) {
                    rows.write((InternalRow) all.next());
                }
                rows.commit();
            } finally {
                rows.end();
            }
            return null;
        }
    }

    /** Where the sink's columns are in a row; -1 for one that the frame lacks. */
    public static final class Columns implements Serializable {
        int value = -1;
        int key = -1;
        int topic = -1;
        int partition = -1;
        int timestamp = -1;
        int headers = -1;
        int source = -1;
        boolean valueIsText = false;
        boolean keyIsText = false;

        Columns(StructType schema) {
            StructField[] fields = schema.fields();
            for (int i = 0; i < fields.length; i++) {
                String name = fields[i].name();
                boolean isText = fields[i].dataType() instanceof StringType;
                if (name.equals("value")) {
                    value = i;
                    valueIsText = isText;
                } else if (name.equals("key")) {
                    key = i;
                    keyIsText = isText;
                } else if (name.equals("topic")) {
                    topic = i;
                } else if (name.equals("partition")) {
                    partition = i;
                } else if (name.equals("timestamp")) {
                    timestamp = i;
                } else if (name.equals("headers")) {
                    headers = i;
                } else if (name.equals("source")) {
                    source = i;
                } else {
                    throw new SinkError("the exactly-once sink knows no column " + name);
                }
            }
        }
    }

    /** The rows of one task: all of them are of one unit. */
    private static final class Rows {
        private final SinkOptions options;
        private final Columns columns;
        private final TaskContext context;
        private final long batch;
        private ExactlyOnceUnit unit = null;
        private UTF8String sourceTopic = null;
        private int sourcePartition = -1;
        private UTF8String topicOfLast = null;
        private String topicName = null;

        Rows(SinkOptions options, Columns columns, TaskContext context, long batch) {
            this.options = options;
            this.columns = columns;
            this.context = context;
            this.batch = batch;
        }

        void write(InternalRow row) {
            if (unit == null) {
                unit = open(row);
            } else if (options.bySource && !isOfUnit(row)) {
                throw new SinkError(unit.where + ": one task has rows of several source partitions: leave out coalesce "
                    + "and repartition, or repartition by key into a fixed number and write with Identity.TASK");
            }
            if (unit.isWritten) {
                return;
            }
            Integer partition = null;
            if (columns.partition >= 0 && !row.isNullAt(columns.partition)) {
                partition = Integer.valueOf(row.getInt(columns.partition));
            }
            Long timestamp = null;
            if (columns.timestamp >= 0 && !row.isNullAt(columns.timestamp)) {
                long milliseconds = Math.floorDiv(row.getLong(columns.timestamp), 1000L);
                timestamp = milliseconds <= 0 ? null : Long.valueOf(milliseconds);
            }
            unit.send(
                topicOf(row),
                partition,
                timestamp,
                bytesOf(row, columns.key, columns.keyIsText),
                bytesOf(row, columns.value, columns.valueIsText),
                headersOf(row)
            );
        }

        void commit() {
            if (unit != null) {
                unit.commit();
            }
        }

        /** Abort what is not committed. */
        void end() {
            if (unit != null) {
                unit.abort();
            }
        }

        private ExactlyOnceUnit open(InternalRow row) {
            String name = String.valueOf(context.partitionId());
            String where = "query " + options.queryName + ", batch " + batch;
            if (options.bySource) {
                InternalRow source = row.isNullAt(columns.source) ? null : row.getStruct(columns.source, 2);
                if (source == null || source.isNullAt(0) || source.isNullAt(1)) {
                    throw new SinkError(where + ": a row has no source topic and partition");
                }
                sourceTopic = source.getUTF8String(0).copy();
                sourcePartition = source.getInt(1);
                name = sourceTopic.toString() + "-" + sourcePartition;
            }
            Place place = new Place(
                batch,
                text(context.getLocalProperty("sql.streaming.queryId")),
                text(context.getLocalProperty("spark.jobGroup.id")),
                context.partitionId(),
                text(context.getLocalProperty("spark.sql.shuffle.partitions"))
            );
            return ExactlyOnceUnit.open(options, place, name);
        }

        private static String text(String property) {
            return property == null ? "" : property;
        }

        private boolean isOfUnit(InternalRow row) {
            if (row.isNullAt(columns.source)) {
                return false;
            }
            InternalRow source = row.getStruct(columns.source, 2);
            return !source.isNullAt(0) && !source.isNullAt(1) && source.getInt(1) == sourcePartition
                && source.getUTF8String(0).equals(sourceTopic);
        }

        private String topicOf(InternalRow row) {
            if (columns.topic < 0 || row.isNullAt(columns.topic)) {
                return options.topic;
            }
            UTF8String topic = row.getUTF8String(columns.topic);
            if (topicOfLast == null || !topic.equals(topicOfLast)) {
                topicOfLast = topic.copy();
                topicName = topic.toString();
            }
            return topicName;
        }

        private static byte[] bytesOf(InternalRow row, int column, boolean isText) {
            if (column < 0 || row.isNullAt(column)) {
                return null;
            }
            return isText ? row.getUTF8String(column).getBytes() : row.getBinary(column);
        }

        private RecordHeaders headersOf(InternalRow row) {
            if (columns.headers < 0 || row.isNullAt(columns.headers)) {
                return null;
            }
            ArrayData array = row.getArray(columns.headers);
            RecordHeaders headers = new RecordHeaders();
            for (int i = 0; i < array.numElements(); i++) {
                InternalRow header = array.getStruct(i, 2);
                byte[] value = header.isNullAt(1) ? null : header.getBinary(1);
                headers.add(new RecordHeader(header.getUTF8String(0).toString(), value));
            }
            return headers;
        }
    }
}
