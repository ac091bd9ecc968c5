import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.message.EnvelopeRequestData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.CreateTopicsRequest;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;

/** Reads an envelope as an Apache Kafka controller does, and writes the same one. */
public class EnvelopeOracle {
    public static void main(String[] arguments) throws Exception {
        byte[] bytes = Files.readAllBytes(Paths.get(arguments[0]));
        EnvelopeRequestData envelope = new EnvelopeRequestData(
            new ByteBufferAccessor(ByteBuffer.wrap(bytes)), (short) 0);
        DefaultKafkaPrincipalBuilder builder = new DefaultKafkaPrincipalBuilder(null, null);
        KafkaPrincipal principal = builder.deserialize(envelope.requestPrincipal());
        ByteBuffer data = ByteBuffer.wrap(MessageUtil.byteBufferToArray(envelope.requestData()));
        RequestHeader header = RequestHeader.parse(data);
        CreateTopicsRequest request = (CreateTopicsRequest) AbstractRequest.parseRequest(
            header.apiKey(), header.apiVersion(),
            new ByteBufferAccessor(data)).request;
        InetAddress address = InetAddress.getByAddress(envelope.clientHostAddress());
        String told = header.apiKey() + " " + header.apiVersion() + " " + header.correlationId() + " "
            + header.clientId() + " " + principal + " " + address.getHostAddress() + " "
            + ((CreatableTopic) request.data().topics().iterator().next()).name();

        ByteBuffer body = MessageUtil.toByteBufferAccessor(request.data(), header.apiVersion()).buffer();
        ByteBuffer head = MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion()).buffer();
        ByteBuffer inside = ByteBuffer.allocate(head.remaining() + body.remaining());
        inside.put(head);
        inside.put(body);
        inside.flip();
        EnvelopeRequestData again = new EnvelopeRequestData()
            .setRequestData(inside)
            .setRequestPrincipal(builder.serialize(principal))
            .setClientHostAddress(address.getAddress());
        ByteBuffer written = MessageUtil.toByteBufferAccessor(again, (short) 0).buffer();
        StringBuilder hex = new StringBuilder();
        while (written.hasRemaining()) {
            hex.append(String.format("%02x", new Object[] {Byte.valueOf(written.get())}));
        }
        Files.write(Paths.get(arguments[1]), (told + "\n" + hex + "\n").getBytes(StandardCharsets.UTF_8));
    }
}
