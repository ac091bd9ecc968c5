"""A server of SQL in a thread: ksqlDB's REST API over real HTTP, statements parsed and bound, rows in memory.

Rows come from INSERT INTO … VALUES and from `put`. Queries are of one source, of columns alone, with
conditions `column = constant` joined by AND. A table made by GROUP BY holds the last row of each key.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.expressions import Literal, Name, Operation
from ottla.sql.language.parser import parse_script
from ottla.sql.language.statements import (
    Describe,
    Item,
    Listed,
    Query,
    Select,
    Show,
    SourceKind,
    Star,
    Statement,
)
from ottla.sql.lowering.evaluator import row_function
from ottla.sql.plan.statement_plan import Nothing, PutQuery, PutSource, RemoveSource, WriteRow, applied
from ottla.sql.types.sql_types import Base, SqlType

WAIT_SECONDS = 0.05
DELIMITED = "application/vnd.ksqlapi.delimited.v1"


@dataclass(slots=True)
class FakeSql:
    """The state of the API.

    before: called with the path and body of each request; what it returns (status, JSON) is the answer.
    closed: ids of push queries that were ended by /close-query. left: of those whose client has gone.
    """

    url: str = ""
    catalog: Catalog = field(default_factory=Catalog)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    commands: int = 0
    password: str | None = None
    before: Callable[[str, Any], tuple[int, Any] | None] = lambda path, body: None
    changed: threading.Condition = field(default_factory=threading.Condition)
    is_ended: bool = False
    failing: dict[str, str] = field(default_factory=dict)
    """Source -> the message with which push queries over it fail behind their rows."""

    @classmethod
    @contextmanager
    def running(cls, tls: ssl.SSLContext | None = None) -> Iterator[FakeSql]:
        """The API at a free port for the length of the block."""
        fake = cls()
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        fake.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            with fake.changed:
                fake.is_ended = True
                fake.changed.notify_all()
            server.shutdown()
            server.server_close()
            thread.join(10)

    def put(self, name: str, *rows: Mapping[str, Any]) -> None:
        """Add rows to a source, as if they had been written to its topic."""
        with self.changed:
            self._put(name, *rows)

    def run(self, script: str) -> None:
        """Carry out statements, as if they had been sent. Raises SqlError."""
        with self.changed:
            for parsed in parse_script(script):
                self._statement(parsed.statement, parsed.text)

    def texts(self) -> list[str]:
        """The statements that /ksql was sent."""
        return [body["ksql"] for _, path, body in self.asked if path == "/ksql"]

    def closed_query(self, query_id: str, seconds: float = 10.0) -> bool:
        """Wait until a push query was closed; whether it was."""
        with self.changed:
            return self.changed.wait_for(lambda: query_id in self.closed, seconds)

    # -- /ksql

    def statements(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        """The answer to /ksql."""
        entities: list[Any] = []
        text = str(body["ksql"])
        with self.changed:
            try:
                for parsed in parse_script(text, body.get("sessionVariables") or {}):
                    entity = self._statement(parsed.statement, parsed.text)
                    entities.append(entity)
            except SqlError as error:
                return 400, {
                    "@type": "statement_error",
                    "error_code": 40001,
                    "message": str(error),
                    "statementText": text,
                    "entities": entities,
                }
        return 200, entities

    def _statement(self, statement: Statement, text: str) -> dict[str, Any]:
        common = {"statementText": text + ";", "warnings": []}
        match statement:
            case Show(what=Listed.STREAMS | Listed.TABLES as what):
                return {"@type": what.value.lower(), **common, what.value.lower(): self._listed(what)}
            case Show(what=what):
                name = what.value.lower().replace("all topics", "topics")
                return {"@type": name, **common, **self._shown(what)}
            case Describe(name=name) if name is not None:
                source = self.catalog.source(name, statement.at)
                return {"@type": "sourceDescription", **common, "sourceDescription": _described(source)}
        plan = Binder(self.catalog).bind(statement)
        if isinstance(plan, WriteRow):
            values = {
                name: row_function(each, lambda _: lambda row: None, Functions())(None)
                for name, each in plan.values
            }
            self._put(plan.target.name, values)
            return {"@type": "insert", **common}
        self.catalog = applied(plan, self.catalog)
        match plan:
            case PutQuery(target=target) | PutSource(source=target):
                message = f"{target.kind.value.capitalize()} {target.name} created"
                self.rows.setdefault(target.name, [])
            case RemoveSource(name=name):
                message = f"Source {name} was dropped."
                self.rows.pop(name, None)
            case Nothing(reason=reason):
                message = reason
            case _:
                message = "done"
        self.commands += 1
        return {
            "@type": "currentStatus",
            **common,
            "commandId": f"c/{self.commands}",
            "commandSequenceNumber": self.commands,
            "commandStatus": {"status": "SUCCESS", "message": message, "queryId": None},
        }

    def _listed(self, what: Listed) -> list[dict[str, Any]]:
        kind = SourceKind.STREAM if what is Listed.STREAMS else SourceKind.TABLE
        return [
            {
                "type": kind.value,
                "name": each.name,
                "topic": each.topic,
                "keyFormat": each.key_format,
                "valueFormat": each.value_format,
                "isWindowed": each.windowed is not None,
            }
            for each in self.catalog.sources.values()
            if each.kind is kind
        ]

    def _shown(self, what: Listed) -> dict[str, Any]:
        match what:
            case Listed.FUNCTIONS:
                return {
                    "functions": [{"name": "UCASE", "type": "SCALAR"}, {"name": "COUNT", "type": "AGGREGATE"}]
                }
            case Listed.QUERIES:
                return {"queries": []}
            case Listed.PROPERTIES:
                found = [{"name": "auto.offset.reset", "scope": "KSQL", "value": "latest", "level": "QUERY"}]
                return {"properties": found}
            case Listed.TYPES:
                return {"types": {}}
            case _:
                found = [{"name": each.topic, "replicaInfo": [1]} for each in self.catalog.sources.values()]
                return {"topics": found}

    def _put(self, name: str, *rows: Mapping[str, Any]) -> None:
        kept = self.rows.setdefault(name, [])
        for row in rows:
            kept.append({"ROWOFFSET": len(kept), "ROWPARTITION": 0, "ROWTIME": 0, **row})
        self.changed.notify_all()

    # -- queries

    def query(self, text: str, variables: Mapping[str, str]) -> tuple[dict[str, Any], Query, Source]:
        """The head of a query's answer. Raises SqlError."""
        (parsed,) = parse_script(text, variables)
        with self.changed:
            Binder(self.catalog).bind(parsed.statement)
            assert isinstance(parsed.statement, Select)
            query = parsed.statement.query
            source = self.catalog.source(query.source.name, query.source.at)
            names = _selected(query, source)
            types = [str(_type(source, each)) for each, _ in names]
            self.commands += 1
            head = {
                "queryId": f"transient_{self.commands}",
                "columnNames": [n for _, n in names],
                "columnTypes": types,
            }
        return head, query, source

    def snapshot(self, source: Source, begin: int) -> tuple[list[dict[str, Any]], int]:
        """A source's rows from a number on, and the next number."""
        derived_of = self.derived.get(source.name)
        rows = self.rows.get(derived_of or source.name, [])
        return rows[begin:], len(rows)

    @property
    def derived(self) -> dict[str, str]:
        """Tables made of a stream, by the stream: names of columns are those of the stream's."""
        return {
            each.name: _stream_of(each, self.catalog)
            for each in self.catalog.sources.values()
            if each.is_table and _stream_of(each, self.catalog)
        }

    def pulled(self, query: Query, source: Source) -> list[list[Any]]:
        """The rows of a pull query."""
        with self.changed:
            rows, _ = self.snapshot(source, 0)
            if source.is_table:
                rows = list({tuple(row.get(k.name) for k in source.keys): row for row in rows}.values())
            found = [projected(query, source, row) for row in rows if holds(query, row)]
        return found if query.limit is None else found[: query.limit]


