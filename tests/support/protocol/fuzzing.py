"""Requests that get past a broker's first checks and then are wrong: drawn by hypothesis from field tables.

A value is drawn by its field's name: most often one that means something to the broker (a topic that exists,
a member id or an epoch that an earlier answer gave, see `World`), often one near it, sometimes an extreme
one. Then some of the bytes may be damaged. All draws are of fixed shape, whatever the world has learned
meanwhile, so hypothesis can replay and shrink them.
"""

from __future__ import annotations

import struct
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import encode_request
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.protocol.schema import Field, Message, Struct, StructMeta
from support.protocol.batches import sealed, with_field
from support.protocol.messages import INTEGER_BITS, UNKNOWN_TAGS, is_flexible

CHOICES = 1 << 16
"""Every choice is a number below this, taken modulo what there is to choose from."""

VICTIMS = ("victim", "victim-2", "compacted", "bounded", "unborn")
"""Topics that a request may name; "unborn" exists only if one creates it."""
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
NASTY_TEXTS = (
    "",
    ".",
    "..",
    "a/b",
    "a\0b",
    "\0",
    "x" * 249,
    "x" * 250,
    "y" * 32_767,
    "%s%n{0}",
    "\u2028\ufeff",
    "🦦é\u0301",
    "-1",
    "2147483648",
    "true",
    "²",
)
CONFIG_NAMES = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "max.message.bytes",
    "min.insync.replicas",
    "compression.type",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "unclean.leader.election.enable",
    "leader.replication.throttled.replicas",
    "consumer.session.timeout.ms",
    "share.auto.offset.reset",
    "streams.num.standby.replicas",
    "log.retention.ms",
    "log.cleaner.threads",
    "background.threads",
    "advertised.listeners",
    "interval.ms",
    "match",
    "metrics",
    "root",
    "no.such.config",
)
CONFIG_VALUES = (
    "",
    "0",
    "1",
    "-1",
    "delete",
    "compact",
    "compact,delete",
    "delete,delete",
    "gzip",
    "zstd",
    "LogAppendTime",
    "9223372036854775807",
    "9223372036854775808",
    "1e3",
    "1,2,3",
    "0:0,1:1",
    "*",
    "latest",
    "by_duration:PT1H",
    "by_duration:PT99999999999999999H",
    "DEBUG",
    "٣",
)
EXPRESSIONS = ("vic.*", "(a*)*b", "(((((", "\\", "[a-", "a{1000}", "(?i)VICTIM", "\\p{Greek}", "(" * 200)
FEATURES = ("metadata.version", "transaction.version", "kraft.version", "no.such.version")
GROUPS = ("group-a", "group-b", "group-c", "sharers", "streamers", "")
NUMBERS = (0, 0, 0, 1, 1, 2, 3, -1, -1, -2, -3, 5, 10, 100, 1000, 30_000, 1 << 20)

