"""Spans of a text by what they are, for colours: the language's tokens, and what is not finished yet."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from ottla.sql.language.errors import SqlError
from ottla.sql.language.tokens import Kind, tokenize

KEYWORDS: Final = frozenset(
    """ADD ADVANCE ALL ALTER AND ARRAY AS ASC ASSERT BEGINNING BETWEEN BY CASE CAST CHANGES COLUMN COLUMNS
    CONNECTOR CONNECTORS CREATE CUMULATE DEFINE DELETE DESC DESCRIBE DISTINCT DROP ELSE EMIT END ESCAPE
    EXISTS EXPLAIN EXTENDED FALSE FINAL FROM FULL FUNCTION FUNCTIONS GRACE GROUP HAVING HEADER
    HEADERS HOPPING IF IN INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT LIST MAP NOT NULL ON OR
    ORDER OUTER OVER PARTITION PARTITIONS PAUSE PERIOD PLUGINS PRIMARY PRINT PROPERTIES QUERIES REPLACE RESUME
    RETENTION RIGHT RUN SCHEMA SCRIPT SELECT SESSION SET SHOW SINK SIZE SOURCE STEP STREAM STREAMS STRUCT
    SYSTEM TABLE TABLES TERMINATE THEN TIMEOUT TOPIC TOPICS TRUE TUMBLING TYPE TYPES UNDEFINE UNSET
    VALUES VARIABLES WHEN WHERE WINDOW WITH WITHIN""".split()  # noqa: SIM905
)
TYPES: Final = frozenset(
    "BIGINT BOOLEAN BYTES DATE DECIMAL DOUBLE INT INTEGER STRING TIME TIMESTAMP VARCHAR".split()  # noqa: SIM905
)


class Look(Enum):
    """What a span is."""

    PLAIN = "plain"
    KEYWORD = "keyword"
    TYPE = "type"
    NAME = "name"
    FUNCTION = "function"
    TEXT = "text"
    NUMBER = "number"
    SIGN = "sign"
    COMMENT = "comment"


def spans(text: str) -> Iterator[tuple[Look, str]]:
    """The whole text in spans. A quote or comment without an end colours what is behind it."""
    rest = ""
    look = Look.TEXT
    whole = text
    try:
        tokens = tokenize(text)
    except SqlError as error:
        offset = error.position.offset if error.position is not None else 0
        if text[offset : offset + 1] not in ("'", '"', "`"):
            offset = max(0, text.rfind("/*"))
            look = Look.COMMENT
        whole, rest = text[:offset], text[offset:]
        try:
            tokens = tokenize(whole)
        except SqlError:
            yield Look.PLAIN, text
            return
    end = 0
    for number, token in enumerate(tokens):
        if token.kind is Kind.END:
            break
        begin = token.at.offset
        yield from _between(whole[end:begin])
        following = tokens[number + 1].text if number + 1 < len(tokens) else ""
        yield _look(token.kind, token.word, following), whole[begin : token.end]
        end = token.end
    yield from _between(whole[end:])
    if rest:
        yield look, rest


def _between(gap: str) -> Iterator[tuple[Look, str]]:
    if gap:
        yield (Look.COMMENT if gap.strip() else Look.PLAIN), gap


def _look(kind: Kind, word: str, following: str) -> Look:
    match kind:
        case Kind.TEXT:
            return Look.TEXT
        case Kind.NUMBER:
            return Look.NUMBER
        case Kind.NAME:
            return Look.NAME
        case Kind.WORD if word in TYPES:
            return Look.TYPE
        case Kind.WORD if word in KEYWORDS:
            return Look.KEYWORD
        case Kind.WORD:
            return Look.FUNCTION if following == "(" else Look.NAME
        case _:
            return Look.SIGN
