"""The exactly-once sink's ledger: which batch each unit of a query writes next, kept in Kafka.

A unit commits an entry in the transaction of its rows, in two places that therefore always agree:

- as the offset of a group of the unit's own. A single request reads it, so every batch asks here. Kafka
  forgets it `offsets.retention.minutes` after the unit's last batch, and lets any user delete it.
- as a record of the query's ledger topic, with the name of that group as its key. The topic is compacted, so
  the last record of every unit stays for good. It is read if the group has no offset: for a unit's first
  batch, and when an application comes back after a long time.

Such a read must include the unit's own last transaction, which has ended by then, while transactions of other
units may still be open. So it goes up to the end that the topic had at first, as soon as the open ones have
ended too. Units write their record last, right before they commit, so that is soon.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError
from ottla.client.offsets import metadata_of
from ottla.pipeline.sink.exactly_once_clients import LEDGER_READERS
from ottla.pipeline.sink.exactly_once_settings import Identity, SinkError

REQUEST_TIMEOUT_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.1
FORMAT_VERSION: Final = 1
LEDGER_SUFFIX: Final = "-sink-ledger"
"""The suffix of ledger topics' names. A source with a pattern reads no such topic."""

# The errors of a group's coordinator while it moves, starts, or completes a transaction.
_PASSING_CODES: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._WAIT_COORD,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
    }
)
NO_SUCH_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NOT_ALLOWED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)
# The least that Kafka takes: what is written since the last full segment is not compacted, and read in whole.
_LEDGER_SETTINGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)}
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_MAX_TOPIC_NAME: Final = 249


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A unit's ledger: the next batch to write, and the query, run and task that wrote the last one."""

    next_batch: int
    query_name: str
    query_id: str
    run_id: str
    identity: Identity
    task: int
    shuffle_partitions: str

    def metadata(self) -> str:
        """The metadata that is committed with the offset."""
        return json.dumps(self._fields(), separators=(",", ":"))

    def record(self) -> bytes:
        """The value of the record in the ledger topic."""
        return json.dumps({"next": self.next_batch, **self._fields()}, separators=(",", ":")).encode()

    def _fields(self) -> dict[str, Any]:
        return {
            "ottla": FORMAT_VERSION,
            "name": self.query_name,
            "query": self.query_id,
            "run": self.run_id,
            "identity": self.identity.value,
            "task": self.task,
            "shuffle": self.shuffle_partitions,
        }

    @classmethod
    def parse(cls, group: str, offset: int, metadata: str) -> LedgerEntry:
        """Raises SinkError for what this sink has not written; `metadata` is as `metadata_of` gives it."""
        try:
            fields, _ = _JSON.raw_decode(metadata)
            return cls._of(offset, fields)
        except _MALFORMED as error:
            raise SinkError(
                f"group {group} holds offsets that are not this sink's ({error}): give the query another name"
            ) from error

    @classmethod
    def parse_record(cls, topic: str, value: bytes) -> LedgerEntry:
        """Raises SinkError for what this sink has not written."""
        try:
            fields = json.loads(value)
            return cls._of(int(fields["next"]), fields)
        except _MALFORMED as error:
            raise SinkError(
                f"topic {topic} holds records that are not this sink's ({error}): give the query another name"
            ) from error

    @classmethod
    def _of(cls, next_batch: int, fields: Any) -> LedgerEntry:
        if fields["ottla"] != FORMAT_VERSION:
            raise ValueError(f"version {fields['ottla']}")
        return cls(
            next_batch,
            str(fields["name"]),
            str(fields["query"]),
            str(fields["run"]),
            Identity(fields["identity"]),
            int(fields["task"]),
            str(fields["shuffle"]),
        )


_JSON: Final = json.JSONDecoder()
_MALFORMED: Final = (ValueError, KeyError, TypeError, RecursionError)


def unit_group(query_name: str, unit: str) -> str:
    """The transactional id and the group of a unit."""
    return f"{query_name}-sink-{unit}"


def ledger_topic(query_name: str) -> str:
    """The ledger topic of a query, even if the query's name is not a valid name of a topic."""
    topic = query_name + LEDGER_SUFFIX
    if _TOPIC_NAME.fullmatch(query_name) and len(topic) <= _MAX_TOPIC_NAME:
        return topic
    readable = re.sub(r"[^A-Za-z0-9_-]", "-", query_name)[:100]
    return f"{readable}-{hashlib.sha256(query_name.encode()).hexdigest()[:16]}{LEDGER_SUFFIX}"


def read_ledger(access: ClusterAccess, group: str, topic: str) -> LedgerEntry | None:
    """What a unit's group says, after waiting for what a transaction still does to it. Raises KafkaException.

    topic: the ledger is the group's offset of partition 0 of this topic.
    """
    consumer = LEDGER_READERS.consumer(access, group)
    deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
    while True:
        try:
            (committed,) = consumer.committed([TopicPartition(topic, 0)], REQUEST_TIMEOUT_SECONDS)
            if committed.error is not None:
                raise KafkaException(committed.error)
        except KafkaException as error:
            if error.args[0].code() not in _PASSING_CODES or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
            continue
        if committed.offset < 0:
            return None
        return LedgerEntry.parse(group, committed.offset, metadata_of(committed))


