"""JSON Schema through the Schema Registry: JSON behind the registry's framing.

JSON can be read without its writer's schema, so reading stays in the JVM: the frame is removed, and the rest
is read strictly as the type of the reader's schema (the given one, or the subject's latest when the query
starts). With `validate`, a Python function also checks each payload against the schema that it names, as
Confluent's deserializers do with `json.fail.invalid.schema`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import orjson
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType

from ottla.client.registry.lookups import RegisteredSchema
from ottla.pipeline.formats.arrow_udf import decode_column
from ottla.pipeline.formats.format import ERROR, VALUE, FormatError, decoded
from ottla.pipeline.formats.framed import Poison, decode_framed
from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.formats.json_schema_types import json_schema_of, spark_type_of_json_schema
from ottla.pipeline.formats.python_types import TypeLike, spark_type
from ottla.pipeline.formats.registry import SchemaRegistry
from ottla.pipeline.formats.subjects import BoundSchema, SchemaChoice, SubjectStrategy
from ottla.schemas import framing
from ottla.schemas.json_schema.json_schema_format import JsonSchema
from ottla.schemas.model import SchemaType

if TYPE_CHECKING:
    from pyspark.sql import Column

KEPT_TYPES: Final = 200


@dataclass(frozen=True, slots=True)
class JsonSchemaFormat:
    """JSON in the registry's framing. type: overrides the Spark type of the schema."""

    choice: SchemaChoice
    type: DataType | None = None
    validate: bool = False
    bound: BoundSchema | None = None

    @classmethod
    def of(
        cls,
        registry: SchemaRegistry,
        schema: TypeLike | None,
        subject: str | None,
        strategy: SubjectStrategy,
        auto_register: bool,
        validate: bool,
        title: str,
    ) -> JsonSchemaFormat:
        """`schema` is the text of a JSON Schema, or a type from which one is made. Raises FormatError."""
        text, wanted = None, None
        if isinstance(schema, str) and schema.lstrip().startswith("{"):
            text = schema
            wanted = spark_type_of_json_schema(schema)
        elif schema is not None:
            wanted = spark_type(schema)
            text = json_schema_of(wanted, title)
        choice = SchemaChoice(registry, SchemaType.JSON, text, subject, strategy, auto_register)
        return cls(choice, wanted, validate)

    @property
    def native(self) -> bool:
        return not self.validate

    def bind(self, topic: str | None, is_key: bool) -> Self:
        return self if self.bound is not None else replace(self, bound=self.choice.found(topic, is_key))

    def data_type(self) -> DataType:
        if self.type is not None:
            return self.type
        bound = self.bound if self.bound is not None else self.choice.found(None, False)
        return _type(bound.text)

    def describe(self) -> str:
        return "json schema" if self.bound is None else self.bound.describe("json schema")

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        bound = self.bind(topic if isinstance(topic, str) else None, is_key)
        prefix = framing.PREFIX_BYTES
        framed = (F.octet_length(column) > prefix) & (F.hex(F.substring(column, 1, 1)) == "00")
        body = F.when(framed, F.substring(column, F.lit(prefix + 1), F.octet_length(column) - prefix))
        unframed = F.when(~framed, F.lit("the payload has no frame that names a schema"))
        inner = JsonFormat(bound.data_type()).decode(body, topic, is_key)
        errors = [unframed]
        if self.validate:
            errors.append(_validated(self.choice.registry, column))

        def result(found: Column) -> Column:
            read = found.getField("read")
            return decoded(read.getField(VALUE), F.coalesce(found.getField("wrong"), read.getField(ERROR)))

        # The check is a Python function, which Spark does not allow inside a lambda.
        both = F.struct(inner.alias("read"), F.coalesce(*errors).alias("wrong"))
        return F.get(F.transform(F.array(both), result), 0)

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        bound = self.choice.registered(self.choice.found(topic, is_key), topic, is_key)
        assert bound.schema_id is not None
        wanted = self.type if self.type is not None else _type(bound.text)
        prefix = framing.frame(bound.schema_id, b"").hex()
        text = JsonFormat(wanted).encode(column, topic, is_key)
        return F.concat(F.unhex(F.lit(prefix)), text)


@lru_cache(maxsize=KEPT_TYPES)
def _type(text: str) -> DataType:
    return spark_type_of_json_schema(text)


def _validated(registry: SchemaRegistry, column: Column) -> Column:
    def decode(payloads: Sequence[bytes | None]) -> tuple[pa.Array, list[str | None]]:
        def columns(values: list[Any], errors: list[str | None]) -> pa.Array:
            return pa.array(values, pa.bool_())

        return decode_framed(payloads, registry, SchemaType.JSON, "", _Validator.of, columns)

    return decode_column(decode, BooleanType(), column).getField(ERROR)


class _Validator:
    """Checks bodies against the schema that their payloads name."""

    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema

    @classmethod
    def of(cls, writer: RegisteredSchema) -> _Validator:
        if not isinstance(writer.parsed, JsonSchema):
            raise FormatError("it is not a JSON Schema")
        return cls(writer.parsed)

    def all(self, bodies: Sequence[bytes]) -> list[Any]:
        return [self.one(body) for body in bodies]

    def one(self, body: bytes) -> Any:
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError as problem:
            raise Poison(f"the text is not valid JSON: {problem}") from None
        reasons = self._schema.validate(value)
        if reasons:
            raise Poison("; ".join(reasons))
        return True
