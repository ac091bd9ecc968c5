"""Orders and events as lines of JSON: {"type": "start", "run": {…}, …}, one object a line, in UTF-8."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.host.messages import (
    Ended,
    Event,
    Figures,
    Order,
    Partitions,
    Pause,
    Paused,
    Resume,
    Role,
    Run,
    Running,
    Start,
    Stop,
    Topics,
)

MAX_LINE_BYTES: Final = 64 << 20
"""Of a line with its newline. A Start carries the offsets of all source partitions of a task."""
MAX_TRACE_CHARACTERS: Final = 64 << 10

_ORDERS: Final[dict[str, type[Any]]] = {"start": Start, "stop": Stop, "pause": Pause, "resume": Resume}
_EVENTS: Final[dict[str, type[Any]]] = {
    "running": Running,
    "paused": Paused,
    "ended": Ended,
    "partitions": Partitions,
    "topics": Topics,
    "figures": Figures,
}
_WORDS: Final = {kind: word for word, kind in (_ORDERS | _EVENTS).items()}


class CodecError(ValueError):
    """A line that is no order, or no event."""


def encode(message: Order | Event) -> bytes:
    """A line, with its newline. Raises CodecError for one that is too long."""
    if isinstance(message, Ended) and message.trace is not None:
        message = dataclasses.replace(message, trace=message.trace[:MAX_TRACE_CHARACTERS])
    fields = {"type": _WORDS[type(message)], **dataclasses.asdict(message)}
    # ASCII alone: a file name with half a surrogate pair is no UTF-8
    line = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise CodecError(f"a {fields['type']} of {len(line)} bytes is longer than {MAX_LINE_BYTES}")
    return line


def decode_order(line: bytes) -> Order:
    """The order of a line. Raises CodecError."""
    fields, kind = _opened(line, _ORDERS)
    try:
        if kind is not Start:
            return kind(_run(fields))  # type: ignore[no-any-return]
        return Start(
            _run(fields),
            Role(fields["role"]),
            _texts(fields["config"]),
            _texts(fields["worker"]),
            [_object(each) for each in fields.get("partitions", ())],
            [(_object(partition), _object(offset)) for partition, offset in fields.get("offsets", ())],
            _number(fields.get("fence", 0)),
            _boolean(fields.get("paused", False)),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise CodecError(f"an order that is not whole: {_told(problem)}") from None


def decode_event(line: bytes) -> Event:
    """The event of a line. Raises CodecError."""
    fields, kind = _opened(line, _EVENTS)
    try:
        run = _run(fields)
        if kind is Ended:
            trace = fields.get("trace")
            return Ended(run, None if trace is None else _text(trace))
        if kind is Partitions:
            return Partitions(run, [_object(each) for each in fields["partitions"]])
        if kind is Topics:
            return Topics(run, [_text(each) for each in fields["topics"]])
        if kind is Figures:
            of_partitions = _object(fields.get("of_partitions", {}))
            return Figures(
                run,
                _numbers(fields["figures"]),
                {name: _numbers(each) for name, each in of_partitions.items()},
            )
        return kind(run)  # type: ignore[no-any-return]
    except (KeyError, TypeError, ValueError) as problem:
        raise CodecError(f"an event that is not whole: {_told(problem)}") from None


def _opened(line: bytes, kinds: Mapping[str, type[Any]]) -> tuple[dict[str, Any], type[Any]]:
    if len(line) > MAX_LINE_BYTES:
        raise CodecError(f"a line of {len(line)} bytes is longer than {MAX_LINE_BYTES}")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise CodecError(f"a line that is no JSON: {problem}") from None
    word = fields.get("type") if isinstance(fields, dict) else None
    kind = kinds.get(word) if isinstance(word, str) else None
    if kind is None:
        raise CodecError(f"a line without a known type: {line[:80]!r}")
    return fields, kind


def _run(fields: Mapping[str, Any]) -> Run:
    run = _object(fields["run"])
    return Run(_text(run["connector"]), _number(run["task"]), _number(run["run"]))


def _told(problem: Exception) -> str:
    return f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no text")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.80} is no number")
    return value


def _numbers(value: Any) -> dict[str, float]:
    return {name: float(each) for name, each in _object(value).items()}


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.80} is neither true nor false")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is no object")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {name: _text(each) for name, each in _object(value).items()}
