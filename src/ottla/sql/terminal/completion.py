"""What may come at a place in a statement: words of the language, streams and tables, columns, functions.

A function of the text and of the names that the server knows: nothing is asked while somebody types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.sql.language.errors import SqlError
from ottla.sql.language.tokens import Kind, Token, tokenize
from ottla.sql.terminal.highlighting import KEYWORDS, TYPES
from ottla.sql.terminal.names import Names, sources_in
from ottla.sql.types.sql_types import quoted

MAX_CANDIDATES: Final = 200
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OPEN_TEXT: Final = re.compile(r"'([^']*)\Z")
_BEGINNINGS: Final = (
    *("SELECT", "CREATE", "INSERT INTO", "SHOW", "LIST", "DESCRIBE", "EXPLAIN", "PRINT", "DROP", "TERMINATE"),
    *("PAUSE", "RESUME", "SET", "UNSET", "DEFINE", "UNDEFINE", "ALTER", "ASSERT", "RUN SCRIPT"),
)
_SHOWN: Final = (
    *(
        "STREAMS",
        "TABLES",
        "TOPICS",
        "ALL TOPICS",
        "QUERIES",
        "FUNCTIONS",
        "PROPERTIES",
        "TYPES",
        "VARIABLES",
    ),
    *("CONNECTORS", "SOURCE CONNECTORS", "SINK CONNECTORS", "CONNECTOR PLUGINS"),
)
_AFTER: Final = {
    "SHOW": _SHOWN,
    "LIST": _SHOWN,
    "CREATE": (
        "STREAM",
        "TABLE",
        "OR REPLACE",
        "SOURCE STREAM",
        "SOURCE TABLE",
        "TYPE",
        "SOURCE CONNECTOR",
        "SINK CONNECTOR",
    ),
    "DROP": ("STREAM", "TABLE", "TYPE", "CONNECTOR"),
    "ALTER": ("STREAM", "TABLE", "SYSTEM"),
    "GROUP": ("BY",),
    "PARTITION": ("BY",),
    "ADVANCE": ("BY",),
    "EMIT": ("CHANGES", "FINAL"),
    "WINDOW": ("TUMBLING", "HOPPING", "SESSION", "CUMULATE"),
    "ASSERT": ("TOPIC", "SCHEMA", "NOT EXISTS"),
    "INSERT": ("INTO",),
}
_CLAUSES: Final = (
    *("FROM", "WHERE", "GROUP BY", "PARTITION BY", "HAVING", "EMIT CHANGES", "EMIT FINAL", "LIMIT", "WINDOW"),
    *("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL OUTER JOIN", "ON", "WITHIN", "AS", "AND", "OR"),
    *(
        "NOT",
        "IN",
        "LIKE",
        "BETWEEN",
        "IS NULL",
        "IS NOT NULL",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST",
    ),
    *("WITH", "VALUES", "NULL", "TRUE", "FALSE"),
)
_PROPERTIES_OF_SOURCES: Final = (
    *("KAFKA_TOPIC", "VALUE_FORMAT", "KEY_FORMAT", "FORMAT", "PARTITIONS", "REPLICAS", "TIMESTAMP"),
    *(
        "TIMESTAMP_FORMAT",
        "WRAP_SINGLE_VALUE",
        "VALUE_DELIMITER",
        "RETENTION_MS",
        "WINDOW_TYPE",
        "WINDOW_SIZE",
    ),
)


class CandidateKind(Enum):
    """What a candidate is, as the list of candidates says."""

    WORD = ""
    STREAM = "stream"
    TABLE = "table"
    COLUMN = "column"
    FUNCTION = "function"
    QUERY = "query"
    TOPIC = "topic"
    PROPERTY = "property"
    TYPE = "type"
    COMMAND = "of the terminal"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may come; it takes the place of the last `typed` characters. note: a column's type."""

    text: str
    typed: int
    kind: CandidateKind
    note: str = ""


def candidates(before: str, after: str, names: Names, commands: Sequence[str] = ()) -> list[Candidate]:
    """What may come between two parts of a text, best first. commands: the terminal's own words."""
    begun = before[_begin_of_statement(before) :]
    inner = _OPEN_TEXT.search(begun)
    if inner is not None and _is_open(begun):
        return _in_text(begun[: inner.start()], inner[1], names)
    found = _WORD.search(begun)
    typed = found[0] if found else ""
    head = begun[: len(begun) - len(typed)]
    try:
        tokens = [each for each in tokenize(head) if each.kind is not Kind.END]
        behind = [each for each in tokenize(after.partition(";")[0]) if each.kind is not Kind.END]
    except SqlError:
        behind = []
        try:
            tokens = [each for each in tokenize(head) if each.kind is not Kind.END]
        except SqlError:
            return []
    offered = _offered(tokens, behind, names, commands)
    return list(_matching(offered, typed))[:MAX_CANDIDATES]


def _begin_of_statement(text: str) -> int:
    """Behind the last semicolon that is a sign."""
    try:
        ends = [each.end for each in tokenize(text) if each.kind is Kind.SIGN and each.text == ";"]
        return ends[-1] if ends else 0
    except SqlError as error:
        offset = error.position.offset if error.position is not None else 0
        return _begin_of_statement(text[:offset]) if offset else 0


def _is_open(text: str) -> bool:
    try:
        tokenize(text)
    except SqlError:
        return True
    return False


