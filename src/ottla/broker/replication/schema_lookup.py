"""Looks schema ids up in a schema registry: over HTTP in threads; answers are remembered for a while.

The subjects of an id are remembered for FOUND_SECONDS for rules that they satisfy, because registrations
rarely go away; other rules ask again, because their subject may have got the schema meanwhile (serializers
register it and then produce), but not again within MISSED_SECONDS after a refusal. Questions for the same id
share one request. When no registry answers, further questions fail at once for DOWN_SECONDS.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.broker.replication.schema_rules import KnownSchema, PartRule
from ottla.client.registry.wire import (
    MAX_ANSWER_BYTES,
    MEDIA_TYPE,
    RegistryRefusal,
    UnusableAnswer,
    authorization_in,
    judged,
    shown,
)

FOUND_SECONDS: Final = 300.0
MISSED_SECONDS: Final = 2.0
DOWN_SECONDS: Final = 1.0
HTTP_TIMEOUT_SECONDS: Final = 2.0
"""The timeout of each step of a request: to connect, to send, to receive more."""
THREADS: Final = 4
MAX_REMEMBERED: Final = 10_000
MAX_UNDER_WAY: Final = 256
_NOT_FOUND: Final = 404
_NO_ANSWER: Final = (OSError, http.client.HTTPException, ValueError, RecursionError, UnusableAnswer)
_PROTOBUF_NOISE: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_PROTOBUF_TOKEN: Final = re.compile(r"[A-Za-z_][\w.]*|[{};]")


class RegistryUnavailable(Exception):
    """No registry gave an answer; the message gives the reasons."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    known: KnownSchema | None
    at: float


class SchemaLookup:
    """Asks the registries at `urls`, the first that answers. Used on one event loop."""

    def __init__(self, urls: tuple[str, ...], clock: Callable[[], float] = time.monotonic) -> None:
        self.urls = urls
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, "schema-lookup")
        self._remembered: OrderedDict[tuple[int, bool], _Remembered] = OrderedDict()
        self._refused: OrderedDict[tuple[int, PartRule], float] = OrderedDict()
        self._under_way: dict[tuple[int, bool], asyncio.Future[KnownSchema | None]] = {}
        self._down_until = -1.0
        self._why_down = ""

    async def accepts(self, schema_id: int, rule: PartRule) -> bool:
        """Whether `rule` accepts the schema. A refusal is never older than the question, but for one that has
        been refused just before.

        Raises RegistryUnavailable.
        """
        question = (schema_id, rule.needs_record_names)
        remembered = self._remembered.get(question)
        if remembered is not None and rule.accepts(remembered.known):
            if self._clock() - remembered.at < FOUND_SECONDS:
                self._remembered.move_to_end(question)
                return True
        elif self._clock() - self._refused.get((schema_id, rule), -MISSED_SECONDS) < MISSED_SECONDS:
            return False
        asked_by_others = question in self._under_way
        accepted = rule.accepts(await self._ask(question))
        if not accepted and asked_by_others:
            accepted = rule.accepts(await self._ask(question))
        if not accepted:
            self._refused[(schema_id, rule)] = self._clock()
            self._refused.move_to_end((schema_id, rule))
            _bound(self._refused)
        return accepted

    async def _ask(self, question: tuple[int, bool]) -> KnownSchema | None:
        under_way = self._under_way.get(question)
        if under_way is None:
            if self._clock() < self._down_until:
                raise RegistryUnavailable(self._why_down)
            if len(self._under_way) >= MAX_UNDER_WAY:
                raise RegistryUnavailable(f"{MAX_UNDER_WAY} questions are under way")
            loop = asyncio.get_running_loop()
            under_way = loop.run_in_executor(self._threads, fetch_schema, self.urls, *question)
            self._under_way[question] = under_way
            under_way.add_done_callback(lambda answer: self._on_answer(question, answer))
        # A caller that gives up must not take the answer away from the others.
        return await asyncio.shield(under_way)

    def _on_answer(self, question: tuple[int, bool], answer: asyncio.Future[KnownSchema | None]) -> None:
        self._under_way.pop(question, None)
        if answer.cancelled():
            return
        problem = answer.exception()
        if problem is not None:
            self._down_until = self._clock() + DOWN_SECONDS
            self._why_down = str(problem)
            return
        self._remembered[question] = _Remembered(answer.result(), self._clock())
        self._remembered.move_to_end(question)
        _bound(self._remembered)

    def close(self) -> None:
        """Ask no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _bound(memory: OrderedDict[Any, Any]) -> None:
    while len(memory) > MAX_REMEMBERED:
        memory.popitem(last=False)


def fetch_schema(urls: Sequence[str], schema_id: int, with_names: bool) -> KnownSchema | None:
    """Ask for a schema; None when the registry doesn't know it. Blocks. Raises RegistryUnavailable."""
    problems = []
    for url in urls:
        try:
            return _fetch_from(url, schema_id, with_names)
        except _NO_ANSWER as problem:
            problems.append(f"{shown(url)}: {str(problem) or type(problem).__name__}")
    raise RegistryUnavailable("; ".join(problems))


