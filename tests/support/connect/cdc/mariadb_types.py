"""Tables with every type that MariaDB has, and rows for them: what two connectors are compared on."""

from __future__ import annotations

Value = str | int | float | bytes | None
"""A parameter of a statement; a text that begins with `=` is an expression of SQL."""

COLUMNS: dict[str, tuple[str, tuple[Value, ...]]] = {
    "t1": ("tinyint(1)", (0, 1, -128)),
    "ti": ("tinyint", (-128, 127)),
    "tu": ("tinyint unsigned", (0, 255)),
    "si": ("smallint", (-32768, 32767)),
    "su": ("smallint(5) unsigned zerofill", (0, 65535)),
    "mi": ("mediumint", (-8388608, 8388607, -1)),
    "mu": ("mediumint unsigned", (0, 16777215)),
    "i": ("int", (-2147483648, 2147483647)),
    "iu": ("int(10) unsigned", (0, 4294967295)),
    "iz": ("int(8) unsigned zerofill", (42,)),
    "bi": ("bigint", (-9223372036854775808, 9223372036854775807)),
    "bu": ("bigint(20) unsigned", (0, 9223372036854775807, 18446744073709551615)),
    "bo": ("boolean", (0, 1)),
    "f": ("float", (3.3, -1.5, "1e-30", 0, 16777217)),
    "f52": ("float(5,2)", (3.25, -123.46)),
    "f30": ("float(30)", ("3.3333333333", "1e100")),
    "fu": ("float unsigned", (1.25,)),
    "d": ("double", ("4.44", "1e300", "-0.1", 0)),
    "d73": ("double(7,3)", ("1234.567",)),
    "re": ("real", ("2.5",)),
    "n": ("decimal", ("42", "-7")),
    "n64": ("decimal(6,4)", ("22.2222", "-1.5", "0")),
    "nu": ("decimal(10,2) unsigned", ("12345678.91",)),
    "n65": (
        "decimal(65,30)",
        (
            "12345678901234567890123456789012345.123456789012345678901234567890",
            "-0.000000000000000000000000000001",
        ),
    ),
    "n90": ("numeric(9,0)", ("123456789", "-999999999")),
    "n55": ("decimal(5,5)", ("0.12345", "-0.00001")),
    "b1": ("bit(1)", ("=b'0'", "=b'1'")),
    "b": ("bit", ("=b'1'",)),
    "b7": ("bit(7)", ("=b'0000001'", "=b'1000000'")),
    "b64": ("bit(64)", ("=b'1'", "=b'1000000000000000000000000000000000000000000000000000000000000011'")),
    "c": ("char(4)", ("ab", "日本", "", "a  ")),
    "c0": ("char(200)", ("long",)),
    "cb": ("char(4) character set binary", (b"ab",)),
    "vc": ("varchar(10)", ("žš", "", "🙂 \\ \" '")),
    "vl": ("varchar(300) character set latin1", ("é", "")),
    "vu": ("varchar(20) character set utf8mb3 collate utf8mb3_bin", ("žluť",)),
    "v2": ("varchar(20) character set ucs2", ("žluť",)),
    "v16": ("varchar(20) character set utf16", ("🙂",)),
    "vcz": ("varchar(20) character set latin2", ("žluť",)),
    "vru": ("varchar(20) character set koi8r", ("привет",)),
    "vja": ("varchar(20) character set sjis", ("日本",)),
    "vgb": ("char(20) character set gbk", ("中文",)),
    "nc": ("national varchar(9)", ("ž",)),
    "bc": ("binary(4)", (b"\x00\x01", b"ab\x00", b"\x01\x02\x03\x04")),
    "vb": ("varbinary(300)", (b"\x00\xff", b"")),
    "tt": ("tinytext", ("tiny",)),
    "tx": ("text", ("some text", "", "line\nline\x01\x7f")),
    "txl": ("text character set latin1", ("café",)),
    "mt": ("mediumtext", ("medium",)),
    "lt": ("longtext", ("long",)),
    "tb": ("tinyblob", (b"\x00",)),
    "bl": ("blob", (b"\x00\x01\x02\xff", b"")),
    "mb": ("mediumblob", (b"m",)),
    "lb": ("longblob", (b"l",)),
    "js": ("json", ('{"bar": "baz",  "a":[1]}', "null", "[1.50]")),
    "da": ("date", ("2016-11-04", "0000-00-00", "1000-01-01", "9999-12-31", "2016-00-00", "1500-02-28")),
    "da0": ("date", ("0000-00-00", "0001-01-01")),
    "tm": ("time", ("13:51:30", "-838:59:59", "838:59:59", "00:00:00", "-00:00:01")),
    "tm3": ("time(3)", ("13:51:30.123", "-00:00:00.5", "100:00:00.001")),
    "tm6": ("time(6)", ("13:51:30.123456", "-25:00:00.000001", "-00:00:00.999999")),
    "dt": (
        "datetime",
        ("2016-11-04 13:51:30", "0000-00-00 00:00:00", "1000-01-01 00:00:00", "9999-12-31 23:59:59"),
    ),
    "dt1": ("datetime(1)", ("2016-11-04 13:51:30.1",)),
    "dt3": ("datetime(3)", ("2016-11-04 13:51:30.123", "1969-12-31 23:59:59.999")),
    "dt6": ("datetime(6)", ("2016-11-04 13:51:30.123456", "1936-10-25 22:10:12.608000")),
    "ts": ("timestamp null", ("2016-11-04 13:51:30", "0000-00-00 00:00:00", "2038-01-19 03:14:07")),
    "ts2": ("timestamp(2) null", ("2016-11-04 13:51:30.12",)),
    "ts6": ("timestamp(6) null", ("2016-11-04 13:51:30.123456", "2017-10-11 22:22:22.500000")),
    "y": ("year", (2016, 1901, 2155)),
    "y4": ("year(4)", (1970,)),
    "en": ("enum('a','b,c','it''s','žš')", ("a", "b,c", "it's", "žš")),
    "se": ("set('x','y','z z','ž')", ("x", "x,z z", "", "y,ž")),
    "ge": (
        "geometry",
        ("=ST_GeomFromText('POINT(1 2)')", "=ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))', 4326)"),
    ),
    "pt": ("point", ("=ST_GeomFromText('POINT(1.5 -2e10)')", "=ST_GeomFromText('POINT(1 1)', 4326)")),
    "ls": ("linestring", ("=ST_GeomFromText('LINESTRING(0 0,1 1)')",)),
    "po": ("polygon", ("=ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')",)),
    "mp": ("multipoint", ("=ST_GeomFromText('MULTIPOINT(0 0,1 1)')",)),
    "ml": ("multilinestring", ("=ST_GeomFromText('MULTILINESTRING((0 0,1 1),(2 2,3 3))')",)),
    "my": ("multipolygon", ("=ST_GeomFromText('MULTIPOLYGON(((0 0,1 0,1 1,0 0)))')",)),
    "gc": ("geometrycollection", ("=ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))')",)),
    "uu": ("uuid", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000001")),
}
"""Columns by name: their type, and values; NULL is drawn besides."""


def table_of(name: str, columns: dict[str, tuple[str, tuple[Value, ...]]], extra: str = "") -> str:
    """CREATE TABLE with a key and these columns."""
    listed = ", ".join(f"{column} {type_name}{extra}" for column, (type_name, _) in columns.items())
    return f"CREATE TABLE {name} (pk int AUTO_INCREMENT PRIMARY KEY, {listed})"


def rows_of(columns: dict[str, tuple[str, tuple[Value, ...]]]) -> list[list[Value]]:
    """Rows in which each value comes at least once, and a row of NULL."""
    longest = max(len(values) for _, values in columns.values())
    rows: list[list[Value]] = [
        [values[at % len(values)] for _, values in columns.values()] for at in range(longest)
    ]
    return [*rows, [None] * len(columns)]


def insert(
    name: str, columns: dict[str, tuple[str, tuple[Value, ...]]], row: list[Value]
) -> tuple[str, list[Value]]:
    """INSERT of a row, and its parameters."""
    is_expression = [isinstance(each, str) and each.startswith("=") for each in row]
    places = [str(each)[1:] if says else "%s" for each, says in zip(row, is_expression, strict=True)]
    given = [each for each, says in zip(row, is_expression, strict=True) if not says]
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join(places)})", given