def projected(query: Query, source: Source, row: Mapping[str, Any]) -> list[Any]:
    """A row's selected values, as JSON has them."""
    return [_value(row.get(name), _type(source, name)) for name, _ in _selected(query, source)]


def holds(query: Query, row: Mapping[str, Any]) -> bool:
    """Whether a row fulfils the conditions."""
    return _holds(query.where, row)


def _holds(condition: Any, row: Mapping[str, Any]) -> bool:
    match condition:
        case None:
            return True
        case Operation(operator="AND", operands=operands):
            return all(_holds(each, row) for each in operands)
        case Operation(operator="=", operands=(Name(name=name), Literal(value=value))):
            return bool(row.get(name) == value)
    raise SqlError("the fake server knows no such condition", None)


def _selected(query: Query, source: Source) -> list[tuple[str, str]]:
    """The selected columns: the source's name and the result's."""
    found = []
    for item in query.items:
        match item:
            case Star():
                found += [(each.name, each.name) for each in source.columns]
            case Item(expression=Name(name=name), alias=alias):
                found.append((name, alias or name))
            case _:
                raise SqlError("the fake server selects columns alone", item.at)
    return found


def _type(source: Source, name: str) -> SqlType:
    column = source.column(name)
    return source.hidden[name] if column is None else column.type


def _value(value: Any, of: SqlType) -> Any:
    if of.base is Base.BYTES and isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return float(value) if of.base is Base.DECIMAL and value is not None else value


def _stream_of(table: Source, catalog: Catalog) -> str:
    names = {each.name for each in table.columns}
    for each in catalog.sources.values():
        if not each.is_table and names <= {column.name for column in each.columns}:
            return each.name
    return ""