#: Field -> names that answers use for the same thing, and values that mean something from the beginning.
KINDS: Mapping[str, str] = {
    "topic": "topic",
    "topic_name": "topic",
    "topic_names": "topic",
    "subscribed_topic_names": "topic",
    "source_topics": "topic",
    "repartition_sink_topics": "topic",
    "name": "name",
    "resource_name": "resource",
    "group_id": "group",
    "group_ids": "group",
    "groups": "group",
    "groups_names": "group",
    "coordinator_keys": "group",
    "key": "group",
    "member_id": "member_id",
    "group_instance_id": "instance",
    "instance_id": "instance",
    "transactional_id": "transactional_id",
    "transactional_ids": "transactional_id",
    "v3_and_below_transactional_id": "transactional_id",
    "transactional_id_pattern": "expression",
    "subscribed_topic_regex": "expression",
    "source_topic_regex": "expression",
    "configuration_keys": "config",
    "value": "config_value",
    "feature": "feature",
    "cluster_id": "cluster_id",
    "server_assignor": "assignor",
    "protocol_type": "protocol",
    "protocol_name": "protocol",
    "topic_id": "topic_id",
    "producer_id": "producer_id",
    "v3_and_below_producer_id": "producer_id",
    "producer_id_filters": "producer_id",
    "producer_epoch": "producer_epoch",
    "v3_and_below_producer_epoch": "producer_epoch",
    "generation_id": "generation_id",
    "generation_id_or_member_epoch": "generation_id",
    "member_epoch": "generation_id",
    "session_id": "session_id",
    "broker_epoch": "broker_epoch",
    "previous_broker_epoch": "broker_epoch",
    "replica_epoch": "broker_epoch",
    "leader_epoch": "leader_epoch",
    "current_leader_epoch": "leader_epoch",
    "partition_epoch": "partition_epoch",
    "replica_directory_id": "directory_id",
    "voter_directory_id": "directory_id",
    "candidate_directory_id": "directory_id",
    "log_dirs": "directory_id",
    "id": "directory_id",
    "epoch": "epoch",
    "fetch_offset": "offset",
    "offset": "offset",
    "base_offset": "offset",
    "end_offset": "offset",
    "first_offset": "offset",
    "last_offset": "offset",
    "start_offset": "offset",
    "timestamp": "timestamp",
}
HARMFUL = frozenset(
    {
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    }
)
"""What these ask for may be done to the topics that are there for it, not to those of the cluster: a
coordinator finds nothing any more in a topic of more partitions, or of short retention."""
SMALL: Mapping[str, tuple[int, ...]] = {
    "acks": (-1, 1, 1, 0),
    "transaction_version": (0, 1, 2),
    "replica_id": (-1, -1, -1, -2, 1),
    "isolation_level": (0, 1),
    "current_leader_epoch": (-1, -1, 0),
    "session_timeout_ms": (6_000, 10_000, 1_800_000),
    "rebalance_timeout_ms": (10_000, 1, -1),
    "transaction_timeout_ms": (60_000, 1, 900_000),
    "resource_type": (2, 2, 4, 8, 16, 32),
    "resource_types": (2, 4, 8, 16, 32),
    "config_operation": (0, 0, 1, 2, 3),
    "replication_factor": (-1, 1, 1),
    "num_partitions": (-1, 1, 2, 3),
    "count": (2, 3, 4, 5),
    "broker_id": (1, 1, 2),
    "broker_ids": (1, 1, 2),
    "replicas": (1, 1, 2),
    "new_isr": (1, 1, 2),
    "voter_id": (1, 1, 2),
    "leader_id": (1, 1, 2),
    "candidate_id": (1, 1, 2),
    "controller_id": (1, 1, 2),
    "election_type": (0, 1),
    "key_type": (0, 1, 2),
    "upgrade_type": (1, 2, 3),
    "endpoint_type": (1, 2),
    "delivery_state": (0, 1, 2, 3, 4),
    "acknowledge_types": (0, 1, 2, 3, 4),
    "session_epoch": (0, -1, 1, 2),
    "share_session_epoch": (0, 0, 1, 2, -1),
    "max_records": (1, 10, 500),
    "max_bytes": (1 << 20, 1, 0),
    "partition_max_bytes": (1 << 20, 1, 0),
    "min_bytes": (0, 1),
}
"""What small numbers of these fields mean; most others are indexes and counts."""
INDEX_FIELDS = ("index", "partition", "partitions", "partition_index", "partition_indexes")
INDEXES = (0, 0, 0, 0, 1, 2, 3, -1)
CLIENT_IDS = ("fuzz", "fuzz", None, "", "__admin_client", "é" * 50, "c" * 32_767)
NEVER_LEARNED = frozenset({"topic", "name", "resource", "group", "transactional_id"})
"""What belongs to others is in answers too, and is to be unharmed at the end."""
LEARNED = 12
"""As many values of one kind are remembered, the latest."""