DEFAULTS = """
CREATE TABLE types.defaults (
    pk bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    d_tiny tinyint DEFAULT 3, d_one tinyint(1) NOT NULL DEFAULT 1, d_tu tinyint unsigned DEFAULT 200,
    d_small smallint DEFAULT -3, d_su smallint unsigned DEFAULT 60000, d_medium mediumint DEFAULT 5,
    d_int int NOT NULL DEFAULT 42, d_neg int DEFAULT -42, d_iu int unsigned DEFAULT 4000000000,
    d_big bigint DEFAULT 9223372036854775807, d_bu bigint unsigned DEFAULT 18446744073709551615,
    d_bool boolean DEFAULT true NOT NULL, d_false bool DEFAULT FALSE,
    d_bit bit(1) DEFAULT b'1', d_bits bit(9) DEFAULT b'101010101', d_bit0 bit DEFAULT 0,
    d_char char(4) DEFAULT 'ab', d_varchar varchar(9) NOT NULL DEFAULT 'x''y', d_null varchar(9) DEFAULT NULL,
    d_empty varchar(9) NOT NULL DEFAULT '', d_esc varchar(20) DEFAULT 'a\\nb"c', d_text text DEFAULT 'text',
    d_bin binary(4) DEFAULT 'ab', d_vbin varbinary(4) DEFAULT 'ab',
    d_dec decimal(6,2) DEFAULT 1.5, d_dec0 decimal DEFAULT 2.4, d_float float DEFAULT 1.25,
    d_double double DEFAULT 1e3, d_f52 float(5,2) DEFAULT 3.14,
    d_date date DEFAULT '2016-11-04', d_zero date NOT NULL DEFAULT '0000-00-00',
    d_zeron date DEFAULT '0000-00-00',
    d_time time DEFAULT '10:00:00', d_time6 time(6) DEFAULT '-10:00:00.5',
    d_dt datetime DEFAULT '2016-11-04 13:51:30', d_dt6 datetime(6) DEFAULT '2016-11-04 13:51:30.123456',
    d_dtnow datetime DEFAULT CURRENT_TIMESTAMP, d_dtz datetime NOT NULL DEFAULT '0000-00-00 00:00:00',
    d_ts timestamp NOT NULL DEFAULT '2016-11-04 13:51:30',
    d_tsnow timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
        ON UPDATE CURRENT_TIMESTAMP, d_ts6 timestamp(6) NULL DEFAULT current_timestamp(6),
    d_tsz timestamp NOT NULL DEFAULT '0000-00-00 00:00:00',
    d_year year DEFAULT 2016,
    d_enum enum('a','b') NOT NULL DEFAULT 'b', d_set set('x','y') DEFAULT 'x,y', d_json json DEFAULT '{}',
    d_uuid uuid DEFAULT uuid(), d_cat varchar(40) DEFAULT concat('a', 'b'),
    g_virtual int AS (d_int + 1) VIRTUAL, g_stored int AS (d_int * 2) STORED,
    d_comment int DEFAULT 7 COMMENT 'it''s, a (comment) DEFAULT 8'
) DEFAULT CHARSET=latin1 COMMENT='a table'
"""
NOT_NULL_TYPES = (
    *(
        "t1",
        "tu",
        "su",
        "mu",
        "i",
        "iu",
        "bi",
        "bu",
        "f",
        "d",
        "n",
        "n64",
        "b1",
        "b7",
        "b64",
        "c",
        "vc",
        "vl",
    ),
    *("bc", "vb", "tx", "bl", "js", "da", "tm", "tm6", "dt", "dt3", "dt6", "y", "en", "se", "ge", "pt"),
    "uu",
)
"""Columns that are tried NOT NULL, too."""
