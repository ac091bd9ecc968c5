import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Answers, line by line, what Kafka Connect's own classes make of records. A question and an answer are JSON
 * objects; values carry their class (["i8", 5]), see connect_oracle.py beside this file.
 */
public class ConnectOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<JsonNode, Object> PLUGINS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        String question;
        while ((question = questions.readLine()) != null) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(question), answer);
            } catch (Throwable error) {
                answer = JSON.createObjectNode();
                answer.put("error", error.getClass().getSimpleName());
                answer.put("message", String.valueOf(error.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void answer(JsonNode question, ObjectNode answer) throws Exception {
        switch (question.get("ask").asText()) {
            case "forget" -> PLUGINS.clear();
            case "transform" -> transform(question, answer);
            case "predicate" -> {
                Predicate predicate = plugin(question);
                answer.put("holds", predicate.test(record(question.get("record"))));
            }
            case "from" -> {
                Schema schema = schema(question.get("schema"));
                byte[] data = converter(question).fromConnectData("t", schema, value(question.get("value"), schema));
                answer.put("data", data == null ? null : Base64.getEncoder().encodeToString(data));
            }
            case "to" -> put(answer, converter(question).toConnectData("t", data(question)));
            case "header" -> {
                HeaderConverter converter = plugin(question);
                put(answer, converter.toConnectHeader("t", "h", data(question)));
            }
            case "header-text" -> {
                HeaderConverter converter = plugin(question);
                Schema schema = schema(question.get("schema"));
                byte[] data = converter.fromConnectHeader("t", "h", schema, value(question.get("value"), schema));
                answer.put("data", data == null ? null : Base64.getEncoder().encodeToString(data));
            }
            case "parse" -> put(answer, Values.parseString(question.get("text").asText()));
            case "date" -> {
                SimpleDateFormat format = new SimpleDateFormat(question.get("pattern").asText());
                format.setTimeZone(TimeZone.getTimeZone("UTC"));
                if (question.has("ms")) {
                    answer.put("text", format.format(new Date(question.get("ms").asLong())));
                } else {
                    ParsePosition position = new ParsePosition(0);
                    Date found = format.parse(question.get("text").asText(), position);
                    answer.put("ms", found == null || position.getIndex() == 0 ? null : (Long) found.getTime());
                }
            }
            case "regex" -> {
                Matcher matcher = Pattern.compile(question.get("pattern").asText()).matcher(question.get("text").asText());
                answer.put("matches", matcher.matches());
                if (question.has("replacement")) {
                    answer.put("replaced", matcher.replaceFirst(question.get("replacement").asText()));
                }
            }
            default -> throw new IllegalArgumentException(question.get("ask").asText());
        }
    }

    private static void put(ObjectNode answer, SchemaAndValue found) {
        Schema schema = found == null ? null : found.schema();
        answer.set("schema", told(schema));
        answer.set("value", found == null ? null : told(found.value()));
    }

    private static byte[] data(JsonNode question) {
        return question.get("data").isNull() ? null : Base64.getDecoder().decode(question.get("data").asText());
    }

    @SuppressWarnings("unchecked")
    private static <T> T plugin(JsonNode question) throws Exception {
        ArrayNode key = JSON.createArrayNode().add(question.get("class")).add(question.get("config"));
        Object known = PLUGINS.get(key);
        if (known == null) {
            known = Class.forName(question.get("class").asText()).getDeclaredConstructor().newInstance();
            Map<String, Object> config = JSON.convertValue(question.get("config"), Map.class);
            if (known instanceof Transformation) {
                ((Transformation<?>) known).configure(config);
            } else if (known instanceof Predicate) {
                ((Predicate<?>) known).configure(config);
            } else if (known instanceof Converter) {
                ((Converter) known).configure(config, false);
            }
            PLUGINS.clear();
            PLUGINS.put(key, known);
        }
        return (T) known;
    }

    private static Converter converter(JsonNode question) throws Exception {
        return plugin(question);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void transform(JsonNode question, ObjectNode answer) throws Exception {
        Transformation transformation = plugin(question);
        ConnectRecord<?> changed = transformation.apply(record(question.get("record")));
        if (changed == null) {
            answer.putNull("record");
            return;
        }
        ObjectNode record = answer.putObject("record");
        record.put("topic", changed.topic());
        record.put("partition", changed.kafkaPartition());
        record.set("keySchema", told(changed.keySchema()));
        record.set("key", told(changed.key()));
        record.set("valueSchema", told(changed.valueSchema()));
        record.set("value", told(changed.value()));
        record.put("timestamp", changed.timestamp());
        ArrayNode headers = record.putArray("headers");
        for (Header header : (Iterable<Header>) changed.headers()) {
            headers.addArray().add(header.key()).add(told(header.schema())).add(told(header.value()));
        }
    }

    private static ConnectRecord<?> record(JsonNode node) {
        Schema keySchema = schema(node.get("keySchema"));
        Schema valueSchema = schema(node.get("valueSchema"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : node.get("headers")) {
            Schema schema = schema(header.get(1));
            headers.add(header.get(0).asText(), new SchemaAndValue(schema, value(header.get(2), schema)));
        }
        JsonNode timestamp = node.get("timestamp");
        if (node.get("offset").isNull()) {
            return new SourceRecord(
                Map.of(),
                Map.of(),
                node.get("topic").asText(),
                node.get("partition").asInt(),
                keySchema,
                value(node.get("key"), keySchema),
                valueSchema,
                value(node.get("value"), valueSchema),
                timestamp.isNull() ? null : timestamp.asLong(),
                headers
            );
        }
        return new SinkRecord(
            node.get("topic").asText(),
            node.get("partition").asInt(),
            keySchema,
            value(node.get("key"), keySchema),
            valueSchema,
            value(node.get("value"), valueSchema),
            node.get("offset").asLong(),
            timestamp.isNull() ? null : timestamp.asLong(),
            TimestampType.CREATE_TIME,
            headers
        );
    }

    // -- what is asked -----------------------------------------------------------------------------------

    private static Schema schema(JsonNode node) {
        if (node == null || node.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(node.get("type").asText());
        SchemaBuilder builder = switch (type) {
            case ARRAY -> SchemaBuilder.array(schema(node.get("values")));
            case MAP -> SchemaBuilder.map(schema(node.get("keys")), schema(node.get("values")));
            default -> new SchemaBuilder(type);
        };
        if (node.get("optional").asBoolean()) {
            builder.optional();
        }
        if (!node.get("name").isNull()) {
            builder.name(node.get("name").asText());
        }
        if (!node.get("version").isNull()) {
            builder.version(node.get("version").asInt());
        }
        if (!node.get("doc").isNull()) {
            builder.doc(node.get("doc").asText());
        }
        node.get("parameters").fields().forEachRemaining(e -> builder.parameter(e.getKey(), e.getValue().asText()));
        for (JsonNode field : node.get("fields")) {
            builder.field(field.get(0).asText(), schema(field.get(1)));
        }
        if (!node.get("default").isNull()) {
            builder.defaultValue(value(node.get("default"), type == Schema.Type.STRUCT ? builder.build() : builder));
        }
        return builder.build();
    }

    private static Object value(JsonNode node, Schema schema) {
        if (node == null || node.isNull()) {
            return null;
        }
        JsonNode told = node.get(1);
        switch (node.get(0).asText()) {
            case "b":
                return told.asBoolean();
            case "i8":
                return (byte) told.asInt();
            case "i16":
                return (short) told.asInt();
            case "i32":
                return told.asInt();
            case "i64":
                return Long.parseLong(told.asText());
            case "f32":
                return Float.parseFloat(told.asText());
            case "f64":
                return Double.parseDouble(told.asText());
            case "s":
                return told.asText();
            case "y":
                return Base64.getDecoder().decode(told.asText());
            case "d":
                return new Date(told.asLong());
            case "n":
                return new BigDecimal(told.asText());
            case "l": {
                List<Object> list = new ArrayList<>();
                for (JsonNode each : told) {
                    list.add(value(each, schema == null ? null : schema.valueSchema()));
                }
                return list;
            }
            case "m": {
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode each : told) {
                    map.put(
                        value(each.get(0), schema == null ? null : schema.keySchema()),
                        value(each.get(1), schema == null ? null : schema.valueSchema())
                    );
                }
                return map;
            }
            case "t": {
                Struct struct = new Struct(schema);
                for (JsonNode each : told) {
                    Field field = schema.field(each.get(0).asText());
                    Object found = value(each.get(1), field.schema());
                    if (found != null) {
                        struct.put(field, found);
                    }
                }
                return struct;
            }
            default:
                throw new IllegalArgumentException(node.toString());
        }
    }

    // -- what is answered --------------------------------------------------------------------------------

    static JsonNode told(Schema schema) {
        if (schema == null) {
            return JSON.nullNode();
        }
        ObjectNode node = JSON.createObjectNode();
        node.put("type", schema.type().name());
        node.put("optional", schema.isOptional());
        node.put("name", schema.name());
        node.put("version", schema.version());
        node.put("doc", schema.doc());
        node.set("default", told(schema.defaultValue()));
        ObjectNode parameters = node.putObject("parameters");
        if (schema.parameters() != null) {
            schema.parameters().forEach(parameters::put);
        }
        ArrayNode fields = node.putArray("fields");
        if (schema.type() == Schema.Type.STRUCT) {
            for (Field field : schema.fields()) {
                fields.addArray().add(field.name()).add(told(field.schema()));
            }
        }
        boolean map = schema.type() == Schema.Type.MAP;
        node.set("keys", map ? told(schema.keySchema()) : null);
        node.set("values", map || schema.type() == Schema.Type.ARRAY ? told(schema.valueSchema()) : null);
        return node;
    }

    static JsonNode told(Object value) {
        if (value == null) {
            return JSON.nullNode();
        }
        ArrayNode node = JSON.createArrayNode();
        if (value instanceof Boolean found) {
            return node.add("b").add(found);
        } else if (value instanceof Byte || value instanceof Short || value instanceof Integer) {
            int bits = value instanceof Byte ? 8 : value instanceof Short ? 16 : 32;
            return node.add("i" + bits).add(((Number) value).intValue());
        } else if (value instanceof Long) {
            return node.add("i64").add(value.toString());
        } else if (value instanceof Float) {
            return node.add("f32").add(value.toString());
        } else if (value instanceof Double) {
            return node.add("f64").add(value.toString());
        } else if (value instanceof String text) {
            return node.add("s").add(text);
        } else if (value instanceof byte[] bytes) {
            return node.add("y").add(Base64.getEncoder().encodeToString(bytes));
        } else if (value instanceof ByteBuffer buffer) {
            return node.add("y").add(Base64.getEncoder().encodeToString(buffer.array()));
        } else if (value instanceof Date date) {
            return node.add("d").add(date.getTime());
        } else if (value instanceof BigDecimal decimal) {
            return node.add("n").add(decimal.toString());
        } else if (value instanceof List<?> list) {
            ArrayNode items = node.add("l").addArray();
            list.forEach(each -> items.add(told(each)));
            return node;
        } else if (value instanceof Map<?, ?> map) {
            ArrayNode entries = node.add("m").addArray();
            map.forEach((key, each) -> entries.addArray().add(told(key)).add(told(each)));
            return node;
        } else if (value instanceof Struct struct) {
            ArrayNode fields = node.add("t").addArray();
            for (Field field : struct.schema().fields()) {
                fields.addArray().add(field.name()).add(told(struct.getWithoutDefault(field.name())));
            }
            return node;
        }
        throw new IllegalArgumentException(value.getClass().getName());
    }
}