def _described(source: Source) -> dict[str, Any]:
    fields = [
        {"name": each.name, "schema": _schema(each.type), **({"type": "KEY"} if each.is_key else {})}
        for each in source.columns
    ]
    return {
        "name": source.name,
        "type": source.kind.value,
        "fields": fields,
        "topic": source.topic,
        "extended": False,
        "windowType": None if source.windowed is None else source.windowed.kind.value,
    }


def _schema(of: SqlType) -> dict[str, Any]:
    return {
        "type": of.base.value,
        "fields": [{"name": name, "schema": _schema(each)} for name, each in of.fields] or None,
        "memberSchema": _schema(of.elements[-1]) if of.elements else None,
        **({"parameters": {"precision": of.precision, "scale": of.scale}} if of.base is Base.DECIMAL else {}),
    }


def _handler(fake: FakeSql) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer(None)

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            self.answer(json.loads(self.rfile.read(length)))

        def answer(self, body: Any) -> None:
            with fake.changed:
                fake.asked.append((self.command, self.path, body))
                fake.headers.append(dict(self.headers.items()))
            wanted = (
                None
                if fake.password is None
                else "Basic " + base64.b64encode(fake.password.encode()).decode()
            )
            if wanted is not None and self.headers.get("authorization") != wanted:
                return self.whole(
                    401, {"@type": "generic_error", "error_code": 40100, "message": "Unauthorized"}
                )
            given = fake.before(self.path, body)
            if given is not None:
                return self.whole(*given)
            match self.path:
                case "/info":
                    info = {
                        "version": "0.29.0",
                        "kafkaClusterId": "abc",
                        "ksqlServiceId": "default_",
                        "serverStatus": "RUNNING",
                    }
                    return self.whole(200, {"KsqlServerInfo": info})
                case "/ksql":
                    return self.whole(*fake.statements(body))
                case "/query-stream":
                    return self.rows(body)
                case "/query":
                    return self.printed(body)
                case "/close-query":
                    with fake.changed:
                        fake.closed.append(body["queryId"])
                        fake.changed.notify_all()
                    return self.whole(200, None)
            if self.path.startswith("/is_valid_property/"):
                name = unquote(self.path.rpartition("/")[2])
                if name.startswith("no."):
                    message = f"One or more properties overrides set locally are prohibited: {name}"
                    return self.whole(
                        400, {"@type": "generic_error", "error_code": 40000, "message": message}
                    )
                return self.whole(200, True)
            return self.whole(404, {"message": "not here"})

        def rows(self, body: Any) -> None:
            try:
                head, query, source = fake.query(body["sql"], body.get("sessionVariables") or {})
            except SqlError as error:
                return self.whole(400, {"@type": "generic_error", "error_code": 40001, "message": str(error)})
            self.begin(200, DELIMITED)
            self.part(head)
            if query.emit is None:
                for row in fake.pulled(query, source):
                    self.part(row)
                return self.end()
            sent, position = 0, 0
            try:
                while query.limit is None or sent < query.limit:
                    with fake.changed:
                        fake.changed.wait_for(
                            lambda at=position: self.is_over(head["queryId"], source, at), WAIT_SECONDS
                        )
                        rows, position = fake.snapshot(source, position)
                        is_over = fake.is_ended or head["queryId"] in fake.closed
                    for row in rows:
                        if holds(query, row) and (query.limit is None or sent < query.limit):
                            self.part(projected(query, source, row))
                            sent += 1
                    if source.name in fake.failing:
                        message = fake.failing[source.name]
                        self.part({"status": "error", "error_code": 50000, "message": message})
                        break
                    if is_over:
                        break
                self.end()
            except OSError:
                with fake.changed:
                    fake.left.append(head["queryId"])
                    fake.changed.notify_all()

        def is_over(self, query_id: str, source: Source, position: int) -> bool:
            return fake.is_ended or query_id in fake.closed or bool(fake.snapshot(source, position)[0])

        def printed(self, body: Any) -> None:
            topic = body["ksql"].split()[1].strip("';")
            self.begin(200, "application/json")
            lines = ["Key format: KAFKA_INT", "Value format: JSON"]
            with fake.changed:
                lines += [
                    f"key: {row.get('ID')}, value: {json.dumps(row)}, partition: 0"
                    for row in fake.rows.get(topic.upper(), [])
                ]
            with suppress(OSError):
                for line in lines:
                    self.chunk(f"{line}\n".encode())
                self.end()

        def whole(self, status: int, reply: Any) -> None:
            data = b"" if reply is None else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def begin(self, status: int, media_type: str) -> None:
            self.send_response(status)
            self.send_header("content-type", media_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()

        def part(self, value: Any) -> None:
            self.chunk(json.dumps(value).encode() + b"\n")

        def chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

        def end(self) -> None:
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: Any) -> None:
            return

    return Handler
