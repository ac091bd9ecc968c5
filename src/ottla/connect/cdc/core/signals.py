"""Signals: what a connector is asked to do while it runs, in Debezium's words; no I/O.

A signal has an id, a type and JSON data: {"type": "incremental", "data-collections": ["public.orders"]}. It
comes by a row of the signal table, a record of the signal topic, or a line of the signal file.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.data.java_regex import BadPattern, JavaRegex

MAX_CHARACTERS: Final = 1 << 20
MAX_COLLECTIONS: Final = 10_000
WINDOW_OPEN: Final = "snapshot-window-open"
WINDOW_CLOSE: Final = "snapshot-window-close"
"""Types of the marks that a connector writes into its own signal table."""


class BadSignal(ValueError):
    """A signal that makes no sense."""


class SnapshotKind(enum.StrEnum):
    """How tables are copied: in chunks while the stream goes on, or at once while it waits."""

    INCREMENTAL = "incremental"
    BLOCKING = "blocking"


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter of the rows of some tables: what stands behind WHERE."""

    tables: JavaRegex
    filter: str


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """Copy tables. tables: expressions, each for a whole schema.table."""

    id: str
    kind: SnapshotKind
    tables: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    surrogate_key: str | None = None


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Leave out tables of the incremental snapshot. tables: expressions; none for all."""

    id: str
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    """Read no further chunk."""

    id: str


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    """Go on with the next chunk."""

    id: str


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Write a line into the log; {} in it is the connector's place."""

    id: str
    message: str


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """Take tables' schemas from the signal, for databases whose schemas are kept as a history."""

    id: str
    database: str
    changes: tuple[Mapping[str, Any], ...]


Signal = ExecuteSnapshot | StopSnapshot | PauseSnapshot | ResumeSnapshot | LogMessage | SchemaChanges


def signal_of(id: str | None, type: str | None, data: str | None) -> Signal:
    """The signal of three texts, as a signal table has them. Raises BadSignal."""
    if data is not None and len(data) > MAX_CHARACTERS:
        raise BadSignal(f"its data has more than {MAX_CHARACTERS} characters")
    try:
        fields = json.loads(data) if data and data.strip() else {}
    except (ValueError, RecursionError) as problem:
        raise BadSignal(f"its data is not JSON: {problem}") from None
    return signal_of_fields(id, type, fields)


def signal_of_text(text: str) -> Signal:
    """The signal of a JSON object with id, type and data, as topics and files have it. Raises BadSignal."""
    if len(text) > MAX_CHARACTERS:
        raise BadSignal(f"it has more than {MAX_CHARACTERS} characters")
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadSignal(f"it is not JSON: {problem}") from None
    if not isinstance(whole, dict):
        raise BadSignal('it is no object like {"id": "1", "type": "log", "data": {"message": "hello"}}')
    id, type = whole.get("id"), whole.get("type")
    data = whole.get("data")
    return signal_of_fields(
        None if id is None else str(id), None if type is None else str(type), {} if data is None else data
    )


def signal_of_fields(id: str | None, type: str | None, data: Any) -> Signal:
    """The signal of an id, a type and its data as an object. Raises BadSignal."""
    id = id or ""
    if not isinstance(data, dict):
        raise BadSignal("its data is no JSON object")
    match type:
        case "execute-snapshot":
            return _execute(id, data)
        case "stop-snapshot":
            if _kind(data) is not SnapshotKind.INCREMENTAL:
                raise BadSignal("only an incremental snapshot can be stopped")
            return StopSnapshot(id, _tables(data))
        case "pause-snapshot":
            return PauseSnapshot(id)
        case "resume-snapshot":
            return ResumeSnapshot(id)
        case "log":
            message = data.get("message")
            if not isinstance(message, str) or not message:
                raise BadSignal("its data has no message")
            return LogMessage(id, message)
        case "schema-changes":
            return _schema_changes(id, data)
    raise BadSignal(f"its type {type!r} is not known")


def _execute(id: str, data: Mapping[str, Any]) -> ExecuteSnapshot:
    tables = _tables(data)
    if not tables:
        raise BadSignal('data-collections must name the tables, as ["public.orders"]')
    surrogate = data.get("surrogate-key")
    if not isinstance(surrogate, str | None):
        raise BadSignal("surrogate-key must be a column's name")
    conditions = [_condition(each) for each in _list(data, "additional-conditions")]
    older = data.get("additional-condition")
    if isinstance(older, str) and older.strip():
        conditions.append(Condition(JavaRegex(".*"), older.strip()))
    return ExecuteSnapshot(id, _kind(data), tables, tuple(conditions), (surrogate or "").strip() or None)


def _kind(data: Mapping[str, Any]) -> SnapshotKind:
    text = data.get("type")
    try:
        return SnapshotKind.INCREMENTAL if text is None else SnapshotKind(str(text).strip().lower())
    except ValueError:
        raise BadSignal(f"the snapshot's type {text!r} is neither incremental nor blocking") from None


def _list(data: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = data.get(name)
    if found is None:
        return ()
    if not isinstance(found, list) or len(found) > MAX_COLLECTIONS:
        raise BadSignal(f"{name} must be a list of at most {MAX_COLLECTIONS}")
    return found


def _tables(data: Mapping[str, Any]) -> tuple[str, ...]:
    found = _list(data, "data-collections")
    if not all(isinstance(each, str) for each in found):
        raise BadSignal("data-collections must be a list of texts")
    for each in found:
        _expression(each.strip())
    return tuple(each.strip() for each in found)


def _condition(given: Any) -> Condition:
    tables = given.get("data-collection") if isinstance(given, dict) else None
    text = given.get("filter") if isinstance(given, dict) else None
    if not isinstance(tables, str) or not isinstance(text, str):
        raise BadSignal("each of additional-conditions has a data-collection and a filter")
    return Condition(_expression(f"(?i){tables.strip()}"), text.strip())


def _expression(text: str) -> JavaRegex:
    try:
        return JavaRegex(text)
    except BadPattern as problem:
        raise BadSignal(f"{text!r} is no expression: {problem}") from None


def _schema_changes(id: str, data: Mapping[str, Any]) -> SchemaChanges:
    database, changes = data.get("database"), _list(data, "changes")
    if not isinstance(database, str) or not database:
        raise BadSignal("its data has no database")
    if not changes or not all(isinstance(each, dict) for each in changes):
        raise BadSignal("its data has no list of changes")
    return SchemaChanges(id, database, tuple(changes))


def matching(expressions: Iterable[str], tables: Sequence[str]) -> list[str]:
    """The tables that some expressions match whole, each once; one that matches none is taken as a name."""
    found: dict[str, None] = {}
    for text in expressions:
        expression = JavaRegex(text)
        matched = [each for each in tables if expression.matches(each)]
        found.update(dict.fromkeys(matched or [text]))
    return list(found)
