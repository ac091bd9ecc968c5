import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileReader;
import java.io.FileWriter;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * Reads and writes messages with Kafka's own generated classes.
 *
 * Each line of the first file is "class from to hex": decode the bytes at version `from` (or take a new instance
 * where `from` is -1), encode at version `to`. The same line of the second file has the bytes, or "!" and the
 * exception. Plain old Java: it is compiled by Janino where the Java runtime has no compiler.
 */
public class MessageOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new FileReader(arguments[0]));
        BufferedWriter out = new BufferedWriter(new FileWriter(arguments[1]));
        String line = in.readLine();
        while (line != null) {
            out.write(answer(line.split(" ", -1)));
            out.newLine();
            line = in.readLine();
        }
        out.close();
        in.close();
    }

    private static String answer(String[] words) {
        try {
            Class type = Class.forName(words[0]);
            short from = Short.parseShort(words[1]);
            short to = Short.parseShort(words[2]);
            Message message;
            if (from < 0) {
                message = (Message) type.getConstructor(new Class[0]).newInstance(new Object[0]);
            } else {
                ByteBufferAccessor bytes = new ByteBufferAccessor(ByteBuffer.wrap(fromHex(words[3])));
                message = (Message) type.getConstructor(new Class[] {Readable.class, short.class})
                    .newInstance(new Object[] {bytes, Short.valueOf(from)});
                if (bytes.remaining() != 0) {
                    return "!" + bytes.remaining() + " bytes were not read";
                }
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, to));
            message.write(new ByteBufferAccessor(buffer), cache, to);
            if (buffer.hasRemaining()) {
                return "!" + buffer.remaining() + " bytes fewer than size() said";
            }
            return toHex(buffer.array());
        } catch (InvocationTargetException error) {
            return "!" + String.valueOf(error.getCause()).replace('\n', ' ');
        } catch (Throwable error) {
            return "!" + String.valueOf(error).replace('\n', ' ');
        }
    }

    private static byte[] fromHex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static String toHex(byte[] bytes) {
        String digits = "0123456789abcdef";
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < bytes.length; i++) {
            text.append(digits.charAt((bytes[i] >> 4) & 15)).append(digits.charAt(bytes[i] & 15));
        }
        return text.toString();
    }
}
