import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileReader;
import java.io.FileWriter;
import java.net.InetAddress;
import java.util.Optional;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ClientRequestQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Throttles drawn clients with Apache Kafka's own quota managers.
 *
 * Each line of the first file is an order, and has a line in the second one: "new kind samples windowSeconds" begins
 * a manager (kind: bytes, request or mutation); "limit user client value" sets a quota ("*" is the default, "." is
 * absent, the value "-" removes it); "record ms user client amount" answers the throttle time, "back ..." takes an
 * amount back, "most user client" answers the largest amount that passes; "admit" and "permit" are the strict and
 * the permissive way of a mutation.
 */
public final class QuotaOracle {
    private static long now = 0;
    private static Metrics metrics;
    private static ClientQuotaManager manager;

    private static final Time CLOCK = new Time() {
        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000L;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }
    };

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader in = new BufferedReader(new FileReader(arguments[0]));
             BufferedWriter out = new BufferedWriter(new FileWriter(arguments[1]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.write(answer(line.split(" ")));
                out.newLine();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "new":
                begin(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                return "ok";
            case "limit":
                manager.updateQuota(user(words[1]), client(words[2]), words[3].equals("-")
                    ? Optional.empty() : Optional.of(Quota.upperBound(Double.parseDouble(words[3]))));
                return "ok";
            case "most":
                return String.valueOf(manager.maxValueInQuotaWindow(session(words[1]), words[2]));
            default:
                now = Long.parseLong(words[1]);
                return recorded(words[0], session(words[2]), words[3], Double.parseDouble(words[4]));
        }
    }

    private static String recorded(String order, Session session, String client, double amount) {
        switch (order) {
            case "record":
            case "admit":
                return String.valueOf(manager.maybeRecordAndGetThrottleTimeMs(session, client, amount, now));
            case "back":
                if (manager.quotasEnabled()) {
                    manager.unrecordQuotaSensor(session, client, amount, now);
                }
                return "ok";
            case "permit":
                ControllerMutationQuota quota =
                    ((ControllerMutationQuotaManager) manager).newPermissiveQuotaFor(session, client);
                quota.record(amount);
                return String.valueOf(quota.throttleTime());
            default:
                throw new IllegalArgumentException(order);
        }
    }

    private static void begin(String kind, int samples, int windowSeconds) {
        if (manager != null) {
            manager.initiateShutdown();
            metrics.close();
        }
        metrics = new Metrics(CLOCK);
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(samples, windowSeconds);
        switch (kind) {
            case "bytes":
                manager = new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, CLOCK, "", Optional.empty());
                break;
            case "request":
                manager = new ClientRequestQuotaManager(config, metrics, CLOCK, "", Optional.empty());
                break;
            default:
                manager = new ControllerMutationQuotaManager(config, metrics, CLOCK, "", Optional.empty());
        }
    }

    private static Session session(String user) throws Exception {
        return new Session(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user), InetAddress.getLoopbackAddress());
    }

    private static Optional<ConfigEntity> user(String name) {
        if (name.equals(".")) {
            return Optional.empty();
        }
        return Optional.of(name.equals("*")
            ? ClientQuotaManager.DEFAULT_USER_ENTITY : new ClientQuotaManager.UserEntity(name));
    }

    private static Optional<ConfigEntity> client(String name) {
        if (name.equals(".")) {
            return Optional.empty();
        }
        return Optional.of(name.equals("*")
            ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID : new ClientQuotaManager.ClientIdEntity(name));
    }
}
