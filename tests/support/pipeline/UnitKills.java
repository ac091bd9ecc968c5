import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

import org.apache.spark.SparkEnv;

import ottla.pipeline.ExactlyOnceUnit;
import ottla.pipeline.Place;
import ottla.pipeline.SinkError;
import ottla.pipeline.SinkOptions;

/**
 * What unit_kills.py does, with the units that the JVM writes: batches in a loop, to be killed.
 *
 * Arguments: the log's directory, the run, the number of batches, the batch and the number of its units after which
 * it kills itself (-1: never), and the sink's options as name=value.
 */
public final class UnitKills {
    private static final int UNITS = 3;
    private static final int ROWS = 60;
    private static final int FENCED = 3;

    public static void main(String[] arguments) throws Exception {
        Path log = Path.of(arguments[0]);
        String run = arguments[1];
        int batches = Integer.parseInt(arguments[2]);
        int diesInBatch = Integer.parseInt(arguments[3]);
        int afterUnits = Integer.parseInt(arguments[4]);
        Map<String, String> options = new HashMap<>();
        for (int i = 5; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            options.put(pair[0], pair[1]);
        }
        beTheOnlyProcess();
        SinkOptions settings = new SinkOptions(options);
        Random order = new Random(run.hashCode());
        Files.createFile(log.resolve("ready " + run));
        for (int batch = finished(log); batch < batches; batch++) {
            List<Integer> units = new ArrayList<>(List.of(0, 1, 2));
            Collections.shuffle(units, order);
            for (int task = 0; task < UNITS; task++) {
                dieIf(batch == diesInBatch && task == afterUnits);
                try {
                    write(settings, options.get("ottla.topic"), batch, units.get(task), run, task);
                } catch (SinkError error) {
                    System.out.println(error.getMessage());
                    boolean isFenced = error.getMessage().contains("taken over")
                        || error.getMessage().contains("is written already");
                    Runtime.getRuntime().halt(isFenced ? FENCED : 1);
                }
            }
            dieIf(batch == diesInBatch && afterUnits == UNITS);
            new File(log.toFile(), String.valueOf(batch)).createNewFile();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void write(SinkOptions settings, String topic, int batch, int unit, String run, int task) {
        ExactlyOnceUnit writer =
            ExactlyOnceUnit.open(settings, new Place(batch, "query", run, task, ""), "in-" + unit);
        try {
            if (writer.isWritten()) {
                return;
            }
            for (int row = 0; row < ROWS; row++) {
                String value = String.valueOf((batch * UNITS + unit) * ROWS + row);
                writer.send(topic, null, null, null, value.getBytes(StandardCharsets.UTF_8), null);
            }
            writer.commit();
        } finally {
            writer.abort();
        }
    }

    /** As in Spark's local mode, where the entries of kept producers are believed. */
    private static void beTheOnlyProcess() throws Exception {
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        SparkEnv env = (SparkEnv) ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(SparkEnv.class);
        Field executor = SparkEnv.class.getDeclaredField("executorId");
        executor.setAccessible(true);
        executor.set(env, "driver");
        SparkEnv.set(env);
    }

    private static int finished(Path log) {
        int found = 0;
        for (String name : log.toFile().list()) {
            if (name.matches("[0-9]+")) {
                found = Math.max(found, Integer.parseInt(name) + 1);
            }
        }
        return found;
    }

    private static void dieIf(boolean isTime) throws IOException {
        if (isTime) {
            new ProcessBuilder("kill", "-9", String.valueOf(ProcessHandle.current().pid())).start();
            while (true) {
                Thread.onSpinWait();
            }
        }
    }
}
