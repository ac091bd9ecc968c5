"""Records as keys of Redis, exactly once: offsets are written in the same MULTI."""

from __future__ import annotations

import enum
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import ottla
from ottla.config.setting import (
    HIGH,
    Table,
    boolean,
    by_name,
    choice,
    integer,
    password,
    string,
    string_list,
)
from ottla.config.settings import Settings
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import ListOf, at_least
from ottla.connect.connectors.common import GENERATION, NAME, ledger_name
from ottla.connect.connectors.ledger_writing import LedgerWriting, Plan
from ottla.connect.connectors.plain import json_text, key_text, plain
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.api import RetriableError

if TYPE_CHECKING:
    from redis import Redis

DEFAULT_PORT: Final = 6379


class Command(enum.StrEnum):
    """The command by which records are written."""

    SET = "SET"
    HSET = "HSET"
    XADD = "XADD"


REDIS_HOSTS: Final = string_list(
    "redis.hosts",
    (f"localhost:{DEFAULT_PORT}",),
    "The server, host:port.",
    ListOf(empty=False),
    importance=HIGH,
)
REDIS_DATABASE: Final = integer("redis.database", 0, "The database's number.", at_least(0))
REDIS_USERNAME: Final = string.optional("redis.username", "The user, where the server has several.")
REDIS_PASSWORD: Final = password.optional("redis.password", "The password.")
REDIS_SSL: Final = boolean("redis.ssl.enabled", False, "The server is reached by TLS.")
REDIS_TIMEOUT_MS: Final = integer(
    "redis.operation.timeout.ms", 10_000, "How long a connection or an answer may take.", at_least(100)
)
REDIS_COMMAND: Final = choice(Command)(
    "redis.command",
    Command.SET,
    "SET: each key has the last value, a text as it is, other values in JSON. HSET: the value's fields are a "
    "hash. XADD: each record is an entry of a stream.",
    importance=HIGH,
)
REDIS_KEY: Final = string(
    "redis.key",
    "",
    "SET and HSET: put before each key, with ${topic} for the topic. XADD: the stream, by default ${topic}.",
)

_OFFSET_KEY: Final = "__kafka.offset."


class _Write(NamedTuple):
    """A record as it is written. fields: of a hash or an entry; value: of a string; both None deletes."""

    place: TopicPartition
    offset: int
    key: bytes
    value: bytes | None = None
    fields: Mapping[bytes, bytes] | None = None


