import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * Answers, line by line, what Apache Avro's own library makes of schemas. A question is a word and base64 texts:
 * "text S" (parsed with defaults checked), "stored S" (not checked), "within R S" (S refers to R's types),
 * "compare R W". An answer is "ok" or "bad", then base64 of the text or of one incompatibility a line.
 */
public class AvroOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        String question;
        while ((question = questions.readLine()) != null) {
            String answer;
            try {
                answer = "ok " + encode(answer(question.split(" ")));
            } catch (RuntimeException error) {
                answer = "bad " + encode(String.valueOf(error));
            } catch (StackOverflowError error) {
                answer = "bad " + encode(String.valueOf(error));
            }
            answers.println(answer);
        }
    }

    private static String answer(String[] words) throws Exception {
        String first = decode(words[1]);
        if (words[0].equals("text")) {
            return new Schema.Parser().parse(first).toString();
        }
        if (words[0].equals("stored")) {
            return new Schema.Parser().setValidateDefaults(false).parse(first).toString();
        }
        if (words[0].equals("within")) {
            Schema.Parser parser = new Schema.Parser();
            List references = new ArrayList();
            references.add(parser.parse(first));
            return parser.parse(decode(words[2])).toString(references, false);
        }
        Schema reader = new Schema.Parser().setValidateDefaults(false).parse(first);
        Schema writer = new Schema.Parser().setValidateDefaults(false).parse(decode(words[2]));
        SchemaCompatibility.SchemaPairCompatibility found =
            SchemaCompatibility.checkReaderWriterCompatibility(reader, writer);
        StringBuilder told = new StringBuilder();
        List incompatibilities = found.getResult().getIncompatibilities();
        for (int i = 0; i < incompatibilities.size(); i++) {
            SchemaCompatibility.Incompatibility one =
                (SchemaCompatibility.Incompatibility) incompatibilities.get(i);
            told.append(one.getType()).append("\t").append(one.getLocation()).append("\t").append(one.getMessage());
            told.append("\n");
        }
        return told.toString();
    }

    private static String encode(String text) throws Exception {
        return Base64.getEncoder().encodeToString(text.getBytes("UTF-8"));
    }

    private static String decode(String text) throws Exception {
        return new String(Base64.getDecoder().decode(text), "UTF-8");
    }
}