def read_ledger_topic(
    access: ClusterAccess, group: str, topic: str, open_transactions_seconds: float | None = None
) -> dict[str, LedgerEntry]:
    """The entries of all units in a ledger topic, by the names of their groups.

    group: a group that the client may use; it is not joined. open_transactions_seconds: how long to wait for
    the end of transactions that are open now; None: do not wait, and leave out their records and any after
    them. Raises KafkaException, SinkError.
    """
    consumer = Consumer(
        access.librdkafka(
            {
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
                "enable.sparse.connections": "false",
                # A follower may not have what was committed last, and would call its own end the end.
                "client.rack": "",
            }
        )
    )
    try:
        # Asked twice, as by a unit's producer: then the leader is connected. An assignment that still has to
        # find it, or the first offset, waits 500 ms for a timer of librdkafka's.
        consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_SECONDS)
        consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_SECONDS)
        consumer.assign([TopicPartition(topic, 0, 0)])
        waiting = REQUEST_TIMEOUT_SECONDS + (open_transactions_seconds or 0)
        return _read_to_end(
            consumer, topic, time.monotonic() + waiting, behind_open=open_transactions_seconds is not None
        )
    finally:
        consumer.close()


def _read_to_end(
    consumer: Consumer, topic: str, deadline: float, *, behind_open: bool
) -> dict[str, LedgerEntry]:
    entries: dict[str, LedgerEntry] = {}
    end: int | None = None
    while time.monotonic() < deadline:
        message = consumer.poll(POLL_SECONDS)
        if message is None:
            continue
        error, key, value = message.error(), message.key(), message.value()
        if error is None:
            if key is not None and value is not None:
                entries[key.decode(errors="replace")] = LedgerEntry.parse_record(topic, value)
        elif error.code() == KafkaError._PARTITION_EOF:
            if end is None:
                # The end that the fetch found that led here, records of open transactions included.
                end = consumer.get_watermark_offsets(TopicPartition(topic, 0), cached=True)[1]
            if not behind_open or (message.offset() or 0) >= end:
                return entries
        elif not error.retriable() and error.code() not in _PASSING_CODES | {KafkaError._ALL_BROKERS_DOWN}:
            raise KafkaException(error)
    raise SinkError(
        f"topic {topic} cannot be read to its end: a transaction into it is open, or a broker away; try again"
    )


def is_forgotten(begun_ms: int, now_ms: int, retention_ms: int | None) -> bool:
    """Whether Kafka may have forgotten offsets that were committed to a group after `begun_ms`.

    This clock and the brokers' clocks may differ: the last tenth of the retention, an hour at most, counts as
    over. retention_ms: None if the cluster does not say.
    """
    if retention_ms is None:
        return True
    return now_ms - begun_ms >= retention_ms - min(retention_ms // 10, 3_600_000)


class LedgerTopics:
    """Ledger topics as this process has found or made them."""

    def __init__(self) -> None:
        self._compacted: set[tuple[str, str]] = set()

    def require(self, access: ClusterAccess, topic: str, replicas: Callable[[], int], exists: bool) -> None:
        """Have a ledger topic that keeps what is in it. Raises SinkError.

        replicas: tells how many to create it with; exists: whether it is known to be there.
        """
        key = (access.bootstrap, topic)
        if exists and key in self._compacted:
            return
        if not exists:
            create_ledger_topic(access, topic, replicas())
        _require_compacted(_cluster(access), topic)
        self._compacted.add(key)


LEDGER_TOPICS = LedgerTopics()


def create_ledger_topic(access: ClusterAccess, topic: str, replicas: int = -1) -> None:
    """Make a ledger topic. replicas: -1 stands for as many as the cluster gives topics. Raises SinkError."""
    try:
        _cluster(access).ensure_topics([Topic(topic, 1, replicas, _LEDGER_SETTINGS)])
    except ClusterError as error:
        raise SinkError(
            f"the exactly-once sink's ledger: {error};"
            " create it with one partition and cleanup.policy=compact"
        ) from error


def _require_compacted(cluster: KafkaCluster, topic: str) -> None:
    """Raises SinkError for a topic that somebody has made so that it forgets."""
    try:
        policy = cluster.topic_settings(topic)["cleanup.policy"]
    except ClusterError as error:
        if error.code in _NOT_ALLOWED:
            return  # who may not look has been given the topic, and by whom has been told what it is for
        raise SinkError(f"the exactly-once sink's ledger: {error}") from error
    if policy != "compact":
        raise SinkError(
            f"the exactly-once sink's ledger, topic {topic}, has cleanup.policy={policy} and would forget"
            " batches: set it to compact"
        )


def _cluster(access: ClusterAccess) -> KafkaCluster:
    return KafkaCluster(access.bootstrap, access.properties)