class RedisSink:
    """What is written is as durable as the server's own configuration makes it (`appendfsync`)."""

    TABLE: ClassVar[Table] = Table(
        "RedisSink",
        by_name(
            (
                REDIS_HOSTS,
                REDIS_DATABASE,
                REDIS_USERNAME,
                REDIS_PASSWORD,
                REDIS_SSL,
                REDIS_TIMEOUT_MS,
                REDIS_COMMAND,
                REDIS_KEY,
                NAME,
                GENERATION,
            )
        ),
        unsupported=merged(
            [
                refusing(
                    "one server is written to: no cluster, no sentinel",
                    "redis.client.mode",
                    nothing=("standalone",),
                ),
                refusing("certificates are those of the system", "redis.ssl.", nothing=("jdk",)),
                harmless(
                    "the runtime tries again, as errors.retry.timeout says",
                    "redis.connection.attempts",
                    "redis.connection.retry.delay.ms",
                    "redis.auto.reconnect.enabled",
                ),
                harmless("texts are UTF-8", "redis.charset", nothing=("utf-8",)),
                harmless("there is one connection", "redis.connection.pool.", "redis.request.queue.size"),
                harmless("of no effect here", "redis.socket."),
            ]
        ),
    )
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("redis") is None:
            raise settings.refusal(
                REDIS_HOSTS.name, "the package redis is not installed: pip install 'ottla[connect]'"
            )
        hosts = settings[REDIS_HOSTS]
        if len(hosts) != 1:
            raise settings.refusal(REDIS_HOSTS.name, "one server is written to")
        self._host, self._port = _address(settings, hosts[0])
        self._settings = settings
        self._command = settings[REDIS_COMMAND]
        self._key = settings[REDIS_KEY] or ("${topic}" if self._command is Command.XADD else "")
        self._writing = LedgerWriting[_Write](self._opened)

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._writing.open(partitions)

    def write(self, records: Sequence[SinkRecord]) -> None:
        self._writing.write(records, self._write_of)

    def flush(self) -> None:
        """Each batch is with the server when `write` returns."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self._writing.lose(partitions)

    def close(self) -> None:
        self._writing.close()

    def _write_of(self, each: SinkRecord) -> _Write:
        record = each.record
        prefix = self._key.replace("${topic}", record.topic).encode()
        if self._command is Command.XADD:
            return _Write(each.place, each.offset, prefix, None, _entry(record))
        if record.key is None:
            raise DataError("a record without a key has no key in Redis")
        key = prefix + _bytes(record.key)
        if record.value is None:
            return _Write(each.place, each.offset, key)
        if self._command is Command.SET:
            return _Write(each.place, each.offset, key, _bytes(record.value))
        return _Write(each.place, each.offset, key, None, _fields(record.value))

    def _opened(self) -> _Server:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        timeout_seconds = self._settings[REDIS_TIMEOUT_MS] / 1000
        secret = self._settings[REDIS_PASSWORD]
        client = redis.Redis(
            host=self._host,
            port=self._port,
            db=self._settings[REDIS_DATABASE],
            username=self._settings[REDIS_USERNAME],
            password=None if secret is None else secret.value,
            ssl=self._settings[REDIS_SSL],
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 0),  # the runtime tries again
        )
        return _Server(client, f"{self._host}:{self._port}", self._command, ledger_name(self._settings))


class _Server:
    """The server with the offsets of one ledger."""

    keeps_offsets: ClassVar[bool] = True

    def __init__(self, client: Redis, name: str, command: Command, ledger: str) -> None:
        self._client = client
        self._name = name
        self._command = command
        self._ledger = ledger

    def offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        with self._errors():
            return self._read(self._client, places)

    def write(self, places: Sequence[TopicPartition], plan: Plan[_Write]) -> None:
        """Write a batch, if the offsets and the streams' types stay as they are from reading them to EXEC."""
        with self._errors(), self._client.pipeline(transaction=True) as pipeline:
            pipeline.watch(*map(self._offset_key, places))  # type: ignore[no-untyped-call]
            batch = plan(self._read(pipeline, places))
            # In Redis a command that fails in EXEC undoes none of the others: types are looked at before.
            if self._command is Command.XADD:
                self._require_streams(pipeline, {each.key for each in batch.changes})
            pipeline.multi()
            for each in batch.changes:
                self._queue(pipeline, each)
            for place, offset in batch.ends.items():
                pipeline.set(self._offset_key(place), offset)
            pipeline.execute()

    def close(self) -> None:
        self._client.close()

    def _queue(self, pipeline: Any, each: _Write) -> None:
        if self._command is Command.XADD:
            pipeline.xadd(each.key, dict(each.fields or {}))
        elif each.value is not None:
            pipeline.set(each.key, each.value)
        else:
            pipeline.delete(each.key)
            if each.fields:
                pipeline.hset(each.key, mapping=dict(each.fields))

    def _require_streams(self, pipeline: Any, keys: set[bytes]) -> None:
        for key in sorted(keys):
            pipeline.watch(key)
            kind = pipeline.type(key).decode()
            if kind not in ("none", "stream"):
                raise ValueError(
                    f"Redis at {self._name}: {key.decode('utf-8', 'replace')} is a {kind}, no stream"
                )

    def _read(self, client: Any, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if not places:
            return {}
        found = client.mget([self._offset_key(place) for place in places])
        return {place: int(value) for place, value in zip(places, found, strict=True) if value is not None}

    def _offset_key(self, place: TopicPartition) -> str:
        return f"{_OFFSET_KEY}{self._ledger}.{place.topic}.{place.partition}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import redis

        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ReadOnlyError) as problem:
            if isinstance(problem, redis.AuthenticationError):
                raise
            raise RetriableError(f"Redis at {self._name}: {problem}") from problem
        except redis.WatchError as problem:
            # The connection was lost in EXEC, or others have written: the batch comes again and finds out.
            raise RetriableError(f"Redis at {self._name}: {problem}") from problem
        except (redis.exceptions.ExecAbortError, redis.exceptions.OutOfMemoryError) as problem:
            # Refused when they were queued, as with a full memory: nothing of the batch was done.
            raise RetriableError(f"Redis at {self._name}: {problem}") from problem


def _address(settings: Settings, text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host, port = text.strip(), str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise settings.refusal(REDIS_HOSTS.name, "a server is host:port")
    return host.strip("[]"), int(port)


def _bytes(value: Any) -> bytes:
    """A text or bytes as they are, other values in JSON."""
    if isinstance(value, bytes):
        return value
    return key_text(value).encode()


def _fields(value: Any) -> dict[bytes, bytes]:
    """The fields of a struct or an object that are not null."""
    values = plain(value)
    if not isinstance(values, dict):
        raise DataError("a hash is made of a struct or an object alone")
    return {
        name.encode("utf-8", "strict"): _bytes(item) if isinstance(item, str) else json_text(item).encode()
        for name, item in values.items()
        if item is not None
    }


def _entry(record: Record) -> dict[bytes, bytes]:
    """An entry of a stream: the value's fields, or `value`, and `key` where there is one."""
    entry: dict[bytes, bytes] = {}
    if isinstance(plain(record.value), dict):
        entry = _fields(record.value)
    elif record.value is not None:
        entry = {b"value": _bytes(record.value)}
    if record.key is not None:
        entry.setdefault(b"key", _bytes(record.key))
    if not entry:
        raise DataError("a record without key and value makes no entry of a stream")
    return entry
