"""Statements out of tokens: by their first word, one method each."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.expression_parser import ExpressionParser
from ottla.sql.language.expressions import Literal, LiteralValue
from ottla.sql.language.query_parser import QueryParser
from ottla.sql.language.statements import (
    AlterSource,
    AssertSchema,
    AssertTopic,
    ColumnText,
    ControlQuery,
    CreateAsSelect,
    CreateConnector,
    CreateSource,
    CreateType,
    Define,
    Describe,
    Described,
    Drop,
    Droppable,
    Explain,
    InsertSelect,
    InsertValues,
    Listed,
    Print,
    Properties,
    Property,
    QueryAction,
    Role,
    RunScript,
    Select,
    SetProperty,
    Show,
    SourceKind,
    Statement,
    Undefine,
    UnsetProperty,
)
from ottla.sql.language.token_stream import TokenStream
from ottla.sql.language.tokens import Kind

_COMMON_SLIPS = {
    "UPDATE": "streams and tables are changed by INSERT INTO, or by what is written to their topics",
    "DELETE": "a table's row is deleted by a null value for its key in the table's topic",
    "USE": "there are no schemas; names stand alone",
}


class StatementParser:
    """Reads one statement from a stream of tokens."""

    def __init__(self, stream: TokenStream) -> None:
        self._stream = stream
        self._queries = QueryParser(stream)
        self._expressions = ExpressionParser(stream)
        self._by_word: dict[str, Callable[[], Statement]] = {
            "SELECT": self._select,
            "CREATE": self._create,
            "INSERT": self._insert,
            "SHOW": self._show,
            "LIST": self._show,
            "DESCRIBE": self._describe,
            "EXPLAIN": self._explain,
            "PRINT": self._print,
            "DROP": self._drop,
            "TERMINATE": self._control,
            "PAUSE": self._control,
            "RESUME": self._control,
            "SET": self._set,
            "UNSET": self._unset,
            "DEFINE": self._define,
            "UNDEFINE": self._undefine,
            "ALTER": self._alter,
            "ASSERT": self._assert,
            "RUN": self._run_script,
        }

    def statement(self) -> Statement:
        """The whole statement. Raises SqlError."""
        token = self._stream.token
        read = self._by_word.get(token.word)
        if read is None:
            advice = _slip(token.word, self._by_word)
            raise SqlError(f"no statement begins with {token.shown}", token.at, advice)
        found = read()
        if self._stream.token.kind is not Kind.END:
            raise self._stream.wrong("the end of the statement")
        return found

    # Queries

    def _select(self) -> Select:
        at = self._stream.at
        return Select(at, self._queries.query())

    def _insert(self) -> InsertSelect | InsertValues:
        stream, at = self._stream, self._stream.at
        stream.needs("INSERT", "INTO")
        target = stream.name("a name of a stream or table")
        properties = self._with() if stream.sees("WITH") else {}
        if stream.sees("SELECT"):
            return InsertSelect(at, target, properties, self._queries.query())
        columns: tuple[str, ...] = ()
        if stream.sees_sign("("):
            columns = stream.in_parentheses(lambda: stream.name("a column's name"))
        if not stream.sees("VALUES"):
            raise stream.wrong("VALUES or SELECT")
        stream.advance()
        values = stream.in_parentheses(self._expressions.expression)
        if stream.sees_sign(","):
            raise SqlError("INSERT takes one row", stream.at, "write one INSERT for each row")
        return InsertValues(at, target, columns, values)

    # CREATE

    def _create(self) -> Statement:
        stream, at = self._stream, self._stream.at
        stream.needs("CREATE")
        or_replace = stream.takes("OR", "REPLACE")
        if stream.sees("TYPE") and not or_replace:
            stream.advance()
            if_not_exists = stream.takes("IF", "NOT", "EXISTS")
            name = stream.name("a type's name")
            stream.needs("AS")
            return CreateType(at, name, self._expressions.type(), if_not_exists)
        for kind in ("SOURCE", "SINK"):
            if stream.sees(kind, "CONNECTOR") and not or_replace:
                stream.needs(kind, "CONNECTOR")
                if_not_exists = stream.takes("IF", "NOT", "EXISTS")
                name = stream.name("a connector's name")
                return CreateConnector(at, kind, name, self._with(), if_not_exists)
        read_only = stream.takes("SOURCE")
        kind_of = self._source_kind("STREAM, TABLE, TYPE, SOURCE CONNECTOR or SINK CONNECTOR")
        if_not_exists = stream.takes("IF", "NOT", "EXISTS")
        name = stream.name(f"a name of a {kind_of.value.lower()}")
        columns = self._columns() if stream.sees_sign("(") else ()
        properties = self._with() if stream.sees("WITH") else {}
        if not stream.takes("AS"):
            if not properties and stream.token.kind is not Kind.END:
                raise stream.wrong("WITH (…) or AS SELECT")
            return CreateSource(at, kind_of, name, columns, properties, or_replace, if_not_exists, read_only)
        if columns or read_only:
            raise SqlError(
                "AS SELECT takes its columns from the query" if columns else "a SOURCE is made over a topic",
                at,
                "leave the columns out" if columns else "leave SOURCE out",
            )
        return CreateAsSelect(at, kind_of, name, properties, self._queries.query(), or_replace, if_not_exists)

    def _source_kind(self, expected: str = "STREAM or TABLE") -> SourceKind:
        for each in SourceKind:
            if self._stream.takes(each.value):
                return each
        raise self._stream.wrong(expected)

    def _columns(self) -> tuple[ColumnText, ...]:
        if self._stream.sees_sign("(") and self._stream.ahead().text == ")":
            self._stream.advance()
            self._stream.advance()
            return ()
        return self._stream.in_parentheses(self._column)

    def _column(self) -> ColumnText:
        stream, at = self._stream, self._stream.at
        name = stream.name("a column's name")
        of = self._expressions.type()
        if stream.takes("PRIMARY", "KEY"):
            return ColumnText(at, name, of, Role.PRIMARY_KEY)
        if stream.takes("KEY"):
            return ColumnText(at, name, of, Role.KEY)
        if stream.takes("HEADERS"):
            return ColumnText(at, name, of, Role.HEADERS)
        if stream.takes("HEADER"):
            stream.needs_sign("(")
            header = stream.text("a header's name in quotes")
            stream.needs_sign(")")
            return ColumnText(at, name, of, Role.HEADERS, header)
        return ColumnText(at, name, of)

    def _with(self) -> Properties:
        stream = self._stream
        stream.needs("WITH")
        found: dict[str, Property] = {}
        stream.needs_sign("(")
        while not stream.sees_sign(")"):
            at = stream.at
            if stream.token.kind is Kind.TEXT:
                name = stream.advance().text
            elif stream.token.kind in (Kind.WORD, Kind.NAME):
                token = stream.advance()
                name = token.word or token.text
            else:
                raise stream.wrong("a property's name")
            stream.needs_sign("=")
            if name in found:
                raise SqlError(f"{name} is given twice", at)
            found[name] = Property(at, self._constant())
            if not stream.takes_sign(","):
                break
        stream.needs_sign(")")
        return found

    def _constant(self) -> LiteralValue:
        stream = self._stream
        at = stream.at
        value = self._expressions.expression()
        if not isinstance(value, Literal):
            raise SqlError("a property's value is a constant", at, "write texts in single quotes")
        return value.value

    # What is asked, and what is done to what runs

    def _show(self) -> Show | Describe:
        stream, at = self._stream, self._stream.at
        stream.advance()
        for what in sorted(Listed, key=lambda each: -len(each.value)):
            if stream.takes(*what.value.split()):
                return Show(at, what, extended=stream.takes("EXTENDED"))
        raise stream.wrong("what to show", "one of " + ", ".join(each.value for each in Listed))

    def _describe(self) -> Describe:
        stream, at = self._stream, self._stream.at
        stream.advance()
        if stream.sees("FUNCTION") and stream.ahead().kind in (Kind.WORD, Kind.NAME):
            stream.advance()
            return Describe(at, Described.FUNCTION, stream.advance().text.upper())
        if stream.sees("CONNECTOR") and stream.ahead().kind in (Kind.WORD, Kind.NAME):
            stream.advance()
            return Describe(at, Described.CONNECTOR, stream.name())
        for each in (Described.STREAMS, Described.TABLES):
            alone = stream.sees(each.name) and stream.ahead().kind is Kind.END
            if alone or stream.sees(each.name, "EXTENDED"):
                stream.advance()
                return Describe(at, each, None, stream.takes("EXTENDED"))
        if stream.sees("EXTENDED") and stream.ahead().kind in (Kind.WORD, Kind.NAME):
            stream.advance()
            return Describe(at, Described.SOURCE, stream.name(), True)
        name = stream.name("a name of a stream or table")
        return Describe(at, Described.SOURCE, name, stream.takes("EXTENDED"))

    def _explain(self) -> Explain:
        stream, at = self._stream, self._stream.at
        stream.advance()
        if stream.token.word in ("SELECT", "CREATE", "INSERT"):
            inner = self._by_word[stream.token.word]()
            return Explain(at, None, inner)
        return Explain(at, self._query_id(), None)

    def _query_id(self) -> str:
        stream = self._stream
        if stream.token.kind is Kind.NAME:
            return stream.advance().text
        return stream.name("a query's id")

    def _print(self) -> Print:
        stream, at = self._stream, self._stream.at
        stream.advance()
        token = stream.token
        if token.kind not in (Kind.TEXT, Kind.NAME, Kind.WORD):
            raise stream.wrong("a topic's name")
        stream.advance()
        topic = token.text
        while stream.token.text in (".", "-") and stream.ahead().kind in (Kind.WORD, Kind.NUMBER):
            topic += stream.advance().text + stream.advance().text
        from_beginning = stream.takes("FROM", "BEGINNING")
        interval = stream.whole_number() if stream.takes("INTERVAL") or stream.takes("SAMPLE") else None
        limit = stream.whole_number() if stream.takes("LIMIT") else None
        return Print(at, topic, from_beginning, interval, limit)

    def _drop(self) -> Drop:
        stream, at = self._stream, self._stream.at
        stream.advance()
        what = next((each for each in Droppable if stream.takes(each.value)), None)
        if what is None:
            raise stream.wrong("STREAM, TABLE, TYPE or CONNECTOR")
        if_exists = stream.takes("IF", "EXISTS")
        name = stream.name()
        of_a_topic = what in (Droppable.STREAM, Droppable.TABLE)
        return Drop(at, what, name, if_exists, of_a_topic and stream.takes("DELETE", "TOPIC"))

    def _control(self) -> ControlQuery:
        stream, at = self._stream, self._stream.at
        action = QueryAction(stream.advance().word)
        if stream.takes("ALL"):
            return ControlQuery(at, action, None)
        return ControlQuery(at, action, self._query_id())

    def _set(self) -> SetProperty:
        stream, at = self._stream, self._stream.at
        stream.advance()
        return self._property(at_system=False, at_place=at)

    def _property(self, *, at_system: bool, at_place: Position) -> SetProperty:
        name = self._stream.text("a property's name in quotes")
        self._stream.needs_sign("=")
        return SetProperty(at_place, name, self._stream.text("a value in quotes"), at_system)

    def _unset(self) -> UnsetProperty:
        stream, at = self._stream, self._stream.at
        stream.advance()
        return UnsetProperty(at, None if stream.takes("ALL") else stream.text("a property's name in quotes"))

    def _define(self) -> Define:
        stream, at = self._stream, self._stream.at
        stream.advance()
        if stream.token.kind is not Kind.WORD:
            raise stream.wrong("a variable's name")
        name = stream.advance().text
        stream.needs_sign("=")
        return Define(at, name, stream.text("a value in quotes"))

    def _undefine(self) -> Undefine:
        stream, at = self._stream, self._stream.at
        stream.advance()
        if stream.token.kind is not Kind.WORD:
            raise stream.wrong("a variable's name")
        return Undefine(at, stream.advance().text)

    def _alter(self) -> AlterSource | SetProperty:
        stream, at = self._stream, self._stream.at
        stream.advance()
        if stream.takes("SYSTEM"):
            return self._property(at_system=True, at_place=at)
        kind = self._source_kind("STREAM, TABLE or SYSTEM")
        name = stream.name(f"a name of a {kind.value.lower()}")
        return AlterSource(at, kind, name, stream.separated(self._added_column))

    def _added_column(self) -> ColumnText:
        stream = self._stream
        if stream.sees("DROP") or stream.sees("RENAME"):
            raise SqlError("columns can only be added", stream.at, "CREATE OR REPLACE makes other changes")
        stream.needs("ADD")
        stream.takes("COLUMN")
        at = stream.at
        name = stream.name("a column's name")
        return ColumnText(at, name, self._expressions.type())

    def _assert(self) -> AssertTopic | AssertSchema:
        stream, at = self._stream, self._stream.at
        stream.advance()
        exists = not stream.takes("NOT", "EXISTS")
        if stream.takes("TOPIC"):
            token = stream.token
            if token.kind not in (Kind.TEXT, Kind.NAME, Kind.WORD):
                raise stream.wrong("a topic's name")
            stream.advance()
            properties = self._with() if stream.sees("WITH") else {}
            return AssertTopic(at, token.text, exists, properties, self._timeout())
        if not stream.takes("SCHEMA"):
            raise stream.wrong("TOPIC or SCHEMA")
        subject = schema_id = None
        if stream.takes("SUBJECT"):
            token = stream.token
            if token.kind not in (Kind.TEXT, Kind.NAME, Kind.WORD):
                raise stream.wrong("a subject")
            subject = stream.advance().text
        if stream.takes("ID"):
            schema_id = stream.whole_number()
        if subject is None and schema_id is None:
            raise stream.wrong("SUBJECT or ID")
        return AssertSchema(at, subject, schema_id, exists, self._timeout())

    def _timeout(self) -> int | None:
        return self._stream.duration_ms() if self._stream.takes("TIMEOUT") else None

    def _run_script(self) -> RunScript:
        stream, at = self._stream, self._stream.at
        stream.advance()
        stream.needs("SCRIPT")
        return RunScript(at, stream.text("a file's name in quotes"))


def _slip(word: str, known: dict[str, Callable[[], Statement]]) -> str:
    if word in _COMMON_SLIPS:
        return _COMMON_SLIPS[word]
    close = difflib.get_close_matches(word, known, 1)
    return f"is {close[0]} meant?" if close else "statements begin with " + ", ".join(known)