def _in_text(head: str, typed: str, names: Names) -> list[Candidate]:
    """Within quotes: properties behind SET and UNSET, topics behind PRINT and KAFKA_TOPIC."""
    try:
        words = [each.word for each in tokenize(head) if each.kind is not Kind.END]
    except SqlError:
        return []
    if words and words[0] in ("SET", "UNSET") and len(words) == 1:
        kind, known = CandidateKind.PROPERTY, names.properties
    elif words and (words[0] == "PRINT" or words[-2:-1] == ["KAFKA_TOPIC"]):
        kind, known = CandidateKind.TOPIC, names.topics
    else:
        return []
    return [Candidate(each, len(typed), kind) for each in known if each.startswith(typed)][:MAX_CANDIDATES]


Offer = tuple[str, CandidateKind, str]


def _offered(
    tokens: Sequence[Token], behind: Sequence[Token], names: Names, commands: Sequence[str]
) -> Iterator[Offer]:
    words = [each.word for each in tokens]
    last = words[-1] if words else ""
    if not tokens:
        yield from _words(_BEGINNINGS)
        yield from ((each, CandidateKind.COMMAND, "") for each in commands)
    elif tokens[-1].text == "." and len(tokens) > 1:
        yield from _columns_of(tokens[-2].word or tokens[-2].text, [*tokens, *behind], names)
    elif last in ("FROM", "JOIN", "INTO") or (last == "EXTENDED" and "DESCRIBE" in words):
        yield from _sources(names)
    elif words[0] == "DESCRIBE" and len(words) == 1:
        yield from _sources(names)
        yield from _words(("EXTENDED", "FUNCTION", "CONNECTOR", "STREAMS", "TABLES"))
    elif words[-2:] in (["DESCRIBE", "FUNCTION"], ["SHOW", "FUNCTION"]):
        yield from _functions(names)
    elif last in ("STREAM", "TABLE") and words[0] in ("DROP", "ALTER"):
        yield from (each for each in _sources(names) if each[1].name == last)
        yield from _words(("IF EXISTS",))
    elif words[0] in ("TERMINATE", "PAUSE", "RESUME") and len(words) == 1:
        yield from ((each, CandidateKind.QUERY, "") for each in names.queries)
        yield from _words(("ALL",))
    elif words[0] == "EXPLAIN" and len(words) == 1:
        yield from _words(("SELECT", "CREATE", "INSERT INTO"))
        yield from ((each, CandidateKind.QUERY, "") for each in names.queries)
    elif words[0] == "PRINT" and len(words) == 1:
        yield from ((each, CandidateKind.TOPIC, "") for each in names.topics)
    elif last in _AFTER and (len(words) == 1 or last not in ("SHOW", "LIST", "CREATE", "DROP", "ALTER")):
        yield from _words(_AFTER[last])
    elif words[0] == "CREATE" and "SELECT" not in words:
        yield from _in_create(words)
    else:
        yield from _in_query(tokens, behind, names)


def _in_create(words: Sequence[str]) -> Iterator[Offer]:
    if "WITH" in words:
        yield from ((each, CandidateKind.PROPERTY, "") for each in _PROPERTIES_OF_SOURCES)
        yield from _words(("AS SELECT",))
        return
    yield from ((each, CandidateKind.TYPE, "") for each in sorted(TYPES))
    yield from _words(
        ("WITH", "AS SELECT", "PRIMARY KEY", "KEY", "HEADERS", "ARRAY", "MAP", "STRUCT", "IF NOT EXISTS")
    )


def _in_query(tokens: Sequence[Token], behind: Sequence[Token], names: Names) -> Iterator[Offer]:
    named = sources_in([*tokens, *behind])
    for alias in named:
        yield from _columns_of(alias, [*tokens, *behind], names)
    if named:
        yield from ((each, CandidateKind.COLUMN, "") for each in ("ROWTIME", "WINDOWSTART", "WINDOWEND"))
    if len(named) > 1:
        yield from ((quoted(each), CandidateKind.WORD, "source") for each in named)
    yield from _words(_CLAUSES)
    yield from _functions(names)


def _columns_of(alias: str, tokens: Sequence[Token], names: Names) -> Iterator[Offer]:
    source = names.sources.get(sources_in(tokens).get(alias, alias))
    if source is not None:
        yield from ((quoted(each.name), CandidateKind.COLUMN, each.type) for each in source.columns)


def _sources(names: Names) -> Iterator[Offer]:
    for each in names.sources.values():
        yield quoted(each.name), CandidateKind.TABLE if each.is_table else CandidateKind.STREAM, ""


def _functions(names: Names) -> Iterator[Offer]:
    yield from ((f"{each}(", CandidateKind.FUNCTION, "") for each in names.functions)


def _words(words: Iterable[str]) -> Iterator[Offer]:
    yield from ((each, CandidateKind.WORD, "") for each in words)


def _matching(offered: Iterable[Offer], typed: str) -> Iterator[Candidate]:
    """Those that begin as typed, each once, in the case that is typed."""
    wanted = typed.upper()
    lower = bool(typed) and typed == typed.lower() and any(each.isalpha() for each in typed)
    seen = set()
    for text, kind, note in offered:
        bare = text.removeprefix("`")
        if text in seen or not bare.upper().startswith(wanted) or bare == typed:
            continue
        seen.add(text)
        is_free = (
            not text.startswith("`") and kind is not CandidateKind.QUERY and kind is not CandidateKind.TOPIC
        )
        shown = text.lower() if lower and is_free else text
        yield Candidate(shown, len(typed), kind, note)


assert KEYWORDS.issuperset(word for word in _BEGINNINGS if " " not in word)
