"""Answer questions about materialized tables over HTTP (interactive queries).

| path | answer |
|---|---|
| GET /health | 200 when every table can be asked, else 503; the state of each |
| GET /tables | all tables |
| GET /tables/NAME | how many rows, positions, lag |
| GET /tables/NAME/keys/KEY | the row; 404 when there is none |
| GET /tables/NAME/keys/KEY/windows?from=&to=&limit= | a key's windows that start in that time, oldest first |
| GET /tables/NAME/range?from=&to=&limit=&after= | rows in the order of keys, both ends inclusive, in pages |

KEY, and the ends of a range, are the text itself for text, base64 for bytes, JSON for anything else; quoted
as URLs want it, a slash too (%2F). Times are milliseconds since 1970 or ISO 8601.

Every answer has been committed: a table is read from its topic with read_committed. Each answer's headers say
how far it is behind: `Ottla-Lag` (offsets) and `Ottla-Age-Ms` (since it was last known to be at
the topic's end). While a table is read for the first time, and when its view has failed, it answers 503.

The server runs in a thread of its own and reads SQLite in READERS more; it is bound to this machine unless
told otherwise, for it knows no users.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import orjson
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.client.access import ClusterAccess
from ottla.streams.plan.planner import Plan
from ottla.streams.views.followed_topic import ViewError
from ottla.streams.views.view_codec import TableCodec, TableKey, epoch_ms
from ottla.streams.views.view_status import ViewState
from ottla.streams.views.view_store import READERS, Row
from ottla.streams.views.views import RowTypes, View, ViewSettings
from ottla.web.application import json_answer, json_application
from ottla.web.errors import ApiError
from ottla.web.http_protocol import BoundedHttpProtocol

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1_000
MAX_KEY_CHARACTERS: Final = 16_384
CONNECTIONS: Final = 1_024
CLOSE_SECONDS: Final = 10.0
LAG_HEADER: Final = "Ottla-Lag"
AGE_HEADER: Final = "Ottla-Age-Ms"
WINDOW_RETENTION_MS: Final = 86_400_000
"""As Kafka Streams keeps windows unless told otherwise: a day."""
_LAST_MS: Final = 2**62

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

log = logging.getLogger("ottla.streams")
_Answer = TypeVar("_Answer")


def tables_of(
    planned: Plan,
    types: Mapping[str, tuple[DataType, DataType]],
    cluster: ClusterAccess,
    directory: Path,
) -> list[ViewSettings]:
    """The views of an application's materialized tables. `types`: key and value type by internal topic.

    Windows are kept for WINDOW_RETENTION_MS of event time behind their end.
    """
    return [
        ViewSettings(name, sink.topic, cluster, directory, RowTypes(*types[sink.topic], WINDOW_RETENTION_MS))
        for name, sink in planned.materialized.items()
    ]


class QueryServer:
    """Serves views over HTTP from `start` (or `with`) to `close`; it owns the views, and closes them."""

    def __init__(self, tables: Sequence[ViewSettings], port: int, host: str = "127.0.0.1") -> None:
        self.views: Mapping[str, View] = {each.name: View(each) for each in tables}
        self._address = host, port
        self._socket: socket.socket | None = None
        self._listening: _Listening | None = None
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="tables")

    @property
    def url(self) -> str:
        """Where it answers."""
        assert self._socket is not None, "it has not started"
        host, port = self._socket.getsockname()[:2]
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"

    @property
    def failure(self) -> str | None:
        """Why a table can't be asked any more; None as long as all is well."""
        for name, view in self.views.items():
            if (error := view.status.error) is not None:
                return f"table {name}: {error}"
        if self._listening is not None and not self._listening.thread.is_alive():
            return "the server of interactive queries has ended"
        return None

    def start(self) -> None:
        """Start the views and listen. Raises ViewError, ClusterError."""
        try:
            self._socket = self._bound()
            for view in self.views.values():
                view.start()
            self._listen(self._socket)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening, then the views. Safe to call twice."""
        if self._listening is not None:
            self._listening.server.should_exit = True
            self._listening.thread.join(CLOSE_SECONDS)
            self._listening = None
        self._readers.shutdown()
        for view in self.views.values():
            view.close()
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> QueryServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _bound(self) -> socket.socket:
        host, port = self._address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(self._address)
        except OSError as error:
            bound.close()
            raise ViewError(f"can't listen for queries on {host}:{port}: {error.strerror}") from None
        return bound

    def _listen(self, bound: socket.socket) -> None:
        config = uvicorn.Config(
            self._application(),
            http=BoundedHttpProtocol,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=5,
            limit_concurrency=CONNECTIONS,
        )
        server = _Server(config)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [bound]}, name="interactive-queries", daemon=True
        )
        thread.start()
        self._listening = _Listening(server, thread)
        if not server.ready.wait(CLOSE_SECONDS):
            raise ViewError("the server of interactive queries does not start")

    # -- routes --------------------------------------------------------------------------------------------

    def _application(self) -> Any:
        return json_application(
            [
                Route("/health", self._health),
                Route("/tables", self._all),
                Route("/tables/{name}", self._one),
                Route("/tables/{name}/range", self._range),
                Route("/tables/{name}/keys/{key:path}", self._key),
            ]
        )

    async def _health(self, _request: Request) -> Response:
        states = {name: _status(view) for name, view in self.views.items()}
        well = all(view.status.state is ViewState.RUNNING for view in self.views.values())
        return json_answer({"status": "up" if well else "down", "tables": states}, 200 if well else 503)

    async def _all(self, _request: Request) -> Response:
        return json_answer({"tables": [await self._described(view) for view in self.views.values()]})

    async def _one(self, request: Request) -> Response:
        return json_answer(await self._described(self._view(request)))

    async def _described(self, view: View) -> dict[str, Any]:
        return {
            "name": view.settings.name,
            "topic": view.settings.topic,
            "key": view.settings.rows.key.simpleString(),
            "value": view.settings.rows.value.simpleString(),
            "windowed": view.codec.windowed,
            "count": await self._read(view.count),
            **_status(view),
        }

    async def _key(self, request: Request) -> Response:
        """Both paths below a key: told apart before quotes are removed, so keys may hold anything."""
        _, _, _, _, key, *rest = request.scope["raw_path"].decode("ascii", "replace").split("/")
        if rest not in ([], ["windows"]):
            raise ApiError(404, 40400, "there is nothing at this path; a slash in a key is written %2F")
        view = self._answering(request)
        stored = _key_of(view.codec, unquote(key))
        if rest:
            return await self._windows(request, view, stored)
        if view.codec.windowed:
            raise ApiError(400, 40001, f"{view.settings.name} has windows: ask …/keys/KEY/windows")
        row = await self._read(lambda: view.get(stored))
        if row is None:
            raise ApiError(404, 40402, f"{view.settings.name} has no row for this key")
        return _told(view, _row(view.codec, row))

    async def _windows(self, request: Request, view: View, stored: Any) -> Response:
        if not view.codec.windowed:
            raise ApiError(400, 40001, f"{view.settings.name} has no windows: ask …/keys/KEY")
        limit = _limit(request)
        from_ms, to_ms = _time(request, "from", -_LAST_MS), _time(request, "to", _LAST_MS)
        rows = await self._read(lambda: view.windows(stored, from_ms, to_ms, limit + 1))
        return _told(
            view, {"rows": [_row(view.codec, row) for row in rows[:limit]], "more": len(rows) > limit}
        )

    async def _range(self, request: Request) -> Response:
        view = self._answering(request)
        limit, given = _limit(request), request.query_params
        low = _key_of(view.codec, given["from"]) if "from" in given else None
        high = _key_of(view.codec, given["to"]) if "to" in given else None
        after = _page_start(given["after"]) if "after" in given else None
        rows = await self._read(lambda: view.range(low, high, after, limit + 1))
        shown = rows[:limit]
        next_page = _page(shown[-1].key) if len(rows) > limit else None
        return _told(view, {"rows": [_row(view.codec, row) for row in shown], "next": next_page})

    def _view(self, request: Request) -> View:
        name = request.path_params["name"]
        view = self.views.get(name)
        if view is None:
            there = ", ".join(self.views) or "none"
            raise ApiError(404, 40401, f"there is no table {name}; there are: {there}")
        return view

    def _answering(self, request: Request) -> View:
        view = self._view(request)
        status = view.status
        match status.state:
            case ViewState.RESTORING:
                raise ApiError(503, 50301, f"{view.settings.name} is being read; {status.lag} offsets to go")
            case ViewState.FAILED:
                raise ApiError(503, 50302, f"{view.settings.name} can't be asked: {status.error}")
        return view

    async def _read(self, ask: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._readers, ask)


class _Server(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@dataclass(frozen=True, slots=True)
class _Listening:
    """The HTTP server, and the thread that it runs in."""

    server: _Server
    thread: threading.Thread


def _status(view: View) -> dict[str, Any]:
    status = view.status
    return {
        "state": status.state.value,
        "positions": {str(partition): offset for partition, offset in sorted(status.positions.items())},
        "lag": status.lag,
        "age_ms": status.age_ms,
        "records_without_key": status.without_key,
        "error": status.error,
    }


def _told(view: View, content: Any) -> Response:
    """An answer that says how far behind the table is."""
    status = view.status
    answer = json_answer(content)
    answer.headers[LAG_HEADER] = str(status.lag)
    answer.headers[AGE_HEADER] = str(status.age_ms)
    return answer


def _row(codec: TableCodec, row: Row) -> dict[str, Any]:
    shown: dict[str, Any] = {"key": codec.key_json(row.key.key)}
    if codec.windowed:
        shown |= {"window_start": row.key.start_ms, "window_end": row.key.end_ms}
    return shown | {"value": orjson.Fragment(row.value), "timestamp": row.timestamp_ms}


def _key_of(codec: TableCodec, text: str) -> Any:
    if len(text) > MAX_KEY_CHARACTERS:
        raise ApiError(400, 40002, f"a key of more than {MAX_KEY_CHARACTERS} characters")
    try:
        return codec.key_from_text(text)
    except (ValueError, OverflowError) as problem:
        raise ApiError(400, 40002, f"this is no key of the table: {problem}") from None


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(DEFAULT_LIMIT))
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LIMIT:
        raise ApiError(400, 40003, f"limit is a number from 1 to {MAX_LIMIT}, not {text!r}")
    return int(text)


def _time(request: Request, name: str, otherwise: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return otherwise
    try:
        wanted = int(text) if text.lstrip("-").isdecimal() else epoch_ms(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise ApiError(400, 40004, f"{name} is milliseconds since 1970 or ISO 8601, not {text!r}") from None
    return max(-_LAST_MS, min(_LAST_MS, wanted))


def _page(key: TableKey) -> str:
    """Where the next page begins, as a text for URLs: the caller need not understand it."""
    stored = {"b": base64.b64encode(key.key).decode()} if isinstance(key.key, bytes) else key.key
    return base64.urlsafe_b64encode(orjson.dumps([stored, key.start_ms, key.end_ms])).decode().rstrip("=")


def _page_start(text: str) -> TableKey:
    try:
        stored, start_ms, end_ms = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if isinstance(stored, dict):
            stored = base64.b64decode(stored["b"])
        if not isinstance(stored, int | float | str | bytes):
            raise ValueError("no key")
        return TableKey(stored, int(start_ms), int(end_ms))
    except (ValueError, LookupError, TypeError, binascii.Error):
        raise ApiError(400, 40005, "after is what the page before gave as next") from None
