"""The records of the audit log: their shape, their canonical form, and the chain of hashes through them.

Every node has a chain of its own. A record's value is one JSON object with the fields of `FIELDS`, all of
them always there, in canonical form: names in alphabetical order, no white space, ASCII with `\\u` escapes,
integers alone as numbers. `hash` is the SHA-256, in hexadecimal, of the canonical form of the object without
`hash`; `previous_hash` is the `hash` of the node's record before it, so no record can be changed, removed or
put in without another one showing it. `mac` is null, or the HMAC-SHA-256, with the key of the log, of the
canonical form of the object without `hash` and `mac`: without the key nobody can write the chain anew as a
whole.

`previous_offset` is the offset of the record before it, null for the first of a chain and for a record that
directly follows that one (both in one batch). It tells a chain whose beginning has expired from one whose
beginning was removed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

AUDIT_TOPIC: Final = "__ottla_audit_log"
"""The topic that holds the chains, in its first partition."""
VERSION: Final = 1
FIRST_PREVIOUS_HASH: Final = "0" * 64
"""`previous_hash` of a chain's first record."""
MAX_VALUE_BYTES: Final = 1 << 20
"""A larger value is no audit record."""
MIN_KEY_BYTES: Final = 16

CHAIN_STARTED: Final = "chain-started"
CHAIN_RESUMED: Final = "chain-resumed"
CHAIN_ENDED: Final = "chain-ended"
EVENTS_LOST: Final = "events-lost"
AUTHENTICATION: Final = "authentication"
AUTHORIZATION: Final = "authorization"
ADMINISTRATION: Final = "administration"
EVENTS: Final = (
    AUTHENTICATION,
    AUTHORIZATION,
    ADMINISTRATION,
    CHAIN_STARTED,
    CHAIN_RESUMED,
    CHAIN_ENDED,
    EVENTS_LOST,
)

SUCCESS: Final = "success"
FAILURE: Final = "failure"
DENIED: Final = "denied"
UNKNOWN: Final = "unknown"

Json: TypeAlias = Any

_TEXT: Final = (str,)
_OPTIONAL_TEXT: Final = (str, type(None))
_NUMBER: Final = (int,)
_OPTIONAL_NUMBER: Final = (int, type(None))
#: The fields of a record, and the types of their values.
FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "api": _OPTIONAL_TEXT,
    "client_id": _OPTIONAL_TEXT,
    "count": _NUMBER,
    "details": (dict,),
    "event": _TEXT,
    "hash": _TEXT,
    "host": _OPTIONAL_TEXT,
    "listener": _OPTIONAL_TEXT,
    "mac": _OPTIONAL_TEXT,
    "node": _NUMBER,
    "operation": _OPTIONAL_TEXT,
    "outcome": _TEXT,
    "previous_hash": _TEXT,
    "previous_offset": _OPTIONAL_NUMBER,
    "principal": _OPTIONAL_TEXT,
    "resource_name": _OPTIONAL_TEXT,
    "resource_type": _OPTIONAL_TEXT,
    "run": _TEXT,
    "sequence": _NUMBER,
    "time_ms": _NUMBER,
    "until_ms": _OPTIONAL_NUMBER,
    "version": _NUMBER,
}


class NotAuditRecord(Exception):
    """A value is no sound audit record; the message says why."""


class UnusableKey(Exception):
    """A key can't sign an audit log; the message says why."""


class ChainEnd(NamedTuple):
    """The last record of a chain. offset: in its partition, None while it is not known."""

    sequence: int
    hash: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An event as a record tells it, without its place in a chain."""

    event: str
    outcome: str = SUCCESS
    principal: str | None = None
    host: str | None = None
    """The client's address."""
    listener: str | None = None
    client_id: str | None = None
    api: str | None = None
    operation: str | None = None
    resource_type: str | None = None
    resource_name: str | None = None
    details: tuple[tuple[str, Json], ...] = ()
    """Further facts by name; JSON values without floating-point numbers."""


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """One event, or several alike: the first at `time_ms`, the last at `until_ms` (None for one alone)."""

    event: AuditEvent
    time_ms: int
    count: int = 1
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """A record as it was read, sound in itself; whether it fits its chain is another question."""

    fields: Mapping[str, Json] = field(hash=False)

    @property
    def node(self) -> int:
        """The node whose chain it belongs to."""
        return int(self.fields["node"])

    @property
    def sequence(self) -> int:
        """Its number in the chain, from 0."""
        return int(self.fields["sequence"])

    @property
    def run(self) -> str:
        """The run of the node that wrote it, from a start to its end."""
        return str(self.fields["run"])

    @property
    def event(self) -> str:
        """The kind of event."""
        return str(self.fields["event"])

    @property
    def hash(self) -> str:
        """Its hash."""
        return str(self.fields["hash"])

    @property
    def previous_hash(self) -> str:
        """The hash of the record before it."""
        return str(self.fields["previous_hash"])

    @property
    def previous_offset(self) -> int | None:
        """The offset of the record before it, see the module's text."""
        found: int | None = self.fields["previous_offset"]
        return found

    @property
    def mac(self) -> str | None:
        """Its signature."""
        found: str | None = self.fields["mac"]
        return found

    def is_signed_by(self, keys: Iterable[bytes]) -> bool:
        """Whether its signature was made with one of the keys."""
        given = (self.mac or "").encode()
        return any(hmac.compare_digest(signature(key, self.fields).encode(), given) for key in keys)

    @property
    def details(self) -> Mapping[str, Json]:
        """Further facts."""
        found: Mapping[str, Json] = self.fields["details"]
        return found


