"""Topics that ask for it take only records that name a registered schema, as on Confluent Server.

A key or value must begin with a zero byte and a schema's id (four bytes), and the registry must know that id
under the subject that the topic's strategy makes of topic and record. Null keys and values pass: tombstones
have no schema. The payload behind the id is not looked at. A batch with a record that fails is refused whole:
INVALID_RECORD, and a message for each such record (the first 1,000).

The produce path pays one test for topics that don't ask. Batches of those that do go the way of heavy ones
(`HeavyBatch`), because the registry may have to be asked (`schema_lookup`). While it can't be, the batch is
refused with REQUEST_TIMED_OUT, which clients try again; it is never taken unseen.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.schema_rules import PartRule, SchemaRules, schema_rules
from ottla.config.setting import Config
from ottla.core.settings.schema_validation_settings import SCHEMA_REGISTRY_URL
from ottla.protocol.batch_validation import (
    LOOP_PAYLOAD_BYTES,
    LOOP_RECORDS,
    MAX_RECORD_ERRORS,
    HeavyBatch,
    RecordError,
    RejectedRecords,
)
from ottla.protocol.compression import Codec, UnfoldsTooFar
from ottla.protocol.errors import (
    CorruptBatch,
    InvalidConfig,
    InvalidRecord,
    MalformedMessage,
    RequestTimedOut,
)
from ottla.protocol.record_batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    read_nullable_length,
    record_frames,
    records_payload,
)

if TYPE_CHECKING:
    from ottla.broker.replication.schema_lookup import SchemaLookup

DEADLINE_SECONDS: Final = 5.0
"""The time for all questions of a batch to the registry; producers wait 30 s for an answer by default."""
MAX_IDS_A_BATCH: Final = 1000
_MAGIC_BYTE: Final = 0
_ID: Final = struct.Struct(">i")
_PREFIX_BYTES: Final = 5


@dataclass(slots=True)
class NamedSchemas:
    """The ids that a batch's records name, each with the places of the first records that do."""

    places: dict[tuple[PartRule, int], list[int]] = field(default_factory=dict)
    faults: list[RecordError] = field(default_factory=list)


def find_schema_ids(
    batch: memoryview, header: BatchHeader, rules: SchemaRules, *, on_loop: bool = False
) -> NamedSchemas:
    """The ids that the records of a checked batch name, and the records that name none.

    Raises InvalidRecord for records that don't follow the format or name too many schemas; with `on_loop`
    HeavyBatch for a batch that would hold the event loop for too long.
    """
    packed = header.compression is not Codec.NONE
    if on_loop and (
        header.record_count > LOOP_RECORDS or (packed and header.size_bytes > LOOP_PAYLOAD_BYTES)
    ):
        raise HeavyBatch
    max_bytes = LOOP_PAYLOAD_BYTES if on_loop else DEFAULT_MAX_DECOMPRESSED_BYTES
    found = NamedSchemas()
    try:
        payload = records_payload(batch, 0, header, max_bytes=max_bytes)
        for place, (start, end, _, _) in enumerate(record_frames(payload, header)):
            length, key = read_nullable_length(payload, start, end)
            if rules.key is not None:
                _find(payload, key, length, rules.key, place, found)
            if rules.value is not None:
                length, value = read_nullable_length(payload, key + max(length, 0), end)
                _find(payload, value, length, rules.value, place, found)
            if len(found.faults) >= MAX_RECORD_ERRORS:
                break
    except UnfoldsTooFar as problem:
        if on_loop:
            raise HeavyBatch from None
        raise InvalidRecord(str(problem)) from None
    except (CorruptBatch, MalformedMessage) as problem:
        raise InvalidRecord(str(problem)) from None
    return found


