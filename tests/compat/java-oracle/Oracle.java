import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

/** Reads "request|response|subscription|assignment key version hex" lines; answers what Kafka's own classes write after reading. */
public final class Oracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split(" ", -1)));
        }
        out.flush();
    }

    private static String answer(String[] words) {
        try {
            short version = Short.parseShort(words[2]);
            ApiMessage message = empty(words[0], Short.parseShort(words[1]));
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            message.read(new ByteBufferAccessor(bytes), version);
            if (bytes.hasRemaining()) {
                return "left " + bytes.remaining();
            }
            ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] raw = new byte[written.remaining()];
            written.get(raw);
            return HexFormat.of().formatHex(raw);
        } catch (Throwable fault) {
            return "fault " + fault.toString().replace('\n', ' ');
        }
    }

    private static ApiMessage empty(String kind, short key) {
        switch (kind) {
            case "request":
                return ApiMessageType.fromApiKey(key).newRequest();
            case "response":
                return ApiMessageType.fromApiKey(key).newResponse();
            case "subscription":
                return new ConsumerProtocolSubscription();
            default:
                return new ConsumerProtocolAssignment();
        }
    }
}
