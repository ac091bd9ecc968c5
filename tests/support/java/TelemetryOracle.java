import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileReader;
import java.io.FileWriter;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsRequestData;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsResponseData;
import org.apache.kafka.common.message.PushTelemetryRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.GetTelemetrySubscriptionsRequest;
import org.apache.kafka.common.requests.PushTelemetryRequest;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.ClientMetricsManager;
import org.apache.kafka.server.metrics.ClientTelemetryExporterPlugin;

/**
 * Answers drawn clients with Apache Kafka's own manager of client metrics.
 *
 * Each line of the first file is an order of words apart by tabs, and has a line in the second one: "new maxBytes"
 * begins a manager, "subscription name key=value ..." sets one (without values it is removed), "get" and "push" are
 * requests (see the code for their words), "closed connection" is a connection's end.
 */
public final class TelemetryOracle {
    private static long now = 0;
    private static ClientMetricsManager manager;

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
                out.write(answer(line.split("\t", -1)));
                out.newLine();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "new":
                ClientTelemetryExporterPlugin plugin = new ClientTelemetryExporterPlugin();
                TelemetryReceiver receiver = new TelemetryReceiver();
                plugin.add(receiver.clientReceiver());
                manager = new ClientMetricsManager(plugin, Integer.parseInt(words[1]), CLOCK, new Metrics());
                return "ok";
            case "subscription":
                return subscription(words);
            case "get":
                return get(words);
            case "push":
                return push(words);
            default:
                manager.connectionDisconnectListener().onDisconnect(words[1]);
                return "ok";
        }
    }

    private static String subscription(String[] words) {
        Properties values = new Properties();
        for (int i = 2; i < words.length; i++) {
            int at = words[i].indexOf('=');
            values.setProperty(words[i].substring(0, at), words[i].substring(at + 1));
        }
        try {
            manager.updateSubscription(words[1], values);
            return "0";
        } catch (Exception problem) {
            return String.valueOf(Errors.forException(problem).code());
        }
    }

    /** Words: get, ms, instance id, connection, client id, software, its version, address, port. */
    private static String get(String[] words) throws Exception {
        now = Long.parseLong(words[1]);
        GetTelemetrySubscriptionsRequestData asked = new GetTelemetrySubscriptionsRequestData();
        asked.setClientInstanceId(Uuid.fromString(words[2]));
        GetTelemetrySubscriptionsResponseData told = manager.processGetTelemetrySubscriptionRequest(
            new GetTelemetrySubscriptionsRequest.Builder(asked).build((short) 0),
            context(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, words)).data();
        return told.errorCode() + "|" + told.throttleTimeMs() + "|" + told.clientInstanceId() + "|"
            + told.subscriptionId() + "|" + told.pushIntervalMs() + "|" + told.telemetryMaxBytes() + "|"
            + told.deltaTemporality() + "|" + told.acceptedCompressionTypes() + "|" + told.requestedMetrics();
    }

    /** Words: as of get, then subscription id, terminating, compression type, metrics in hexadecimal. */
    private static String push(String[] words) throws Exception {
        now = Long.parseLong(words[1]);
        PushTelemetryRequestData pushed = new PushTelemetryRequestData();
        pushed.setClientInstanceId(Uuid.fromString(words[2]));
        pushed.setSubscriptionId(Integer.parseInt(words[9]));
        pushed.setTerminating(Boolean.parseBoolean(words[10]));
        pushed.setCompressionType(Byte.parseByte(words[11]));
        pushed.setMetrics(ByteBuffer.wrap(HexFormat.of().parseHex(words[12])));
        return String.valueOf(manager.processPushTelemetryRequest(
            new PushTelemetryRequest.Builder(pushed).build((short) 0),
            context(ApiKeys.PUSH_TELEMETRY, words)).data().errorCode());
    }

    private static RequestContext context(ApiKeys key, String[] words) throws Exception {
        return new RequestContext(
            new RequestHeader(key, (short) 0, words[4], 1),
            words[3],
            InetAddress.getByName(words[7]),
            Optional.of(Integer.valueOf(words[8])),
            KafkaPrincipal.ANONYMOUS,
            ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
            SecurityProtocol.PLAINTEXT,
            new ClientInformation(words[5], words[6]),
            false);
    }
}
