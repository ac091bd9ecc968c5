"""SELECT out of tokens."""

from __future__ import annotations

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.expression_parser import ExpressionParser
from ottla.sql.language.expressions import Expression
from ottla.sql.language.statements import (
    Emit,
    InnerText,
    Item,
    JoinText,
    JoinWord,
    Query,
    SourceText,
    Star,
    StructStar,
    WindowKind,
    WindowText,
    Within,
)
from ottla.sql.language.token_stream import TokenStream
from ottla.sql.language.tokens import Kind

_WINDOW_PARTS = (("ADVANCE", "BY"), ("STEP",), ("RETENTION",), ("GRACE", "PERIOD"))
_OF_KINDS = {"ADVANCE": WindowKind.HOPPING, "STEP": WindowKind.CUMULATE}
"""The parts that windows of one kind alone have."""
MAX_STEPS = 1440
"""Windows of one start that cumulate: each record is counted in so many at most. A day's minutes."""
MAKE_IT_A_STREAM = "make it a stream or a table: CREATE STREAM … AS SELECT …"
_CLAUSES = "WINDOW, WHERE, GROUP BY, PARTITION BY, HAVING, EMIT, LIMIT"


class QueryParser:
    """Reads queries from a stream of tokens."""

    def __init__(self, stream: TokenStream) -> None:
        self._stream = stream
        self._expressions = ExpressionParser(stream)
        self._is_inner = False

    def query(self) -> Query:
        """SELECT … up to the end of the statement. Raises SqlError."""
        stream, at = self._stream, self._stream.at
        stream.needs("SELECT")
        if stream.sees("DISTINCT"):
            raise SqlError("SELECT DISTINCT does not exist", stream.at, "GROUP BY the columns instead")
        items = stream.separated(self._item)
        if not stream.sees("FROM"):
            raise stream.wrong("a comma or FROM")
        stream.needs("FROM")
        source = self._inner() if stream.sees_sign("(") else self._source()
        joins = []
        while (join := self._join()) is not None:
            joins.append(join)
        window = self._window() if stream.takes("WINDOW") else None
        where = self._expressions.expression() if stream.takes("WHERE") else None
        partition_by = self._list() if stream.takes("PARTITION", "BY") else ()
        group_by = self._list() if stream.takes("GROUP", "BY") else ()
        if not partition_by and stream.takes("PARTITION", "BY"):
            partition_by = self._list()
        having = self._expressions.expression() if stream.takes("HAVING") else None
        emit = self._emit()
        limit = stream.whole_number() if stream.takes("LIMIT") else None
        if stream.token.kind is not Kind.END and not stream.sees_sign(")"):
            raise stream.wrong("the end of the query", f"the clauses' order: {_CLAUSES}")
        return Query(
            at, items, source, tuple(joins), window, where, group_by, partition_by, having, emit, limit
        )

    def _item(self) -> Star | StructStar | Item:
        stream, at = self._stream, self._stream.at
        if stream.takes_sign("*"):
            return Star(at)
        if stream.sees_name() and stream.ahead().text == "." and stream.ahead(2).text == "*":
            source = stream.name()
            stream.advance()
            stream.advance()
            return Star(at, source)
        expression = self._expressions.expression()
        if stream.sees_sign("->") and stream.ahead().text == "*":
            stream.advance()
            stream.advance()
            return StructStar(at, expression)
        alias = stream.name("a name after AS") if stream.takes("AS") else None
        if alias is None and stream.sees_name():
            alias = stream.name()
        return Item(at, expression, alias)

    def _inner(self) -> InnerText:
        stream, at = self._stream, self._stream.at
        if self._is_inner:
            raise SqlError("a query in FROM has none in its own FROM", at, MAKE_IT_A_STREAM)
        stream.needs_sign("(")
        self._is_inner = True
        query = self.query()
        self._is_inner = False
        stream.needs_sign(")")
        alias = stream.name("a name after AS") if stream.takes("AS") else None
        if alias is None and stream.sees_name():
            alias = stream.name()
        return InnerText(at, query, alias)

    def _source(self) -> SourceText:
        stream, at = self._stream, self._stream.at
        if stream.sees_sign("("):
            raise SqlError("a query can't be joined", at, MAKE_IT_A_STREAM)
        name = stream.name("a name of a stream or table")
        alias = stream.name("a name after AS") if stream.takes("AS") else None
        if alias is None and stream.sees_name():
            alias = stream.name()
        return SourceText(at, name, alias or name)

    def _join(self) -> JoinText | None:
        stream, at = self._stream, self._stream.at
        kind = next((each for each in JoinWord if stream.sees(each.value)), None)
        if kind is not None:
            stream.advance()
            if stream.takes("OUTER") and kind is JoinWord.INNER:
                raise SqlError("a join is INNER or OUTER", at)
        elif not stream.sees("JOIN"):
            return None
        stream.needs("JOIN")
        source = self._source()
        within = self._within() if stream.takes("WITHIN") else None
        if not stream.takes("ON"):
            raise stream.wrong("ON", "joins are by equality: ON a.id = b.id")
        return JoinText(at, kind or JoinWord.INNER, source, within, self._expressions.expression())

    def _within(self) -> Within:
        stream, at = self._stream, self._stream.at
        if stream.takes_sign("("):
            before = stream.duration_ms()
            stream.needs_sign(",")
            after = stream.duration_ms()
            stream.needs_sign(")")
        else:
            before = after = stream.duration_ms()
        grace = stream.duration_ms() if stream.takes("GRACE", "PERIOD") else None
        return Within(at, before, after, grace)

    def _window(self) -> WindowText:
        stream, at = self._stream, self._stream.at
        kind = next((each for each in WindowKind if stream.takes(each.value)), None)
        if kind is None:
            raise stream.wrong("TUMBLING, HOPPING, SESSION or CUMULATE")
        stream.needs_sign("(")
        if kind is not WindowKind.SESSION:
            stream.needs("SIZE")
        size = stream.duration_ms()
        found: dict[str, int] = {}
        while stream.takes_sign(","):
            words = next((each for each in _WINDOW_PARTS if stream.takes(*each)), None)
            if words is None:
                raise stream.wrong("ADVANCE BY, STEP, RETENTION or GRACE PERIOD")
            if words[0] in found or _OF_KINDS.get(words[0], kind) is not kind:
                raise SqlError(f"{' '.join(words)} can't stand here", stream.at)
            found[words[0]] = stream.duration_ms()
        stream.needs_sign(")")
        if kind is WindowKind.HOPPING and "ADVANCE" not in found:
            raise SqlError("HOPPING needs ADVANCE BY", at, "HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES)")
        if kind is WindowKind.CUMULATE and "STEP" not in found:
            raise SqlError("CUMULATE needs STEP", at, "CUMULATE (SIZE 1 DAY, STEP 1 HOUR)")
        _check_window(at, size, found)
        advance = found.get("ADVANCE", found.get("STEP"))
        return WindowText(at, kind, size, advance, found.get("RETENTION"), found.get("GRACE"))

    def _list(self) -> tuple[Expression, ...]:
        """The expressions of GROUP BY and PARTITION BY, in parentheses or not."""
        stream = self._stream
        mark = stream.mark()
        if stream.sees_sign("("):
            found = stream.in_parentheses(self._expressions.expression)
            if len(found) > 1:
                return found
            stream.go_back(mark)
        return stream.separated(self._expressions.expression)

    def _emit(self) -> Emit | None:
        if not self._stream.takes("EMIT"):
            return None
        for each in Emit:
            if self._stream.takes(each.value):
                return each
        raise self._stream.wrong("CHANGES or FINAL")


def _check_window(position: Position, size: int, found: dict[str, int]) -> None:
    advance, step = found.get("ADVANCE", size), found.get("STEP", size)
    if size <= 0 or advance <= 0 or step <= 0:
        what = "step" if "STEP" in found else "advance"
        raise SqlError(f"a window's size and {what} are longer than nothing", position)
    if size % step:
        raise SqlError("SIZE is no multiple of STEP", position, "the last step ends where SIZE does")
    if size // step > MAX_STEPS:
        raise SqlError(
            f"each record would be in {size // step} windows, {MAX_STEPS} are the most",
            position,
            "a longer STEP, or a shorter SIZE",
        )
    if advance > size:
        raise SqlError(
            "windows that advance by more than their size leave records out",
            position,
            "ADVANCE BY at most SIZE",
        )
    retention = found.get("RETENTION")
    if retention is not None and retention < size + found.get("GRACE", 0):
        raise SqlError(
            "RETENTION is shorter than the window and its grace",
            position,
            "make it SIZE and GRACE PERIOD together",
        )
