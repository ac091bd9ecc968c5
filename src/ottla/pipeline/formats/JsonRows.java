package ottla.pipeline;

import java.io.IOException;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Locale;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.util.JsonRecyclerPools;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Plain JSON objects as rows of Spark: the common case of from_json, several times as fast.
 *
 * An object is plain if it says just what from_json and ottla's checks of its result would take without a doubt:
 * each field once, and of its type. For all else there is no row, and json_format.py asks from_json. Written for
 * Janino: no generics, no lambdas. It has no state, so that tasks may share it.
 */
public final class JsonRows implements Serializable {
    private static final long serialVersionUID = 1L;

    private static final int TEXT = 0;
    private static final int INTEGER = 1;
    private static final int LONG = 2;
    private static final int DOUBLE = 3;
    private static final int BOOLEAN = 4;
    private static final int ARRAY = 5;
    private static final int OBJECT = 6;

    // Spark's threads have hundreds of thread-local values, among which Jackson's own pool would look for its one.
    private static final JsonFactory FACTORY =
        (JsonFactory) JsonFactory.builder().recyclerPool(JsonRecyclerPools.newConcurrentDequePool()).build();

    private static final Object UNSURE = new Object();

    /** A type: how its values are read. */
    private static final class Shape implements Serializable {
        private static final long serialVersionUID = 1L;
        int kind;
        boolean mayBeNull;
        Shape[] inner;
        HashMap places;
    }

    private final Shape shape;

    /**
     * lowerToo: a field's name may be written in lower case.
     *
     * Raises IllegalArgumentException for a type that it does not read: see `reads`.
     */
    public JsonRows(DataType type, boolean lowerToo) {
        if (!reads(type, lowerToo)) {
            throw new IllegalArgumentException(type.toString());
        }
        this.shape = shapeOf(type, true, lowerToo);
    }

    /** Whether this class has rows of a type: an object of texts, numbers, truth values, arrays and objects. */
    public static boolean reads(DataType type, boolean lowerToo) {
        return type instanceof StructType && shapeOf(type, true, lowerToo) != null;
    }

    private static Shape shapeOf(DataType type, boolean mayBeNull, boolean lowerToo) {
        Shape made = new Shape();
        made.mayBeNull = mayBeNull;
        if (type.equals(DataTypes.StringType)) {
            made.kind = TEXT;
        } else if (type instanceof IntegerType) {
            made.kind = INTEGER;
        } else if (type instanceof LongType) {
            made.kind = LONG;
        } else if (type instanceof DoubleType) {
            made.kind = DOUBLE;
        } else if (type instanceof BooleanType) {
            made.kind = BOOLEAN;
        } else if (type instanceof ArrayType) {
            made.kind = ARRAY;
            Shape element = shapeOf(((ArrayType) type).elementType(), ((ArrayType) type).containsNull(), lowerToo);
            if (element == null) {
                return null;
            }
            made.inner = new Shape[] {element};
        } else if (type instanceof StructType) {
            made.kind = OBJECT;
            StructField[] fields = ((StructType) type).fields();
            made.inner = new Shape[fields.length];
            made.places = new HashMap();
            for (int place = 0; place < fields.length; place++) {
                made.inner[place] = shapeOf(fields[place].dataType(), fields[place].nullable(), lowerToo);
                if (made.inner[place] == null || made.places.put(fields[place].name(), new Integer(place)) != null) {
                    return null;
                }
            }
            for (int place = 0; lowerToo && place < fields.length; place++) {
                String other = fields[place].name().toLowerCase(Locale.ROOT);
                Integer its = (Integer) made.places.get(other);
                if (its == null) {
                    made.places.put(other, new Integer(place));
                } else if (!fields[its.intValue()].name().equals(other)) {
                    return null; // two fields have one name in lower case
                }
            }
        } else {
            return null;
        }
        return made;
    }