@dataclass(slots=True)
class World:
    """What a request can name so that it means something: given first, and learned from answers."""

    known: dict[str, list[Any]] = field(default_factory=dict)
    learned: dict[str, deque[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [*VICTIMS, *INTERNAL_TOPICS]
        self.known = {
            "topic": names,
            "victim": list(VICTIMS),
            "victim resource": [*VICTIMS, "0", "1", "", *GROUPS, "ottla.broker"],
            "name": [*names, *CONFIG_NAMES, "range", "consumer"],
            "resource": [*names, "0", "1", "", *GROUPS, "ottla.broker"],
            "group": list(GROUPS),
            "member_id": ["", "m-1"],
            "instance": ["static-1", "static-2"],
            "transactional_id": ["txn-a", "txn-b", ""],
            "expression": list(EXPRESSIONS),
            "config": list(CONFIG_NAMES),
            "config_value": list(CONFIG_VALUES),
            "feature": list(FEATURES),
            "assignor": ["uniform", "range", "sticky"],
            "protocol": ["consumer", "range", "connect"],
            "timestamp": [-1, -2, -3, -4, -5, -6, 0, 1_700_000_000_000],
            **self.known,
        }

    def learn(self, message: Any) -> None:
        """Remember the ids and epochs of an answer."""
        for each in type(message).FIELDS:
            value = getattr(message, each.name)
            kind = KINDS.get(each.name)
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, Struct):
                    self.learn(item)
                elif kind is not None and item is not None and kind not in NEVER_LEARNED:
                    self._remember(kind, item)

    def _remember(self, kind: str, value: Any) -> None:
        values = self.learned.setdefault(kind, deque(maxlen=LEARNED))
        if value not in values:
            values.append(value)

    def pick(self, kind: str, choice: int) -> Any:
        """A value of a kind; None when there is none yet."""
        values = [*self.known.get(kind, ()), *self.learned.get(kind, ())]
        return values[choice % len(values)] if values else None


Draw = Callable[[st.SearchStrategy[Any]], Any]
_choice = st.integers(0, CHOICES - 1)


class Maker:
    """Draws one message of a version."""

    def __init__(
        self, draw: Draw, world: World, version: int, flexible: bool, *, spare_internal_topics: bool = False
    ) -> None:
        self._draw = draw
        self._topics = "victim" if spare_internal_topics else "topic"
        self._world = world
        self._version = version
        self._flexible = flexible

    def roll(self) -> int:
        """0 to 99; smaller is simpler."""
        number: int = self._draw(st.integers(0, 99))
        return number

    def message(self, cls: type[Message]) -> Message:
        made: Message = self._struct(cls, 0)
        return made

    def _struct(self, cls: Any, depth: int) -> Any:
        values = {
            each.name: self._value(each, depth, cls.__name__)
            for each in cls.FIELDS
            if each.in_version(self._version) and not (each.tagged_in(self._version) and self.roll() > 70)
        }
        made = cls(**values)
        if self._flexible and self.roll() > 95:
            made.unknown_tagged_fields = {tag: b"?" * (tag % 5) for tag in UNKNOWN_TAGS}
        return made

    def _value(self, each: Field, depth: int, owner: str) -> Any:
        if each.nullable_in(self._version) and self.roll() > 85:
            return None
        if not each.array:
            return self._element(each, depth, owner)
        counts = (1, 1, 1, 0, 2, 2, 3, 5) if depth < 2 else (1, 1, 0, 2)
        count = counts[self._draw(st.integers(0, len(counts) - 1))]
        items = [self._element(each, depth + 1, owner) for _ in range(count)]
        if items and self.roll() > 85:
            items.append(items[0])  # the same thing twice
        return items

    def _element(self, each: Field, depth: int, owner: str) -> Any:
        kind = each.kind
        if isinstance(kind, StructMeta):
            return self._struct(kind, depth)
        named = KINDS.get(each.name)
        if named == "name":
            named = "config" if "Config" in owner else "topic" if "Protocol" not in owner else "protocol"
        if self._topics == "victim" and named in ("topic", "resource"):
            named = "victim" if named == "topic" else "victim resource"
        if kind in INTEGER_BITS:
            return self._integer(each.name, INTEGER_BITS[kind], named)
        match kind:
            case "string":
                return self._text(named)
            case "bool":
                return self.roll() > 50
            case "uuid":
                return self._uuid(named)
            case "uint16":
                return self._draw(st.sampled_from((0, 1, 9092, 65_535)))
            case "float64":
                return self._draw(st.sampled_from((0.0, -1.0, 1e308, float("inf"), float("nan"))))
            case "records":
                return self._draw(produced_records())
            case _:
                return self._bytes(each.name)

    def _integer(self, name: str, bits: int, named: str | None) -> int:
        half = 1 << (bits - 1)
        roll, choice = self.roll(), self._draw(_choice)
        value: Any = None
        if named is not None and roll < 70:
            value = self._world.pick(named, choice)
            if isinstance(value, int) and roll >= 55:
                value += (-1, 1)[choice % 2]
        if name in SMALL and roll < 85:
            value = SMALL[name][choice % len(SMALL[name])]
        elif (
            name in ("index", "partition", "partitions", "partition_index", "partition_indexes") and roll < 90
        ):
            value = INDEXES[choice % len(INDEXES)]
        elif name.endswith("_ms") and roll < 90:
            value = (10, 0, 1, 100, -1, 6_000, 10_000, 45_000)[choice % 8]
        if not isinstance(value, int):
            value = NUMBERS[choice % len(NUMBERS)]
        if roll >= 90:
            value = (half - 1, -half, half // 2, half - 2, -half + 1)[choice % 5]
        return max(-half, min(half - 1, value))

    def _text(self, named: str | None) -> str:
        roll, choice = self.roll(), self._draw(_choice)
        if roll < 80:
            value = self._world.pick(named or self._topics, choice)
            if isinstance(value, str):
                return value
        if roll < 92:
            return NASTY_TEXTS[choice % len(NASTY_TEXTS)]
        text: str = self._draw(st.text(max_size=12))
        return "".join(each for each in text if not "\ud800" <= each <= "\udfff")

    def _uuid(self, named: str | None) -> uuid.UUID:
        roll, choice = self.roll(), self._draw(_choice)
        value = self._world.pick(named or "topic_id", choice)
        if roll < 80 and isinstance(value, uuid.UUID):
            return value
        return uuid.UUID(int=(0, 1, 2, 3, choice, (1 << 128) - 1)[choice % 6])

    def _bytes(self, name: str) -> bytes:
        roll, choice = self.roll(), self._draw(_choice)
        if name == "request_data" and roll < 80:
            key = (ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.ENVELOPE, ApiKey.INCREMENTAL_ALTER_CONFIGS)[
                choice % 4
            ]
            cls = request_class(key)
            inner = Maker(self._draw, self._world, cls.MAX_VERSION, True).message(cls)
            return encode_or_nothing(key, cls.MAX_VERSION, inner)
        if name == "client_host_address" and roll < 80:
            return bytes((127, 0, 0, 1))
        if roll < 30:
            return b""
        if roll < 60:  # a consumer's subscription of version 0
            topic = str(self._world.pick("topic", choice)).encode()
            return struct.pack(">hih", 0, 1, len(topic)) + topic + struct.pack(">i", -1)
        filled: bytes = self._draw(st.binary(max_size=40))
        return filled if roll < 95 else filled * 3000


def encode_or_nothing(key: int, version: int, message: Message, client_id: str | None = "fuzz") -> bytes:
    """The request, or no bytes when a value does not fit its field."""
    try:
        return encode_request(key, version, 7, client_id, message)
    except (ValueError, struct.error):
        return b""


HEADER_FIELDS = (
    (0, ">q"),
    (12, ">i"),
    (21, ">h"),
    (23, ">i"),
    (27, ">q"),
    (35, ">q"),
    (43, ">q"),
    (57, ">i"),
)
"""Of a batch: base offset, epoch, attributes, last offset delta, timestamps, producer id, count."""


@st.composite
def produced_records(draw: Draw) -> bytes | None:
    """A producer's bytes for a partition, from a sound batch to nonsense."""
    kind = draw(st.integers(0, 9))
    if kind == 9:
        return draw(st.sampled_from((b"", b"\0", b"\xff" * 61, bytes(61), bytes(17) + b"\x01" + bytes(60))))
    count = draw(st.integers(1, 4))
    records = [
        NewRecord(
            draw(st.sampled_from((b"k", b"key-2", b"", None))),
            draw(st.sampled_from((b"v", b"", None, b"z" * 2000))),
            draw(st.sampled_from((1_700_000_000_000, 0, -1, 1 << 62, -(1 << 62)))),
            draw(st.sampled_from(((), (("h", b"1"),), (("", None), ("h", b""))))),
        )
        for _ in range(count)
    ]
    try:
        batch = encode_batch(
            records,
            codec=draw(st.sampled_from(Codec)),
            producer_id=draw(st.sampled_from((-1, -1, 0, 1, 2, 1000, 2**63 - 1))),
            producer_epoch=draw(st.sampled_from((-1, 0, 1, 2**15 - 1))),
            base_sequence=draw(st.sampled_from((-1, 0, 1, 2, 2**31 - 1))),
            transactional=draw(st.booleans()),
            control=draw(st.integers(0, 9)) == 9,
        )
    except (ValueError, OverflowError):
        return None
    if kind < 5:
        return batch
    if kind < 7:  # a header that lies, under a right CRC
        position, layout = draw(st.sampled_from(HEADER_FIELDS))
        bits = struct.calcsize(layout) * 8
        half = 1 << (bits - 1)
        value = draw(st.sampled_from((0, 1, -1, 7, 64, half - 1, -half)))
        return with_field(batch, position, layout, value)
    if kind < 8:  # records that lie, under a right CRC
        changed = bytearray(batch)
        for _ in range(draw(st.integers(1, 3))):
            changed[draw(_choice) % (len(changed) - 61) + 61 if len(changed) > 61 else 60] = draw(
                st.integers(0, 255)
            )
        return sealed(changed)
    return batch + draw(st.sampled_from((batch, b"\0", batch[:70])))


SPLICES = (
    b"\0",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10,
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\0" * 16,
    b"\x01\x00\x00\x01\x00\x00",
)


@st.composite
def damaged(draw: Draw, data: bytes, first: int) -> bytes:
    """`data` with one to four changes from `first` on: bytes set, put in, cut out, moved, or its end cut."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        if len(changed) <= first:
            break
        at = first + draw(_choice) % (len(changed) - first)
        splice = SPLICES[draw(st.integers(0, len(SPLICES) - 1))]
        match draw(st.integers(0, 6)):
            case 0:
                changed[at] = draw(st.integers(0, 255))
            case 1:
                changed[at] ^= 1 << draw(st.integers(0, 7))
            case 2:
                changed[at : at + len(splice)] = splice
            case 3:
                changed[at:at] = splice
            case 4:
                del changed[at : at + draw(st.integers(1, 20))]
            case 5:
                changed[at:at] = changed[at : at + draw(st.integers(1, 40))]
            case _:
                del changed[at:]
    return bytes(changed)


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """One frame's content, the version that its header says, and what it was before it was damaged."""

    version: int
    frame: bytes
    message: Message
    damaged: bool


@st.composite
def requests(draw: Draw, key: ApiKey, versions: tuple[int, int], world: World) -> Fuzzed | None:
    """A request of an API; None where it could not be written."""
    cls = request_class(key)
    first, last = versions
    version = draw(st.integers(max(first, cls.MIN_VERSION), last))
    maker = Maker(draw, world, version, is_flexible(cls, version), spare_internal_topics=key in HARMFUL)
    message = maker.message(cls)
    client_id = draw(st.sampled_from(CLIENT_IDS))
    frame = encode_or_nothing(key, version, message, client_id)
    if not frame:
        return None
    spoil = draw(st.integers(0, 9)) >= 8
    if spoil:
        frame = draw(damaged(frame, 8))
    return Fuzzed(version, frame, message, spoil)


def error_codes(message: Any) -> list[int]:
    """Every error code that an answer has, nested ones too."""
    found: list[int] = []
    for each in type(message).FIELDS:
        value = getattr(message, each.name)
        if each.name.endswith("error_code"):
            found.append(value)
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Struct):
                found += error_codes(item)
    return found


def strange_codes(message: Any) -> list[int]:
    """Error codes that do not exist, or that say no more than that the broker failed."""
    known = {int(code) for code in ErrorCode} - {int(ErrorCode.UNKNOWN_SERVER_ERROR)}
    return [code for code in error_codes(message) if code not in known]
