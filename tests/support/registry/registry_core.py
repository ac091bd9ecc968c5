"""The registry without Kafka: decisions are replayed at once, and kept as the topic would keep them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.encryption.key_services import KeyServices
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.keys.image import KeyImage
from ottla.registry.core.keys.reading import KeyReads
from ottla.registry.core.keys.writing import KeyWrites
from ottla.registry.core.reading import Reads, SchemaRequest
from ottla.registry.core.writing import Writes
from ottla.registry.instance import default_config
from ottla.registry.registry import Gone, State
from ottla.registry.settings import LOCAL_SECRET, MAX_KEYS, MODE_MUTABILITY, TABLE, VALIDATE_DEFAULTS
from ottla.replicated.decision import Decision
from ottla.replicated.place import Place
from ottla.replicated.records import Record
from ottla.schemas.format import SchemaFormat
from ottla.schemas.formats import format_of
from ottla.schemas.model import Schema, SchemaType
from ottla.web.errors import ApiError

T = TypeVar("T")

TOPIC_ID = uuid.UUID(int=7)
FIRST_TIMESTAMP_MS = 1_700_000_000_000


class InMemoryKeys:
    """Satisfies `Keys`; `records` is the topic."""

    def __init__(self, secret: str | None = "a secret", max_keys: int = 20_000) -> None:
        self.secret = secret
        self.max_keys = max_keys
        self.image = KeyImage()
        services = KeyServices(secret)
        self.reads = KeyReads(self.image, services)
        self.writes = KeyWrites(self.image, self.reads, services, max_keys)
        self.is_primary = True
        self.records: list[tuple[Record, int]] = []

    @property
    def place(self) -> Place:
        return Place(TOPIC_ID, (len(self.records) - 1,))

    async def open(self) -> None:
        return None

    def require_topic(self) -> None:
        return None

    async def forward(self, request: Request) -> Response:
        raise AssertionError(f"{request.url.path}: the only instance is the primary")

    async def write(self, decide: Callable[[], Decision[T]]) -> T:
        return self.apply(decide())

    def apply(self, decision: Decision[T]) -> T:
        for record in decision.records:
            self.replay(record)
        return decision.answer

    def replay(self, record: Record) -> None:
        timestamp_ms = FIRST_TIMESTAMP_MS + len(self.records)
        self.records.append((record, timestamp_ms))
        self.image.replay(record.key, record.value, timestamp_ms)

    def restarted(self, *, compacted: bool = False) -> InMemoryKeys:
        """Another instance that reads the topic: all records, or those that compaction leaves."""
        other = InMemoryKeys(self.secret, self.max_keys)
        last = {record.key: offset for offset, (record, _) in enumerate(self.records)}
        for offset, (record, timestamp_ms) in enumerate(self.records):
            if compacted and (last[record.key] != offset or record.value is None):
                continue
            other.records.append((record, timestamp_ms))
            other.image.replay(record.key, record.value, timestamp_ms)
        return other


class InMemoryRegistry:
    """Satisfies `Registry`; `records` is the topic."""

    def __init__(
        self,
        given: Mapping[str, str] | None = None,
        formats: Callable[[SchemaType], SchemaFormat] = format_of,
    ) -> None:
        self.given = dict(given or {})
        self.settings = Settings(TABLE, from_mapping(self.given))
        self.image = RegistryImage()
        self.reads = Reads(
            self.image, default_config(self.settings), formats, self.settings[VALIDATE_DEFAULTS]
        )
        self.writes = Writes(self.image, self.reads, self.settings[MODE_MUTABILITY])
        secret = self.settings[LOCAL_SECRET]
        self.keys = InMemoryKeys(None if secret is None else secret.value, self.settings[MAX_KEYS])
        self.kafka_cluster_id = "in-memory-cluster"
        self.is_primary = True
        self.problem: str | None = None
        self.records: list[tuple[Record, int]] = []

    @property
    def place(self) -> Place:
        return Place(TOPIC_ID, (len(self.records) - 1,))

    @property
    def state(self) -> State:
        return State(self.problem, "http://127.0.0.1:8081")

    def require_topic(self) -> None:
        if self.problem is not None:
            raise ApiError(500, 50001, self.problem)

    async def consider(self, query: Callable[[], T], gone: Gone | None = None) -> T:
        return query()

    async def write(self, decide: Callable[[], Decision[T]], gone: Gone | None = None) -> T:
        return self.apply(decide())

    async def forward(self, request: Request) -> Response:
        raise AssertionError(f"{request.url.path}: the only instance is the primary")

    def apply(self, decision: Decision[T]) -> T:
        for record in decision.records:
            self.replay(record)
        return decision.answer

    def replay(self, record: Record) -> None:
        timestamp_ms = FIRST_TIMESTAMP_MS + len(self.records)
        self.records.append((record, timestamp_ms))
        self.image.replay(record.key, record.value, timestamp_ms)

    def register(self, subject: str, text: str, schema_type: SchemaType = SchemaType.AVRO) -> int:
        """The id that the schema gets."""
        request = SchemaRequest(Schema(schema_type, text))
        return self.apply(self.writes.register(subject, request)).id

    def restarted(self, *, compacted: bool = False) -> InMemoryRegistry:
        """Another instance that reads the topic: all records, or those that compaction leaves."""
        other = InMemoryRegistry(self.given, self.reads.parser.formats)
        kept = self.records
        if compacted:
            last = {record.key: offset for offset, (record, _) in enumerate(kept)}
            kept = [kept[offset] for offset in sorted(last.values()) if kept[offset][0].value is not None]
        for record, timestamp_ms in kept:
            other.records.append((record, timestamp_ms))
            other.image.replay(record.key, record.value, timestamp_ms)
        return other


def avro_record(*fields: str) -> str:
    """A record's canonical text: `a` is a field without a default, `a?` one with."""
    told = [
        f'{{"name":"{name.removesuffix("?")}","type":"string"' + (',"default":""}' if "?" in name else "}")
        for name in fields
    ]
    return f'{{"type":"record","name":"R","fields":[{",".join(told)}]}}'


@contextmanager
def refused(error_code: int, message: str = "") -> Iterator[None]:
    """The block ends with this code, its status in front of it, and a message that has these words."""
    try:
        yield
    except ApiError as error:
        assert (error.error_code, error.status) == (error_code, int(str(error_code)[:3])), error.message
        assert message in error.message
    else:
        raise AssertionError(f"nothing was refused, {error_code} expected")