def _find(
    payload: bytes, position: int, length: int, rule: PartRule, place: int, found: NamedSchemas
) -> None:
    if length < 0:
        return
    if length < _PREFIX_BYTES or payload[position] != _MAGIC_BYTE:
        found.faults.append(
            RecordError(place, f"the {rule.part} does not begin with a zero byte and the id of a schema")
        )
        return
    (schema_id,) = _ID.unpack_from(payload, position + 1)
    places = found.places.get((rule, schema_id))
    if places is None:
        if len(found.places) >= MAX_IDS_A_BATCH:
            raise InvalidRecord(f"the batch names more than {MAX_IDS_A_BATCH} schemas")
        places = found.places[(rule, schema_id)] = []
    if len(places) < MAX_RECORD_ERRORS:
        places.append(place)


class SchemaValidation:
    """The topics that ask for schemas, and the registry's verdicts on ids."""

    def __init__(self, config: Config, heavy_check: asyncio.Semaphore) -> None:
        self.rules: dict[str, SchemaRules] = {}
        self._config = config
        self._heavy_check = heavy_check
        self._lookup: SchemaLookup | None = None

    def configure(self, topic: str, config: Config) -> None:
        """Take over a topic's settings."""
        rules = schema_rules(topic, config)
        if rules is None:
            self.rules.pop(topic, None)
        else:
            self.rules[topic] = rules

    def forget(self, topic: str) -> None:
        """The topic is deleted."""
        self.rules.pop(topic, None)

    async def check_batch(self, header: BatchHeader, batch: memoryview, rules: SchemaRules) -> None:
        """Check that all records of a checked batch name schemas as the rules ask; in a thread if it is
        heavy.

        Raises RejectedRecords for records without a right id, RequestTimedOut when the registry can't be
        asked, InvalidConfig when this broker knows none; InvalidRecord as `find_schema_ids`.
        """
        urls = self._config[SCHEMA_REGISTRY_URL]
        if not urls:
            raise InvalidConfig(
                f"the topic asks for schema validation, and its leader has no {SCHEMA_REGISTRY_URL.name}"
            )
        try:
            named = find_schema_ids(batch, header, rules, on_loop=True)
        except HeavyBatch:
            async with self._heavy_check:
                named = await asyncio.to_thread(find_schema_ids, batch, header, rules)
        if not named.faults and named.places:
            verdicts = await self._verdicts(named.places, urls)
            for (rule, schema_id), accepted in verdicts.items():
                if not accepted:
                    message = (
                        f"the {rule.part} names schema {schema_id}, not registered under {rule.describe()}"
                    )
                    named.faults += [RecordError(place, message) for place in named.places[(rule, schema_id)]]
        if named.faults:
            first = sorted(named.faults, key=lambda fault: fault.batch_index)
            raise RejectedRecords(first[:MAX_RECORD_ERRORS])

    async def _verdicts(
        self, places: Mapping[tuple[PartRule, int], list[int]], urls: tuple[str, ...]
    ) -> dict[tuple[PartRule, int], bool]:
        from ottla.broker.replication.schema_lookup import RegistryUnavailable

        lookup = self._started_lookup(urls)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return {
                    (rule, schema_id): await lookup.accepts(schema_id, rule) for rule, schema_id in places
                }
        except (RegistryUnavailable, TimeoutError) as problem:
            why = str(problem) or f"no answer within {DEADLINE_SECONDS:g} s"
            raise RequestTimedOut(f"the schema registry could not be asked: {why}") from None

    def _started_lookup(self, urls: tuple[str, ...]) -> SchemaLookup:
        if self._lookup is not None and self._lookup.urls != urls:  # changed while the broker runs
            self._lookup.close()
            self._lookup = None
        if self._lookup is None:
            # Threads and HTTP: imported by brokers that need them.
            from ottla.broker.replication.schema_lookup import SchemaLookup

            self._lookup = SchemaLookup(urls)
        return self._lookup

    def close(self) -> None:
        """Ask no more; answers under way are not waited for."""
        if self._lookup is not None:
            self._lookup.close()
