"""Pull queries passed on to another server, while this one still reads the table.

Every server has every table whole, so any other one has the answer. It is asked with FORWARDED among the
properties: a server that is asked so answers at once or refuses, and passes nothing on itself. Where no other
server answers (it still reads too, or wants credentials, which are not passed on), the caller waits here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import httpx
import orjson

from ottla.sql.functions import casts
from ottla.sql.rows.json_values import from_json, parsed
from ottla.sql.rows.port import Answer, OutColumn, OutRow, Peers, WholeRows
from ottla.sql.types.bad_value import BadValue
from ottla.sql.types.sql_types import STRING, SqlType

FORWARDED: Final = "ottla.sql.pull.forwarded"
ANSWER_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 16 << 20
MAX_PEERS_ASKED: Final = 3

log = logging.getLogger("ottla.sql")


async def passed_on(
    peers: Peers,
    text: str,
    properties: Mapping[str, str],
    id: str,
    columns: tuple[OutColumn, ...],
    topic: str,
) -> Answer | None:
    """Another server's answer to a pull query; None where there is none, or its rows can't be taken over."""
    readers = [_reader(each.type) for each in columns]
    if any(each is None for each in readers) or "${" in text:
        return None
    known = [each for each in readers if each is not None]
    for url in list(peers.addresses())[:MAX_PEERS_ASKED]:
        try:
            lines, positions, lag = await _asked(url, text, {**properties, FORWARDED: "true"})
            found = [_row(parsed(line, True), known) for line in lines]
        except (httpx.HTTPError, BadValue, ValueError) as problem:
            log.info("the server %s does not answer a pull query in place of this one: %s", url, problem)
            continue
        placed = {(topic, int(name.rpartition("-")[2])): offset for name, offset in positions.items()}
        return Answer(id, columns, False, WholeRows(found), placed, lag)
    return None


async def _asked(
    url: str, text: str, properties: Mapping[str, str]
) -> tuple[list[bytes], Mapping[str, int], int | None]:
    """The rows' lines, and the place of the answer. Raises httpx.HTTPError, ValueError."""
    body = {"sql": text, "properties": dict(properties)}
    data = bytearray()
    async with (
        httpx.AsyncClient(timeout=ANSWER_SECONDS) as client,
        client.stream("POST", f"{url}/query-stream", json=body) as answer,
    ):
        async for part in answer.aiter_bytes():
            data += part
            if len(data) > MAX_ANSWER_BYTES:
                raise ValueError(f"its answer has more than {MAX_ANSWER_BYTES} bytes")
        if answer.status_code != 200:
            raise ValueError(f"status {answer.status_code}: {bytes(data[:200])!r}")
        lag = answer.headers.get("ottla-lag", "")
        positions = orjson.loads(answer.headers.get("ottla-positions", "{}"))
    return bytes(data).splitlines()[1:], positions, int(lag) if lag.isdecimal() else None


def _row(found: Any, readers: Sequence[Callable[[Any], Any]]) -> OutRow:
    """A row's line. Raises BadValue for an error among the rows."""
    if not isinstance(found, list) or len(found) != len(readers):
        raise BadValue(f"{found!r:.200} is no row")
    return OutRow(tuple([read(value) for read, value in zip(readers, found, strict=True)]))


def _reader(of: SqlType) -> Callable[[Any], Any] | None:
    """How a value that was told to a client is read; None for times within other types."""
    if of.is_time:
        cast = casts.caster(STRING, of)
        return None if cast is None else lambda value: None if value is None else cast(value)
    return None if _has_times(of) else from_json(of)


def _has_times(of: SqlType) -> bool:
    return of.is_time or any(map(_has_times, (*of.elements, *(each for _, each in of.fields))))
