"""Tables with every type that PostgreSQL has, and rows for them: what two connectors are compared on."""

from __future__ import annotations

SCHEMA = """
CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION isn;
CREATE SCHEMA types;
CREATE TYPE types.mood AS ENUM ('sad', 'ok', 'very happy');
CREATE TYPE types.pair AS (a int, b text);
CREATE DOMAIN types.short_text AS varchar(5);
CREATE DOMAIN types.amount AS numeric(8, 3);
CREATE DOMAIN types.nested AS types.amount;
CREATE DOMAIN types.moment AS timestamp(3);
-- PostGIS is not on every machine: a type of its name whose texts are what PostGIS writes.
CREATE TYPE types.geometry;
CREATE FUNCTION types.geometry_in(cstring) RETURNS types.geometry
    AS 'textin' LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION types.geometry_out(types.geometry) RETURNS cstring
    AS 'textout' LANGUAGE internal IMMUTABLE STRICT;
CREATE TYPE types.geometry (INPUT = types.geometry_in, OUTPUT = types.geometry_out, LIKE = text);
CREATE TYPE types.vector;
CREATE FUNCTION types.vector_in(cstring) RETURNS types.vector
    AS 'textin' LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION types.vector_out(types.vector) RETURNS cstring
    AS 'textout' LANGUAGE internal IMMUTABLE STRICT;
CREATE TYPE types.vector (INPUT = types.vector_in, OUTPUT = types.vector_out, LIKE = text);
"""