    /** The row of a plain object, null for any other bytes. */
    public InternalRow decode(byte[] bytes) {
        if (bytes.length == 0 || bytes[0] != '{' || !isText(bytes)) {
            return null;
        }
        try {
            JsonParser parser = FACTORY.createParser(bytes);
            try {
                parser.nextToken();
                Object found = object(parser, shape);
                return found == UNSURE || parser.nextToken() != null ? null : (InternalRow) found;
            } finally {
                parser.close();
            }
        } catch (IOException notPlain) {
            return null;
        }
    }

    /** Whether bytes are UTF-8 without zeros, by which Jackson would take them for another encoding. */
    private static boolean isText(byte[] bytes) {
        boolean isAscii = true;
        for (int at = 0; at < bytes.length; at++) {
            if (bytes[at] == 0) {
                return false;
            }
            isAscii &= bytes[at] > 0;
        }
        return isAscii || UTF8String.fromBytes(bytes).isValid();
    }

    private static Object object(JsonParser parser, Shape shape) throws IOException {
        Object[] values = new Object[shape.inner.length];
        boolean[] seen = new boolean[values.length];
        String name = parser.nextFieldName();
        while (name != null) {
            JsonToken token = parser.nextToken();
            Integer place = (Integer) shape.places.get(name);
            if (place == null) {
                parser.skipChildren();
            } else {
                int at = place.intValue();
                Object value = seen[at] ? UNSURE : value(parser, token, shape.inner[at]);
                if (value == UNSURE) {
                    return UNSURE;
                }
                seen[at] = true;
                values[at] = value;
            }
            name = parser.nextFieldName();
        }
        for (int at = 0; at < values.length; at++) {
            if (values[at] == null && !shape.inner[at].mayBeNull) {
                return UNSURE;
            }
        }
        return new GenericInternalRow(values);
    }

    private static Object value(JsonParser parser, JsonToken token, Shape shape) throws IOException {
        if (token == JsonToken.VALUE_NULL) {
            return shape.mayBeNull ? null : UNSURE;
        }
        switch (shape.kind) {
            case TEXT:
                return token == JsonToken.VALUE_STRING ? UTF8String.fromString(parser.getText()) : UNSURE;
            case INTEGER:
                return token == JsonToken.VALUE_NUMBER_INT ? (Object) new Integer(parser.getIntValue()) : UNSURE;
            case LONG:
                return token == JsonToken.VALUE_NUMBER_INT ? (Object) new Long(parser.getLongValue()) : UNSURE;
            case DOUBLE:
                if (token != JsonToken.VALUE_NUMBER_INT && token != JsonToken.VALUE_NUMBER_FLOAT) {
                    return UNSURE;
                }
                double number = parser.getDoubleValue();
                return Double.isInfinite(number) || Double.isNaN(number) ? UNSURE : (Object) new Double(number);
            case BOOLEAN:
                if (token == JsonToken.VALUE_TRUE) {
                    return Boolean.TRUE;
                }
                return token == JsonToken.VALUE_FALSE ? (Object) Boolean.FALSE : UNSURE;
            case ARRAY:
                return token == JsonToken.START_ARRAY ? array(parser, shape.inner[0]) : UNSURE;
            default:
                return token == JsonToken.START_OBJECT ? object(parser, shape) : UNSURE;
        }
    }

    private static Object array(JsonParser parser, Shape element) throws IOException {
        Object[] found = new Object[8];
        int length = 0;
        JsonToken token = parser.nextToken();
        while (token != JsonToken.END_ARRAY) {
            Object value = value(parser, token, element);
            if (value == UNSURE) {
                return UNSURE;
            }
            if (length == found.length) {
                Object[] longer = new Object[2 * length];
                System.arraycopy(found, 0, longer, 0, length);
                found = longer;
            }
            found[length++] = value;
            token = parser.nextToken();
        }
        Object[] whole = new Object[length];
        System.arraycopy(found, 0, whole, 0, length);
        return new GenericArrayData(whole);
    }

    public String toString() {
        return "plain JSON";
    }
}
