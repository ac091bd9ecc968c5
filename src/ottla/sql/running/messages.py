"""What the server and its query host say to each other: one line of JSON each, orders in and events out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

MAX_LINE_BYTES: Final = 64 << 20
MAX_PROBLEM_CHARACTERS: Final = 16 << 10


class MessageError(ValueError):
    """A line that is no message."""


@dataclass(frozen=True, slots=True)
class Configure:
    """The first order. client: librdkafka's settings; registry: settings of the Schema Registry's client.

    state: the directory of the queries' checkpoints and of Spark. functions: where the user's functions are,
    as module:attribute. processing_log: the topic of records that can't be read, None for no such topic.
    batch_records: the most records of a topic that a query takes at once.
    """

    bootstrap: str
    client: Mapping[str, str]
    registry: Mapping[str, str]
    state: str
    master: str | None
    driver_memory: str
    partitions: int
    spark: Mapping[str, str]
    functions: str | None
    processing_log: str | None
    batch_records: int


@dataclass(frozen=True, slots=True)
class Start:
    """Run a query. name: of its application, which its checkpoints have; plan: as stored."""

    query_id: str
    revision: int
    name: str
    plan: Mapping[str, Any]
    starts_at: str
    """earliest or latest: where a query without a checkpoint begins."""
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """End a query behind its batch. name: of its application.

    forget: its checkpoints, internal topics and groups go, too, also if it does not run.
    """

    query_id: str
    name: str
    forget: bool = False


Order = Configure | Start | Stop


@dataclass(frozen=True, slots=True)
class Ready:
    """Spark runs. seconds: what its start took."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Running:
    """A query runs with this revision of its plan."""

    query_id: str
    revision: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """A Stop was carried out: nothing of the query runs, also if nothing ran before. One for each Stop."""

    query_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A query that was started has ended: as it was told to (no problem), or by a failure.

    positions: the next offset of each partition that it has read, as topic -> partition -> offset.
    """

    query_id: str
    revision: int
    problem: str | None = None
    positions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """A query's last batch. lag: records of its sources that are not read yet."""

    query_id: str
    at_ms: int
    rows: int
    rows_per_second: float
    lag: int
    dead_letters: int
    positions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


Event = Ready | Running | Ended | Stopped | Progress
_KINDS: Final[Mapping[str, type]] = {
    each.__name__: each for each in (Configure, Start, Stop, Ready, Running, Ended, Stopped, Progress)
}


def encode(message: Order | Event) -> bytes:
    """A line, with its newline. Raises MessageError for one that is too long."""
    if isinstance(message, Ended) and message.problem is not None:
        message = dataclasses.replace(message, problem=message.problem[:MAX_PROBLEM_CHARACTERS])
    fields = {each.name: getattr(message, each.name) for each in dataclasses.fields(message)}
    line = orjson.dumps({"is": type(message).__name__, **fields}, option=orjson.OPT_APPEND_NEWLINE)
    if len(line) > MAX_LINE_BYTES:
        raise MessageError(f"a message of {len(line)} bytes is longer than {MAX_LINE_BYTES}")
    return line


def decode(line: bytes) -> Order | Event:
    """The message of a line. Raises MessageError."""
    try:
        fields = orjson.loads(line)
        made: Order | Event = _KINDS[fields.pop("is")](**fields)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as problem:
        raise MessageError(f"a line that is no message: {problem!r}") from None
    return made