def canonical(value: Json) -> bytes:
    """The canonical form of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def content_hash(fields: Mapping[str, Json]) -> str:
    """The hash of a record's fields, whatever its `hash` says."""
    return hashlib.sha256(_canonical_without(fields, "hash")).hexdigest()


def signature(key: bytes, fields: Mapping[str, Json]) -> str:
    """The signature of a record's fields, whatever its `hash` and `mac` say."""
    return hmac.new(key, _canonical_without(fields, "hash", "mac"), hashlib.sha256).hexdigest()


def _canonical_without(fields: Mapping[str, Json], *names: str) -> bytes:
    return canonical({name: value for name, value in fields.items() if name not in names})


def signing_key(content: bytes) -> bytes:
    """The key in a file's content: all of it, but for white space around it. Raises UnusableKey."""
    key = content.strip()
    if len(key) < MIN_KEY_BYTES:
        raise UnusableKey(
            f"a key of the audit log has {MIN_KEY_BYTES} bytes at least, this one has {len(key)}"
        )
    return key


def seal(
    events: Sequence[TimedEvent], node: int, run: str, end: ChainEnd | None, key: bytes | None
) -> tuple[list[bytes], ChainEnd | None]:
    """The values of one batch of records that continues a chain at `end` (None: at its beginning).

    Returns the chain's end behind them too, whose offset is not known yet.
    """
    values: list[bytes] = []
    for each in events:
        fields = _fields(each, node, run, end)
        fields["mac"] = None if key is None else signature(key, fields)
        fields["hash"] = content_hash(fields)
        values.append(canonical(fields))
        end = ChainEnd(fields["sequence"], fields["hash"])
    return values, end


def _fields(timed: TimedEvent, node: int, run: str, end: ChainEnd | None) -> dict[str, Json]:
    event = timed.event
    return {
        "api": event.api,
        "client_id": event.client_id,
        "count": timed.count,
        "details": dict(event.details),
        "event": event.event,
        "host": event.host,
        "listener": event.listener,
        "node": node,
        "operation": event.operation,
        "outcome": event.outcome,
        "previous_hash": FIRST_PREVIOUS_HASH if end is None else end.hash,
        "previous_offset": None if end is None else end.offset,
        "principal": event.principal,
        "resource_name": event.resource_name,
        "resource_type": event.resource_type,
        "run": run,
        "sequence": 0 if end is None else end.sequence + 1,
        "time_ms": timed.time_ms,
        "until_ms": timed.until_ms,
        "version": VERSION,
    }


def read_record(value: bytes) -> SealedRecord:
    """The record in a value. Raises NotAuditRecord unless it is sound in itself."""
    if len(value) > MAX_VALUE_BYTES:
        raise NotAuditRecord(f"the value has {len(value)} bytes")
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError):
        raise NotAuditRecord("the value is no JSON") from None
    if not isinstance(fields, dict):
        raise NotAuditRecord("the value is no JSON object")
    if fields.get("version") != VERSION:
        raise NotAuditRecord(f"version {fields.get('version')!r} of an audit record is not known")
    for name in FIELDS.keys() ^ fields.keys():
        raise NotAuditRecord(f"field {name!r} is {'missing' if name in FIELDS else 'not known'}")
    for name, types in FIELDS.items():
        if not isinstance(fields[name], types) or isinstance(fields[name], bool):
            raise NotAuditRecord(f"field {name!r} is of a wrong type")
    if _canonical_or_none(fields) != value:
        raise NotAuditRecord("the value is not in canonical form")
    expected = content_hash(fields)
    if fields["hash"] != expected:
        raise NotAuditRecord(f"hash is {fields['hash']}, the hash of its content is {expected}")
    return SealedRecord(fields)


def _canonical_or_none(fields: Mapping[str, Json]) -> bytes | None:
    try:
        return canonical(fields)
    except (ValueError, RecursionError):
        return None
