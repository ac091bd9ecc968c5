"""The datagen source: each of its tasks makes its own records, and the same again from the same offset."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

import ottla
from ottla.config.setting import HIGH, LOW, Table, by_name, integer, long, string
from ottla.config.settings import Settings
from ottla.config.validators import Rule, at_least, not_empty
from ottla.connect.connectors.common import TASKS_MAX
from ottla.connect.connectors.datagen.generator import (
    Generator,
    SchemaError,
    compile_avro,
    compile_schema,
    names_of,
)
from ottla.connect.connectors.datagen.quickstarts import QUICKSTARTS
from ottla.connect.data.record import Header, Record, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.data.schema import Field, Schema, Struct, Type
from ottla.connect.plugins.required import Required, require

KAFKA_TOPIC: Final = string.optional(
    "kafka.topic", "The topic of the records.", Required(not_empty), importance=HIGH
)
QUICKSTART: Final = string.optional(
    "quickstart",
    f"A ready-made schema: one of {', '.join(QUICKSTARTS)}.",
    Rule(
        f"one of {', '.join(QUICKSTARTS)}",
        lambda value: (
            None
            if value is None or value.lower() in QUICKSTARTS
            else f"String must be one of (case insensitive): {', '.join(QUICKSTARTS)}"
        ),
    ),
    importance=HIGH,
)
SCHEMA_STRING: Final = string.optional(
    "schema.string", "An Avro schema in JSON, with arg.properties.", importance=HIGH
)
SCHEMA_FILENAME: Final = string.optional(
    "schema.filename", "A file with an Avro schema in JSON, with arg.properties.", importance=HIGH
)
SCHEMA_KEYFIELD: Final = string.optional("schema.keyfield", "The field that is the records' key.")
MAX_INTERVAL: Final = long(
    "max.interval",
    500,
    "The most milliseconds between two records of a task; 0: as fast as can be.",
    at_least(0),
)
ITERATIONS: Final = integer(
    "iterations", -1, "The records of each task; less than 1: without end.", importance=HIGH
)
RANDOM_SEED: Final = long.optional(
    "random.seed", "The same seed makes the same records. Without it, each connector has one of its own."
)
GENERATE_TIMEOUT: Final = long.optional(
    "generate.timeout", "Accepted and without effect: a record is made without waiting.", importance=LOW
)

TASK_ID: Final = "task.id"
ITERATION: Final = "current.iteration"
SEED: Final = "random.seed"
TASK_GENERATION: Final = "task.generation"
MAX_SCHEMA_BYTES: Final = 1 << 20
BATCH_RECORDS: Final = 500
MAX_DELAY_SECONDS: Final = 1.0
"""A task that was held up longer makes no records for the time before."""
_INT64: Final = Schema(Type.INT64)


class DatagenSource:
    """A source partition for each task; the offset is the number of the next record, and the seed."""

    TABLE: ClassVar[Table] = Table(
        "Datagen",
        by_name(
            (
                KAFKA_TOPIC,
                QUICKSTART,
                SCHEMA_STRING,
                SCHEMA_FILENAME,
                SCHEMA_KEYFIELD,
                MAX_INTERVAL,
                ITERATIONS,
                RANDOM_SEED,
                GENERATE_TIMEOUT,
                TASKS_MAX,
            )
        ),
    )
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        self._topic = require(settings, KAFKA_TOPIC)
        self._tasks = settings[TASKS_MAX]
        self._max_interval_seconds = settings[MAX_INTERVAL] / 1000
        self._iterations = settings[ITERATIONS]
        self._seed = settings[RANDOM_SEED]
        self._now = now
        self._generator, key_field = _generator(settings)
        self._key = _key_field(settings, self._generator.schema, key_field)

    def partitions(self) -> Sequence[SourcePartition]:
        return tuple({TASK_ID: task} for task in range(self._tasks))

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        number, seed = 0, self._seed
        if offset is not None:
            number, given = offset.get(ITERATION, 0), offset.get(SEED)
            if type(number) is not int or number < 0 or (given is not None and type(given) is not int):
                raise ValueError(f"the offset's {ITERATION!r} and {SEED!r} must be numbers")
            seed = given if seed is None else seed
        return self._read(partition, number, secrets.randbits(48) if seed is None else seed)

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Nothing is to be forgotten."""

    def close(self) -> None:
        """Nothing is open."""

    def _read(self, partition: SourcePartition, number: int, seed: int) -> Iterator[Sequence[SourceRecord]]:
        dice, task = random.Random(), int(partition[TASK_ID])
        due = self._now()
        while self._iterations < 1 or number < self._iterations:
            now = self._now()
            due = max(due, now - MAX_DELAY_SECONDS)
            batch: list[SourceRecord] = []
            while len(batch) < BATCH_RECORDS and due <= now:
                if number >= self._iterations > 0:
                    break
                # The record's number alone decides its dice: any record can be made without those before it.
                dice.seed(((seed & (1 << 64) - 1) << 96) | (task << 64) | number)
                batch.append(self._record(partition, task, number, seed, dice))
                number += 1
                if self._max_interval_seconds:
                    due += dice.random() * self._max_interval_seconds
            yield batch

    def _record(
        self, partition: SourcePartition, task: int, number: int, seed: int, dice: random.Random
    ) -> SourceRecord:
        schema, value = self._generator.schema, self._generator.draw(dice, number)
        key, key_schema = None, None
        if self._key is not None and isinstance(value, Struct):
            key, key_schema = value.values[self._key.name], self._key.schema
        headers = (
            Header(TASK_GENERATION, 0, _INT64),
            Header(TASK_ID, task, _INT64),
            Header(ITERATION, number, _INT64),
        )
        offset = {TASK_GENERATION: 0, ITERATION: number + 1, SEED: seed}
        return SourceRecord(
            Record(self._topic, None, key, key_schema, value, schema, None, headers), partition, offset
        )


def _generator(settings: Settings) -> tuple[Generator, str | None]:
    """The generator that the settings ask for, and the key's field that it has of its own."""
    asked = [each for each in (QUICKSTART, SCHEMA_STRING, SCHEMA_FILENAME) if settings[each] is not None]
    if len(asked) != 1:
        names = f"{QUICKSTART.name}, {SCHEMA_STRING.name} and {SCHEMA_FILENAME.name}"
        raise settings.refusal(
            (asked or [QUICKSTART])[-1].name, f"exactly one of {names} must be given, not {len(asked)}"
        )
    chosen = asked[0]
    text = require(settings, chosen)
    try:
        if chosen is QUICKSTART:
            quickstart = QUICKSTARTS[text.lower()]
            return compile_avro(quickstart.schema), quickstart.key_field
        if chosen is SCHEMA_FILENAME:
            with Path(text).open(encoding="utf-8") as file:
                text = file.read(MAX_SCHEMA_BYTES + 1)
        if len(text) > MAX_SCHEMA_BYTES:
            raise SchemaError(f"the schema is longer than {MAX_SCHEMA_BYTES} characters")
        return compile_schema(text), None
    except (SchemaError, UnicodeDecodeError) as problem:
        raise settings.refusal(chosen.name, str(problem)) from None
    except OSError as problem:
        raise settings.refusal(chosen.name, f"can't be read: {problem.strerror or problem}") from None


def _key_field(settings: Settings, schema: Schema, own: str | None) -> Field | None:
    name = settings[SCHEMA_KEYFIELD] or own
    if not name:
        return None
    found = schema.field(name)
    if found is None:
        raise settings.refusal(SCHEMA_KEYFIELD.name, f"must be one of the fields {names_of(schema.fields)}")
    return found