COLUMNS: dict[str, tuple[str, tuple[str | None, ...]]] = {
    "si": ("smallint", ("-32768", "32767")),
    "i": ("integer", ("-2147483648", "2147483647")),
    "bi": ("bigint", ("-9223372036854775808", "9223372036854775807")),
    "r": ("real", ("3.3", "NaN", "Infinity", "-Infinity", "1e-30")),
    "db": ("double precision", ("4.44", "NaN", "Infinity", "-Infinity", "1e300", "-0")),
    "bo": ("boolean", ("true", "false")),
    "o": ("oid", ("4000000000",)),
    "n_fixed": ("numeric(6,4)", ("22.22", "-1.5", "0")),
    "n_whole": ("numeric(4)", ("22.2", "-7")),
    "n_any": (
        "numeric",
        ("22.2222", "100", "-0.000100", "1e30", "0", "0.00", "12345678901234567890.123456789"),
    ),
    "d_fixed": ("decimal(3,2)", ("1.1",)),
    "mo": ("money", ("1234.11", "-1234.11", "0.05", "-922337203685477.58")),
    "c": ("char(4)", ("ab", "日本")),
    "c1": ("char", ("x",)),
    "vc": ("varchar(10)", ("žš", "")),
    "t": ("text", ("some text", "", "line\nline", "🙂 \\ \" '", "\x01\x7f")),
    "na": ("name", ("a_name",)),
    "ch": ('"char"', ("y",)),
    "ci": ("citext", ("Hello World",)),
    "by": ("bytea", ("\\x000102ff", "\\x")),
    "b1": ("bit(1)", ("0", "1")),
    "b": ("bit", ("1",)),
    "b7": ("bit(7)", ("0000001", "1000000", "0000000")),
    "b24": ("bit(24)", ("000000110000001000000001",)),
    "vb1": ("bit varying(1)", ("1", "0")),
    "vb": ("bit varying(64)", ("1011", "000000000000000000000000000000000000000000000000001")),
    "vbu": ("bit varying", ("101",)),
    "dt": ("date", ("2016-11-04", "infinity", "-infinity", "0044-03-15 BC", "12016-01-01", "1500-02-28")),
    "ti": ("time", ("13:51:30.123456", "24:00:00", "00:00:00")),
    "ti3": ("time(3)", ("13:51:30.123",)),
    "ti0": ("time(0)", ("13:51:30",)),
    "tz": ("timetz", ("13:51:30.123789+02:00", "01:00:00+05:30", "23:00:00.5-10")),
    "tz3": ("timetz(3)", ("13:51:30.123+02:00",)),
    "ts": (
        "timestamp",
        (
            "2016-11-04 13:51:30.123456",
            "1936-10-25 22:10:12.608",
            "infinity",
            "-infinity",
            "0044-03-15 10:00:00 BC",
        ),
    ),
    "ts0": ("timestamp(0)", ("2016-11-04 13:51:30",)),
    "ts3": ("timestamp(3)", ("2016-11-04 13:51:30.123", "1969-12-31 23:59:59.999", "infinity")),
    "ts6": ("timestamp(6)", ("2016-11-04 13:51:30.123456", "21016-11-04 13:51:30.123456")),
    "tt": (
        "timestamptz",
        (
            "2016-11-04 13:51:30.123456+02:00",
            "2019-12-31 23:58:59+00",
            "infinity",
            "-infinity",
            "21016-11-04 13:51:30.123456+07:00",
            "1500-02-28 10:00:00+00",
        ),
    ),
    "tt0": ("timestamptz(0)", ("2017-10-11 22:22:22+00",)),
    "tt3": ("timestamptz(3)", ("2017-10-11 22:22:22.5+00",)),
    "it": (
        "interval",
        (
            "1 year 2 mons 3 days 04:05:06.789",
            "-1 day",
            "-00:00:01.5",
            "100 years",
            "00:00:00",
            "1 mon -3 days 4 hours",
        ),
    ),
    "js": ("json", ('{"bar": "baz",  "a":[1]}', "null")),
    "jb": ("jsonb", ('{"bar": "baz", "a": [1, 2]}',)),
    "xm": ("xml", ("<foo>bar</foo><foo>bar</foo>",)),
    "uu": ("uuid", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",)),
    "pt": ("point", ("(1,1)", "(-1.5,2e10)")),
    "bx": ("box", ("(1,1),(0,0)",)),
    "ci_": ("circle", ("<(10,20),10>",)),
    "li": ("line", ("{1,2,3}",)),
    "ls": ("lseg", ("[(0,0),(1,1)]",)),
    "pa": ("path", ("((0,0),(1,1))",)),
    "po": ("polygon", ("((0,0),(1,1))",)),
    "inet_": ("inet", ("192.168.2.0/12", "::1")),
    "cidr_": ("cidr", ("192.168.100.128/25",)),
    "mac": ("macaddr", ("08:00:2b:01:02:03",)),
    "mac8": ("macaddr8", ("08:00:2b:01:02:03:04:05",)),
    "tsr": ("tsrange", ("[2019-03-31 15:30:00, infinity)", "empty")),
    "tstzr": ("tstzrange", ("[2017-06-05 11:29:12.549426+00,)",)),
    "dr": ("daterange", ("[2019-03-31, 2019-04-30)",)),
    "i4r": ("int4range", ("[1000,6000)",)),
    "nr": ("numrange", ("[5.3,6.3)",)),
    "i8r": ("int8range", ("[1000000,6000000)",)),
    "i4m": ("int4multirange", ("{[1,2),[5,7)}",)),
    "tv": ("tsvector", ("'a':1 'cat':2",)),
    "tq": ("tsquery", ("'a' & 'b'",)),
    "lsn": ("pg_lsn", ("16/B374D848",)),
    "jp": ("jsonpath", ("$.a",)),
    "rc": ("regclass", ("pg_class",)),
    "hs": ("hstore", ('"key"=>"val"', '"k1"=>"v 1", "k2"=>NULL, "q\\"x"=>"ü"')),
    "lt": ("ltree", ("Top.Collections.Pictures",)),
    "isb": ("isbn", ("978-0-393-04002-9",)),
    "en": ("types.mood", ("ok", "very happy")),
    "co": ("types.pair", ("(1,x)",)),
    "do_t": ("types.short_text", ("abc",)),
    "do_a": ("types.amount", ("1.5",)),
    "do_n": ("types.nested", ("2.25",)),
    "do_m": ("types.moment", ("2016-11-04 13:51:30.123",)),
    "geo": (
        "types.geometry",
        ("0101000020730C00001C7C613255DE6540787AA52C435C42C0", "0101000000000000000000F03F000000000000F03F"),
    ),
    "vec": ("types.vector", ("[1,2.5,3]",)),
    "a_i2": ("smallint[]", ("{1,2}",)),
    "a_i4": ("integer[]", ("{1,NULL,3}", "{}")),
    "a_i8": ("bigint[]", ("{1550166368505037572}",)),
    "a_t": ("text[]", ('{one,"two, three","q\\"uo\\\\te",NULL,"NULL",""}',)),
    "a_c": ("char(5)[]", ("{ab,abcde}",)),
    "a_v": ("varchar(10)[]", ("{vcone,vctwo}",)),
    "a_d": ("date[]", ("{2016-11-04,2016-11-05}",)),
    "a_n": ("numeric(10,2)[]", ("{1.2,3.4,NULL}",)),
    "a_na": ("numeric[]", ("{1.1,2.22,100}",)),
    "a_f4": ("real[]", ("{1.5,NULL}",)),
    "a_f8": ("double precision[]", ("{1.5,2.25}",)),
    "a_b": ("boolean[]", ("{t,f,NULL}",)),
    "a_ci": ("citext[]", ("{four,five}",)),
    "a_in": ("inet[]", ("{192.168.2.0/12,192.168.1.1}",)),
    "a_cd": ("cidr[]", ("{192.168.100.128/25}",)),
    "a_ma": ("macaddr[]", ("{08:00:2b:01:02:03}",)),
    "a_tr": ("tsrange[]", ('{"[2019-03-31 15:31:00, infinity)"}',)),
    "a_i4r": ("int4range[]", ('{"[1,6)","[3,9)"}',)),
    "a_u": ("uuid[]", ("{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",)),
    "a_js": ("json[]", ('{"{\\"a\\": 1}",NULL}',)),
    "a_jb": ("jsonb[]", ('{"{\\"a\\": 1}"}',)),
    "a_o": ("oid[]", ("{3,4000000000}",)),
    "a_ti": ("time[]", ("{13:51:30.123456}",)),
    "a_tz": ("timetz[]", ("{13:51:30+02}",)),
    "a_ts": ("timestamp[]", ("{2016-11-04 13:51:30.123456}",)),
    "a_tt": ("timestamptz[]", ("{2016-11-04 13:51:30.123456+02}",)),
    "a_by": ("bytea[]", ('{"\\\\x0001","\\\\x03"}',)),
    "a_en": ("types.mood[]", ('{ok,"very happy"}',)),
    "a_hs": ("hstore[]", ('{"\\"k\\"=>\\"v\\""}',)),
    "a_lt": ("ltree[]", ("{Ship.Frigate,Ship.Destroyer}",)),
    "a_mo": ("money[]", ("{1.5}",)),
    "a_na_": ("name[]", ("{a}",)),
    "a_it": ("interval[]", ("{1 day}",)),
    "a_xm": ("xml[]", ("{<a/>}",)),
    "a_pt": ("point[]", ('{"(1,1)"}',)),
    "a_vb": ("bit varying(5)[]", ("{101}",)),
    "a_do": ("types.short_text[]", ("{abc}",)),
}
"""Columns by name: their type, and texts of values; NULL is drawn besides."""


def table_of(name: str, columns: dict[str, tuple[str, tuple[str | None, ...]]], extra: str = "") -> str:
    """CREATE TABLE with a key and these columns."""
    listed = ", ".join(f"{column} {type_name}{extra}" for column, (type_name, _) in columns.items())
    return f"CREATE TABLE {name} (pk serial PRIMARY KEY, {listed})"


def rows_of(columns: dict[str, tuple[str, tuple[str | None, ...]]]) -> list[list[str | None]]:
    """Rows in which each value comes at least once, and a row of NULL."""
    longest = max(len(values) for _, values in columns.values())
    rows: list[list[str | None]] = [
        [values[at % len(values)] for _, values in columns.values()] for at in range(longest)
    ]
    return [*rows, [None] * len(columns)]


def insert(name: str, columns: dict[str, tuple[str, tuple[str | None, ...]]]) -> str:
    """INSERT with a parameter for each column."""
    places = ", ".join(f"%s::text::{type_name}" for type_name, _ in columns.values())
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({places})"


DEFAULTS = """
CREATE TABLE types.defaults (
    pk bigserial PRIMARY KEY,
    d_bit bit(1) DEFAULT B'1', d_bits bit(4) DEFAULT B'1010', d_bool boolean DEFAULT true NOT NULL,
    d_char char(4) DEFAULT 'ab', d_varchar varchar(9) DEFAULT 'x''y' NOT NULL, d_text text DEFAULT NULL,
    d_numeric numeric(6,2) DEFAULT 1.5, d_any numeric DEFAULT 1.5, d_real real DEFAULT 1.25,
    d_double double precision DEFAULT '12345678901234567890'::numeric, d_int2 smallint DEFAULT 3::smallint,
    d_int integer DEFAULT 42 NOT NULL, d_neg integer DEFAULT -42, d_int8 bigint DEFAULT '9223372036854775807',
    d_expr integer DEFAULT 1 + 2, d_json json DEFAULT '{"a":1}', d_jsonb jsonb DEFAULT '{}' NOT NULL,
    d_xml xml DEFAULT '<a/>', d_uuid uuid DEFAULT '76019d1a-ad2e-4b22-96e9-1a6d6543c818',
    d_gen uuid DEFAULT gen_random_uuid(), d_date date DEFAULT '2016-11-04', d_today date DEFAULT CURRENT_DATE,
    d_time time DEFAULT '10:00:00.5', d_ts timestamp DEFAULT '2016-11-04 13:51:30.123456',
    d_tsnow timestamp NOT NULL DEFAULT now(), d_tt timestamptz DEFAULT '2016-11-04 13:51:30.5+02',
    d_ttnow timestamptz DEFAULT CURRENT_TIMESTAMP, d_interval interval DEFAULT '1 day',
    d_mood types.mood DEFAULT 'ok', d_bytes bytea DEFAULT '\\x01', d_inet inet DEFAULT '127.0.0.1',
    d_array int[] DEFAULT '{1}', d_money money DEFAULT 5
)
"""
NOT_NULL_TYPES = (
    *(
        "si",
        "i",
        "bi",
        "r",
        "db",
        "bo",
        "o",
        "n_fixed",
        "n_any",
        "mo",
        "c",
        "vc",
        "t",
        "ci",
        "by",
        "b1",
        "b7",
        "vb",
    ),
    *(
        "dt",
        "ti",
        "ti3",
        "tz",
        "ts",
        "ts3",
        "tt",
        "it",
        "js",
        "jb",
        "xm",
        "uu",
        "pt",
        "inet_",
        "cidr_",
        "mac",
    ),
    *("tsr", "i4r", "tv", "hs", "lt", "isb", "en", "do_t", "do_a", "a_i4", "a_t", "a_n", "geo"),
)
