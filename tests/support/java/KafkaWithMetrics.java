import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Apache Kafka's server, and beside it a port of this machine at which each connection gets the attributes of all
 * of Kafka's MBeans: a line of domain, key properties, attribute and value, with tabs between.
 */
public final class KafkaWithMetrics {
    public static void main(String[] arguments) throws Exception {
        ServerSocket listener =
            new ServerSocket(Integer.parseInt(arguments[0]), 10, InetAddress.getByName("127.0.0.1"));
        Thread thread = new Thread(() -> serve(listener), "mbeans");
        thread.setDaemon(true);
        thread.start();
        kafka.Kafka.main(new String[] {arguments[1]});
    }

    private static void serve(ServerSocket listener) {
        while (true) {
            try (Socket client = listener.accept();
                 PrintWriter out = new PrintWriter(
                     new OutputStreamWriter(client.getOutputStream(), StandardCharsets.UTF_8))) {
                write(out);
            } catch (Exception problem) {
                problem.printStackTrace();
            }
        }
    }

    private static void write(PrintWriter out) throws Exception {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName name : server.queryNames(new ObjectName("kafka.*:*"), null)) {
            for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                Object value;
                try {
                    value = server.getAttribute(name, attribute.getName());
                } catch (Exception gone) {
                    continue;
                }
                if (value instanceof Number || value instanceof String) {
                    out.printf("%s\t%s\t%s\t%s%n", name.getDomain(), name.getKeyPropertyListString(),
                        attribute.getName(), value);
                }
            }
        }
    }
}
