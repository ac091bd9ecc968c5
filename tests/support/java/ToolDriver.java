import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after the other, in one Java virtual machine.
 *
 * A line of standard input is an order: the class, a timeout in milliseconds, what the tool reads, and its
 * arguments, apart by blanks, all but the first two in base64 ("-" is the empty text). A line of standard output
 * is the answer: the exit code, or "timeout", then what the tool wrote to its standard output and error.
 *
 * Kafka's tools end through Exit, which lets others decide what that means: here the thread that asked for the end
 * stops for good where it is, as it would in a process of its own, and the next order gets a thread of its own.
 */
public final class ToolDriver {
    private static final long HOOKS_MS = 10_000;

    /** Writes to the stream of the order under way. */
    private static final class Switched extends OutputStream {
        private volatile ByteArrayOutputStream now = new ByteArrayOutputStream();

        @Override
        public void write(int octet) {
            now.write(octet);
        }

        @Override
        public void write(byte[] bytes, int from, int length) {
            now.write(bytes, from, length);
        }
    }

    private static final Switched OUT = new Switched();
    private static final Switched ERR = new Switched();
    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static volatile CompletableFuture<Integer> end = new CompletableFuture<>();

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        System.setOut(new PrintStream(OUT, true, "UTF-8"));
        System.setErr(new PrintStream(ERR, true, "UTF-8"));
        Exit.setExitProcedure((code, message) -> endHere(code));
        Exit.setHaltProcedure((code, message) -> endHere(code));
        Exit.setShutdownHookAdder((name, hook) -> {
            synchronized (HOOKS) {
                HOOKS.add(hook);
            }
        });
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String[] words = order.split(" ");
            OUT.now = new ByteArrayOutputStream();
            ERR.now = new ByteArrayOutputStream();
            String status = run(words);
            System.out.flush();
            System.err.flush();
            answers.println(status + " " + encoded(OUT.now) + " " + encoded(ERR.now));
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String[] words) throws Exception {
        System.setIn(new ByteArrayInputStream(decoded(words[2])));
        String[] arguments = new String[words.length - 3];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = new String(decoded(words[i + 3]), "UTF-8");
        }
        CompletableFuture<Integer> mine = new CompletableFuture<>();
        end = mine;
        synchronized (HOOKS) {
            HOOKS.clear();
        }
        Thread thread = new Thread(() -> {
            try {
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
                mine.complete(0);
            } catch (InvocationTargetException thrown) {
                thrown.getCause().printStackTrace();
                mine.complete(1);
            } catch (ReflectiveOperationException problem) {
                problem.printStackTrace();
                mine.complete(127);
            }
        }, "tool");
        thread.setDaemon(true);
        thread.start();
        String status;
        try {
            status = String.valueOf(mine.get(Long.parseLong(words[1]), TimeUnit.MILLISECONDS));
        } catch (TimeoutException slow) {
            for (StackTraceElement frame : thread.getStackTrace()) {
                System.err.println("at " + frame);
            }
            status = "timeout";
        }
        runHooks();
        return status;
    }

    private static void endHere(int code) {
        end.complete(code);
        while (true) {
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException again) {
                continue;
            }
        }
    }

    private static void runHooks() throws InterruptedException {
        List<Runnable> hooks;
        synchronized (HOOKS) {
            hooks = new ArrayList<>(HOOKS);
            HOOKS.clear();
        }
        List<Thread> threads = new ArrayList<>();
        for (Runnable hook : hooks) {
            Thread thread = new Thread(hook, "tool-hook");
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join(HOOKS_MS);
        }
    }

    private static byte[] decoded(String word) {
        return word.equals("-") ? new byte[0] : Base64.getDecoder().decode(word);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return bytes.size() == 0 ? "-" : Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
