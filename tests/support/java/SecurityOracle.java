import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/**
 * Answers questions about security with Java's and Kafka's own classes, a line each.
 *
 * A question is a word and its arguments in Base64; the answer "ok TEXT", or "no TEXT" with an exception's words,
 * in Base64 as well. Plain old Java, as Janino compiles it.
 */
public class SecurityOracle {
    private static StandardAuthorizer authorizer;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        String line = in.readLine();
        while (line != null) {
            String verdict = "ok ";
            String told;
            try {
                told = answer(line.split(" ", -1));
            } catch (Throwable problem) {
                verdict = "no ";
                told = problem.getClass().getSimpleName() + " " + problem.getMessage();
            }
            out.println(verdict + Base64.getEncoder().encodeToString(told.getBytes(StandardCharsets.UTF_8)));
            line = in.readLine();
        }
    }

    private static String answer(String[] words) throws Exception {
        if (words[0].equals("name")) {
            return new X500Principal(bytes(words[1])).getName();
        }
        if (words[0].equals("map")) {
            return SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
        }
        if (words[0].equals("acls")) {
            load(text(words[1]), text(words[2]), text(words[3]));
            return "";
        }
        if (words[0].equals("authorize")) {
            List actions = new ArrayList();
            actions.add(action(text(words[3]), text(words[4]), text(words[5])));
            return String.valueOf(authorizer.authorize(new Context(text(words[1]), text(words[2])), actions).get(0));
        }
        if (words[0].equals("by-type")) {
            Context context = new Context(text(words[1]), text(words[2]));
            AclOperation operation = AclOperation.fromCode(Byte.parseByte(text(words[3])));
            ResourceType type = ResourceType.fromCode(Byte.parseByte(text(words[4])));
            return String.valueOf(authorizer.authorizeByResourceType(context, operation, type));
        }
        if (words[0].equals("validate")) {
            Class manager = Class.forName("org.apache.kafka.controller.AclControlManager");
            Method method = null;
            Method[] methods = manager.getDeclaredMethods();
            for (int at = 0; at < methods.length; at++) {
                if (methods[at].getName().equals("validateNewAcl")) {
                    method = methods[at];
                }
            }
            method.setAccessible(true);
            try {
                method.invoke(null, new Object[] {acl(text(words[1])).toBinding(), Boolean.valueOf(text(words[2]))});
            } catch (InvocationTargetException problem) {
                return problem.getCause().getMessage();
            }
            return "valid";
        }
        throw new IllegalArgumentException(words[0]);
    }

    /** An ACL is a line: type, pattern type, operation and permission as numbers, name, principal, host. */
    private static void load(String superUsers, String allowIfNoAcl, String lines) throws Exception {
        Map configs = new HashMap();
        configs.put("node.id", "1");
        configs.put("super.users", superUsers);
        configs.put("allow.everyone.if.no.acl.found", allowIfNoAcl);
        authorizer = new StandardAuthorizer();
        authorizer.configure(configs);
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new LinkedHashMap()));
        Map acls = new HashMap();
        String[] all = lines.split("\n", -1);
        for (int at = 0; at < all.length; at++) {
            if (all[at].length() > 0) {
                acls.put(Uuid.randomUuid(), acl(all[at]));
            }
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
    }

    private static StandardAcl acl(String line) {
        String[] parts = line.split("\t", -1);
        return new StandardAcl(
            ResourceType.fromCode(Byte.parseByte(parts[0])),
            parts[4],
            PatternType.fromCode(Byte.parseByte(parts[1])),
            parts[5],
            parts[6],
            AclOperation.fromCode(Byte.parseByte(parts[2])),
            AclPermissionType.fromCode(Byte.parseByte(parts[3])));
    }

    private static Action action(String operation, String type, String name) {
        ResourcePattern pattern = new ResourcePattern(
            ResourceType.fromCode(Byte.parseByte(type)), name, PatternType.LITERAL);
        return new Action(AclOperation.fromCode(Byte.parseByte(operation)), pattern, 1, false, false);
    }

    private static class Context implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Context(String principal, String host) throws Exception {
            int colon = principal.indexOf(':');
            this.principal = new KafkaPrincipal(principal.substring(0, colon), principal.substring(colon + 1));
            this.address = InetAddress.getByName(host);
        }

        public String listenerName() {
            return "SASL_SSL";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.SASL_SSL;
        }

        public KafkaPrincipal principal() {
            return principal;
        }

        public InetAddress clientAddress() {
            return address;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "client";
        }

        public int correlationId() {
            return 0;
        }
    }

    private static byte[] bytes(String word) {
        return Base64.getDecoder().decode(word);
    }

    private static String text(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }
}