def _fetch_from(url: str, schema_id: int, with_names: bool) -> KnownSchema | None:
    subjects = _get(url, f"/schemas/ids/{schema_id}/subjects")
    if subjects is None:
        return None
    if not isinstance(subjects, list) or not all(isinstance(subject, str) for subject in subjects):
        raise ValueError("its subjects are no list of names")
    if not with_names:
        return KnownSchema(frozenset(subjects))
    schema = _get(url, f"/schemas/ids/{schema_id}")
    if not isinstance(schema, dict):
        return None
    return KnownSchema(frozenset(subjects), record_names(schema))


def _get(url: str, path: str) -> Any:
    """The JSON at a path of the registry; None if it says that there is none. Raises _NO_ANSWER."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if not parts.hostname:
        raise ValueError("the URL has no host")
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname, parts.port, timeout=HTTP_TIMEOUT_SECONDS)
    headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
    authorization = authorization_in(parts)
    if authorization is not None:
        headers["Authorization"] = authorization
    try:
        connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
        response = connection.getresponse()
        body = response.read(MAX_ANSWER_BYTES + 1)
    finally:
        connection.close()
    if len(body) > MAX_ANSWER_BYTES:
        raise ValueError(f"more than {MAX_ANSWER_BYTES} bytes for {path}")
    try:
        return judged(response.status, body, url, path)
    except RegistryRefusal as refusal:
        if refusal.status != _NOT_FOUND:
            raise ValueError(f"status {refusal.status} for {path}") from None
        if not refusal.is_told:  # a 404 without the registry's error code comes from another kind of server
            raise ValueError("status 404, and not of a schema registry") from None
        return None


def record_names(schema: dict[str, Any]) -> tuple[str, ...]:
    """The names that record name strategies may take from a schema as the registry gives it."""
    text = schema.get("schema")
    if not isinstance(text, str):
        raise ValueError("the schema has no text")
    match schema.get("schemaType", "AVRO"):
        case "AVRO":
            return _avro_names(json.loads(text))
        case "JSON":
            parsed = json.loads(text)
            title = parsed.get("title") if isinstance(parsed, dict) else None
            return (title,) if isinstance(title, str) else ()
        case "PROTOBUF":
            return tuple(_message_names(text))
    return ()


def _avro_names(schema: Any) -> tuple[str, ...]:
    name = schema.get("name") if isinstance(schema, dict) else None
    if not isinstance(name, str):
        return ()
    namespace = schema.get("namespace")
    return (f"{namespace}.{name}",) if namespace and "." not in name else (name,)


def _message_names(text: str) -> Iterator[str]:
    """Every message that a .proto file declares, nested ones too: the payload says which it is."""
    tokens = _PROTOBUF_TOKEN.findall(_PROTOBUF_NOISE.sub(" ", text))
    package = ""
    inside: list[str] = []
    opening = ""
    for index, token in enumerate(tokens):
        if token == "{":
            inside.append(opening)
            if opening:
                yield ".".join(name for name in (package, *inside) if name)
            opening = ""
        elif token == "}":
            if inside:
                inside.pop()
        elif token == "package" and not inside:
            package = tokens[index + 1] if index + 1 < len(tokens) else ""
        elif token == "message" and tokens[index + 2 : index + 3] == ["{"]:
            opening = tokens[index + 1]
