"""Payloads in the registry's framing -> Arrow arrays; a bad payload fails only its own record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql.types import DataType

from ottla.client.registry.cache import Cache
from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.rules import read_obstacle
from ottla.pipeline.formats.arrow_udf import nullable_throughout
from ottla.pipeline.formats.format import FormatError, in_one_line
from ottla.pipeline.formats.registry import RegistryError, SchemaRegistry, UnknownSchema, schema_by_id
from ottla.schemas import framing
from ottla.schemas.model import SchemaType

KEPT_READERS: Final = 500


class Poison(Exception):
    """A payload that does not match its schema; the message is one line."""


class DecodeBodies(Protocol):
    """A decoder from bodies of one writer's schema to values that Arrow takes."""

    def all(self, bodies: Sequence[bytes]) -> list[Any]:
        """The values of many bodies, fast. Raises any exception if one of the bodies is bad."""

    def one(self, body: bytes) -> Any:
        """The value of one body. Raises an exception that says why it is bad."""


_readers: Cache[DecodeBodies] = Cache(KEPT_READERS)


def decode_framed(
    payloads: Sequence[bytes | None],
    registry: SchemaRegistry,
    schema_type: SchemaType,
    reader_key: str,
    reader_of: Callable[[RegisteredSchema], DecodeBodies],
    columns: Callable[[list[Any], list[str | None]], pa.Array],
) -> tuple[pa.Array, list[str | None]]:
    """Values (in the Arrow type that Spark expects) and errors of payloads. Raises RegistryError.

    `reader_of` makes the reader for a writer's schema, once; `reader_key` tells readers apart. `columns`
    makes the array of the readers' values and may find more errors.
    """
    errors: list[str | None] = [None] * len(payloads)
    values: list[Any] = [None] * len(payloads)
    places: dict[int, list[int]] = {}
    for at, payload in enumerate(payloads):
        if payload is None:
            continue
        if len(payload) < framing.PREFIX_BYTES or payload[0] != framing.MAGIC_BYTE:
            errors[at] = _unframed(payload)
            continue
        places.setdefault(int.from_bytes(payload[1:5], "big"), []).append(at)
    for schema_id, found_at in places.items():
        try:
            reader = _reader(registry, schema_type, schema_id, reader_key, reader_of)
        except RegistryError:
            raise
        except (UnknownSchema, FormatError, Poison) as problem:
            reason = in_one_line(f"schema {schema_id} of the payload: {problem}")
            for at in found_at:
                errors[at] = reason
            continue
        _decode_group(payloads, found_at, reader, values, errors)
    return columns(values, errors), errors


def _reader(
    registry: SchemaRegistry,
    schema_type: SchemaType,
    schema_id: int,
    reader_key: str,
    reader_of: Callable[[RegisteredSchema], DecodeBodies],
) -> DecodeBodies:
    key = registry, schema_type, schema_id, reader_key
    kept = _readers.recall(key)
    if kept is None:
        schema = schema_by_id(registry, schema_id, schema_type)
        obstacle = read_obstacle(schema.rules)
        if obstacle is not None:
            raise Poison(obstacle)
        kept = reader_of(schema)
        _readers.keep(key, kept)
    return kept


def _decode_group(
    payloads: Sequence[bytes | None],
    found_at: Sequence[int],
    reader: DecodeBodies,
    values: list[Any],
    errors: list[str | None],
) -> None:
    bodies = [payloads[at][framing.PREFIX_BYTES :] for at in found_at]  # type: ignore[index]
    try:
        decoded = reader.all(bodies)
    except Exception:  # one of the bodies is bad: decoded one by one to find which
        for at, body in zip(found_at, bodies, strict=True):
            try:
                values[at] = reader.one(body)
            except Exception as problem:  # the libraries raise many kinds for bytes that they can't read
                errors[at] = reason_of(problem)
        return
    for at, value in zip(found_at, decoded, strict=True):
        values[at] = value


def to_arrow(
    values: list[Any], errors: list[str | None], arrow_type: pa.DataType, spark_type: DataType
) -> pa.Array:
    """An array of Spark's Arrow type; a value that does not fit becomes null, with its reason in `errors`."""
    wanted = spark_arrow_type(spark_type)
    try:
        return _array(values, arrow_type, wanted)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        for at, value in enumerate(values):
            try:
                _array([value], arrow_type, wanted)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as problem:
                values[at] = None
                errors[at] = reason_of(problem)
        return _array(values, arrow_type, wanted)


def _array(values: list[Any], arrow_type: pa.DataType, wanted: pa.DataType) -> pa.Array:
    made = pa.array(values, arrow_type)
    return made if arrow_type == wanted else made.cast(wanted)


@lru_cache(maxsize=KEPT_READERS)
def spark_arrow_type(spark_type: DataType) -> pa.DataType:
    """The Arrow type that Spark uses for columns of this type."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(nullable_throughout(spark_type))


def reason_of(problem: Exception) -> str:
    """The reason in one line, for a dead letter."""
    if isinstance(problem, Poison):
        return in_one_line(str(problem))
    if isinstance(problem, EOFError):
        return "the payload ends too soon"
    return in_one_line(f"{type(problem).__name__}: {problem}")


def _unframed(payload: bytes) -> str:
    try:
        framing.split_frame(payload)
    except framing.UnframedPayload as problem:
        return in_one_line(str(problem))
    raise AssertionError("a frame that can be split is one")
