"""Writes the table of functions in docs/sql.md: ksqlDB's functions beside ottla's.

python tools/generate_sql.py            # or --check: writes nothing; 1 if the page is not up to date
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from ottla.sql.functions.registry import BUILT_IN
from ottla.sql.lowering.spark_functions import AGGREGATES, SCALARS

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "sql.md"
BEGIN: Final = "<!-- Written by tools/generate_sql.py (`make commands`) from the functions themselves. -->\n"
END: Final = "<!-- End of the written table. -->\n"
LANGUAGE: Final = {
    "ARRAY": "`ARRAY[…]`",
    "CAST": "`CAST(… AS type)`",
    "MAP": "`MAP(key := value, …)`",
}
KSQLDB: Final = """
ABS ACOS ASIN AS_VALUE ATAN ATAN2 CAST CBRT CEIL COS COSH COT DEGREES ENTRIES EXP FLOOR GENERATE_SERIES
GEO_DISTANCE GREATEST LEAST LN LOG PI POWER RADIANS RANDOM ROUND SIGN SIN SINH SQRT TAN TANH TRUNC ARRAY
ARRAY_CONCAT ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_JOIN ARRAY_LENGTH ARRAY_MAX
ARRAY_MIN ARRAY_REMOVE ARRAY_SORT ARRAY_UNION AS_MAP ELT FIELD JSON_ARRAY_CONTAINS MAP MAP_KEYS MAP_VALUES
MAP_UNION SLICE FILTER REDUCE TRANSFORM CHR CONCAT CONCAT_WS ENCODE EXTRACTJSONFIELD FROM_BYTES
IS_JSON_STRING JSON_ARRAY_LENGTH JSON_CONCAT JSON_KEYS JSON_RECORDS JSON_ITEMS TO_JSON_STRING INITCAP INSTR
LCASE LEN LPAD MASK MASK_KEEP_LEFT MASK_KEEP_RIGHT MASK_LEFT MASK_RIGHT MD5 REPLACE REGEXP_EXTRACT
REGEXP_EXTRACT_ALL REGEXP_REPLACE REGEXP_SPLIT_TO_ARRAY RPAD SPLIT SPLIT_TO_MAP SUBSTRING TO_BYTES TRIM
UCASE UUID BIGINT_FROM_BYTES DOUBLE_FROM_BYTES INT_FROM_BYTES COALESCE IFNULL NULLIF CONVERT_TZ DATEADD
DATESUB FORMAT_DATE FORMAT_TIME FORMAT_TIMESTAMP FROM_DAYS FROM_UNIXTIME PARSE_DATE PARSE_TIME
PARSE_TIMESTAMP TIMEADD TIMESUB TIMESTAMPADD TIMESTAMPSUB UNIX_DATE UNIX_TIMESTAMP URL_DECODE_PARAM
URL_ENCODE_PARAM URL_EXTRACT_FRAGMENT URL_EXTRACT_HOST URL_EXTRACT_PARAMETER URL_EXTRACT_PATH
URL_EXTRACT_PORT URL_EXTRACT_PROTOCOL URL_EXTRACT_QUERY DATETOSTRING STRINGTODATE STRINGTOTIMESTAMP
TIMESTAMPTOSTRING AVG COLLECT_LIST COLLECT_SET CORRELATION COUNT COUNT_DISTINCT EARLIEST_BY_OFFSET HISTOGRAM
LATEST_BY_OFFSET MAX MIN STDDEV_SAMP STDDEV_SAMPLE SUM TOPK TOPKDISTINCT CUBE_EXPLODE EXPLODE
""".split()  # noqa: SIM905
"""The functions that ksqlDB 0.29's reference has, in its order."""


def table() -> str:
    """ksqlDB's functions, each with ottla's signatures."""
    lines = ["| ksqlDB | here | what it gives |", "|---|---|---|"]
    for name in KSQLDB:
        if name in LANGUAGE:
            lines.append(f"| {name} | {LANGUAGE[name]} | of the language |")
            continue
        function = BUILT_IN.get(name)
        if function is None:
            raise SystemExit(f"ksqlDB's function {name} is missing")
        signatures = []
        for variant in function.variants:
            text = variant.signature.text
            in_spark = (name, text) in SCALARS or (name, text) in AGGREGATES
            signatures.append(f"`{text}`" + (" ⚡" if in_spark else ""))
        lines.append(f"| {name} | {', '.join(signatures)} | {function.summary} |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with its table as it has to be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def main(arguments: list[str]) -> int:
    page = PAGE.read_text()
    wanted = written(page)
    if "--check" in arguments:
        return 0 if page == wanted else 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
