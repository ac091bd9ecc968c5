"""Values drawn by an Avro schema with `arg.properties`, as the Avro random generator has them.

Of a schema: types, `options`, `range`, `iteration`, `length`, `regex`, `prefix`, `suffix`, `keys`, `odds`. A
value depends on the dice and the record's number alone, so that any record can be made without those before
it: an iteration counts records, wherever in the schema it stands.
"""

from __future__ import annotations

import decimal
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ottla.connect.connectors.datagen.patterns import drawer
from ottla.connect.data.schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    Field,
    Moment,
    Schema,
    Struct,
    Type,
)

Draw = Callable[[random.Random, int], Any]
"""Makes the value of the record of a number."""

ARGUMENTS: Final = "arg.properties"
MAX_DEPTH: Final = 50
MAX_LENGTH: Final = 100_000
_DAY_MS: Final = 86_400_000
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class Generator(NamedTuple):
    """The Connect schema of the values, and how one is made."""

    schema: Schema
    draw: Draw


class SchemaError(ValueError):
    """An Avro schema by which no values can be drawn; the message names the place in it."""


def compile_schema(text: str) -> Generator:
    """The generator of an Avro schema in JSON. Raises SchemaError."""
    try:
        avro = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise SchemaError(f"the schema is no JSON: {problem}") from None
    return compile_avro(avro)


def compile_avro(avro: Any) -> Generator:
    """The generator of an Avro schema. Raises SchemaError."""
    return _Compiler().compile(avro, "schema", "", 0)


class _Numbers(NamedTuple):
    type: Type
    least: float
    most: float


_NUMBERS: Final[dict[str, _Numbers]] = {
    "int": _Numbers(Type.INT32, -(2**31), 2**31 - 1),
    "long": _Numbers(Type.INT64, -(2**63), 2**63 - 1),
    "float": _Numbers(Type.FLOAT32, 0.0, 1.0),
    "double": _Numbers(Type.FLOAT64, 0.0, 1.0),
}
_LOGICAL: Final[dict[str, tuple[str, str, int]]] = {
    "date": ("int", DATE, _DAY_MS),
    "time-millis": ("int", TIME, 1),
    "timestamp-millis": ("long", TIMESTAMP, 1),
}
"""For each logical type its Avro type, Connect's name, and the milliseconds of its unit."""


class _Compiler:
    """Compiles one schema; remembers its named types."""

    def __init__(self) -> None:
        self._named: dict[str, Generator] = {}

    def compile(self, avro: Any, place: str, namespace: str, depth: int) -> Generator:
        """The generator of a part of the schema."""
        if depth > MAX_DEPTH:
            raise SchemaError(f"{place}: nested deeper than {MAX_DEPTH} levels")
        if isinstance(avro, list):
            return self._union(avro, {}, place, namespace, depth)
        if isinstance(avro, str):
            avro = {"type": avro}
        if not isinstance(avro, dict) or "type" not in avro:
            raise SchemaError(f"{place}: neither a type's name nor an object with a type")
        kind, arguments = avro["type"], avro.get(ARGUMENTS, {})
        if not isinstance(arguments, dict):
            raise SchemaError(f"{place}: {ARGUMENTS} is no object")
        if isinstance(kind, list):
            return self._union(kind, arguments, place, namespace, depth)
        if isinstance(kind, dict):
            inner = {**kind, ARGUMENTS: {**kind.get(ARGUMENTS, {}), **arguments}}
            return self.compile(inner, place, namespace, depth + 1)
        found = self._named.get(f"{namespace}.{kind}") or self._named.get(kind)
        if found is not None:
            return found
        generator = self._typed(kind, avro, arguments, place, namespace, depth)
        generator = _with_logical_type(generator, avro, kind)
        return self._with_arguments(generator, arguments, place)

    def _typed(
        self,
        kind: str,
        avro: dict[str, Any],
        arguments: dict[str, Any],
        place: str,
        namespace: str,
        depth: int,
    ) -> Generator:
        match kind:
            case "null":
                return Generator(Schema(Type.STRING, optional=True), lambda chance, number: None)
            case "boolean":
                odds = arguments.get("odds", 0.5)
                if not _is_number(odds) or not 0 <= odds <= 1:
                    raise SchemaError(f"{place}: odds is no number from 0 to 1")
                return Generator(Schema(Type.BOOLEAN), lambda chance, number: chance.random() < odds)
            case "int" | "long" | "float" | "double":
                return _number(_NUMBERS[kind], arguments, place)
            case "string":
                return _string(arguments, place)
            case "bytes" | "fixed":
                length = (
                    avro.get("size") if kind == "fixed" else arguments.get("length", {"min": 8, "max": 16})
                )
                least, most = _limits(length, place, "size" if kind == "fixed" else "length")
                return Generator(
                    Schema(Type.BYTES), lambda chance, number: chance.randbytes(chance.randint(least, most))
                )
            case "enum":
                return _enumeration(avro, place)
            case "array":
                return self._array(avro, arguments, place, namespace, depth)
            case "map":
                return self._map(avro, arguments, place, namespace, depth)
            case "record":
                return self._record(avro, place, namespace, depth)
        raise SchemaError(f"{place}: there is no type {kind!r}")

    def _record(self, avro: dict[str, Any], place: str, namespace: str, depth: int) -> Generator:
        name, fields = avro.get("name"), avro.get("fields")
        if not isinstance(name, str) or not isinstance(fields, list):
            raise SchemaError(f"{place}: a record needs a name and a list of fields")
        namespace = str(avro.get("namespace", namespace))
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        parts: list[tuple[str, Generator]] = []
        for each in fields:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str) or "type" not in each:
                raise SchemaError(f"{place}: a field needs a name and a type")
            field_place = f"{place}.{each['name']}"
            if each["name"] in (known for known, _ in parts):
                raise SchemaError(f"{field_place}: two fields have this name")
            part = each["type"]
            if ARGUMENTS in each:  # some schemas have the arguments beside the type
                part = {"type": part, ARGUMENTS: each[ARGUMENTS]}
            parts.append((each["name"], self.compile(part, field_place, namespace, depth + 1)))
        schema = Schema(
            Type.STRUCT, name=full_name, fields=tuple(Field(name, part.schema) for name, part in parts)
        )
        draws = [(name, part.draw) for name, part in parts]
        generator = Generator(
            schema,
            lambda chance, number: Struct(schema, {name: draw(chance, number) for name, draw in draws}),
        )
        self._named[full_name] = generator
        return generator

    def _array(
        self, avro: dict[str, Any], arguments: dict[str, Any], place: str, namespace: str, depth: int
    ) -> Generator:
        items = self.compile(avro.get("items"), f"{place}[]", namespace, depth + 1)
        least, most = _limits(arguments.get("length", {"min": 1, "max": 5}), place)
        draw = items.draw
        return Generator(
            Schema(Type.ARRAY, values=items.schema),
            lambda chance, number: [draw(chance, number) for _ in range(chance.randint(least, most))],
        )

    def _map(
        self, avro: dict[str, Any], arguments: dict[str, Any], place: str, namespace: str, depth: int
    ) -> Generator:
        values = self.compile(avro.get("values"), f"{place}{{}}", namespace, depth + 1)
        least, most = _limits(arguments.get("length", {"min": 1, "max": 5}), place)
        keys_given = arguments.get("keys", {})
        if not isinstance(keys_given, dict):
            raise SchemaError(f"{place}: keys is no object")
        keys = self._with_arguments(_string(keys_given, place), keys_given, place).draw
        draw = values.draw
        return Generator(
            Schema(Type.MAP, keys=Schema(Type.STRING), values=values.schema),
            lambda chance, number: {
                keys(chance, number): draw(chance, number) for _ in range(chance.randint(least, most))
            },
        )

    def _union(
        self, branches: list[Any], arguments: dict[str, Any], place: str, namespace: str, depth: int
    ) -> Generator:
        """A type that may be null: Connect has no other unions."""
        others = [each for each in branches if each not in ("null", {"type": "null"})]
        if len(others) != 1:
            raise SchemaError(f"{place}: a union is of null and one other type")
        inner = self.compile({"type": others[0], ARGUMENTS: arguments}, place, namespace, depth + 1)
        if len(others) == len(branches):
            return inner
        draw = inner.draw
        return Generator(
            replace(inner.schema, optional=True),
            lambda chance, number: None if chance.random() < 0.5 else draw(chance, number),
        )

    def _with_arguments(self, generator: Generator, arguments: Mapping[str, Any], place: str) -> Generator:
        """The generator with options, or with an iteration, in place of its own values."""
        schema = generator.schema
        if "options" in arguments:
            options = arguments["options"]
            if not isinstance(options, list) or not options:
                raise SchemaError(f"{place}: options is no list of values")
            values = [_value(schema, each, place) for each in options]
            generator = Generator(schema, lambda chance, number: chance.choice(values))
        elif "iteration" in arguments:
            generator = _iteration(schema, arguments["iteration"], place)
        prefix, suffix = arguments.get("prefix", ""), arguments.get("suffix", "")
        if (prefix or suffix) and schema.type is Type.STRING:
            draw = generator.draw
            return Generator(schema, lambda chance, number: f"{prefix}{draw(chance, number)}{suffix}")
        return generator


def _number(numbers: _Numbers, arguments: Mapping[str, Any], place: str) -> Generator:
    given = arguments.get("range", {})
    if not isinstance(given, dict):
        raise SchemaError(f"{place}: range is no object")
    least, most = given.get("min", numbers.least), given.get("max", numbers.most)
    if not (_is_number(least) and _is_number(most) and least <= most):
        raise SchemaError(f"{place}: a range is from a number `min` to a number `max`")
    schema = Schema(numbers.type)
    if numbers.type in (Type.INT32, Type.INT64):
        first, last = max(int(least), int(numbers.least)), min(int(most), int(numbers.most))
        if first > last:
            raise SchemaError(f"{place}: the range has no number of its type")
        return Generator(schema, lambda chance, number: chance.randint(first, last))
    width = most - least
    return Generator(schema, lambda chance, number: least + chance.random() * width)


def _string(arguments: Mapping[str, Any], place: str) -> Generator:
    schema = Schema(Type.STRING)
    if "regex" in arguments:
        try:
            draw = drawer(str(arguments["regex"]))
        except ValueError as problem:
            raise SchemaError(f"{place}: {problem}") from None
        return Generator(schema, lambda chance, number: draw(chance))
    least, most = _limits(arguments.get("length", {"min": 8, "max": 16}), place)
    return Generator(
        schema, lambda chance, number: "".join(chance.choices(_LETTERS, k=chance.randint(least, most)))
    )


def _enumeration(avro: Mapping[str, Any], place: str) -> Generator:
    symbols = avro.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(each, str) for each in symbols):
        raise SchemaError(f"{place}: an enum needs a list of symbols")
    return Generator(
        Schema(Type.STRING, name=str(avro.get("name", ""))), lambda chance, number: chance.choice(symbols)
    )


def _iteration(schema: Schema, given: Any, place: str) -> Generator:
    """Values that count from `start` by `step`, a record each, and begin again at `restart`."""
    if not isinstance(given, dict) or not _is_number(given.get("start")):
        raise SchemaError(f"{place}: an iteration needs a number `start`")
    start, restart = given["start"], given.get("restart")
    initial = given.get("initial", start)
    step = given.get("step", 1 if restart is None or restart > start else -1)
    if not _is_number(step) or not _is_number(initial) or (restart is not None and not _is_number(restart)):
        raise SchemaError(f"{place}: the step, restart and initial of an iteration are numbers")
    if step == 0 or (restart is not None and (restart - start) * step <= 0):
        raise SchemaError(f"{place}: an iteration goes from its start to its restart by a step that is not 0")
    turns = None if restart is None else math.ceil((restart - start) / step)
    skipped = math.ceil((initial - start) / step)
    if schema.type is Type.STRING:
        return Generator(schema, lambda chance, number: str(_counted(number + skipped, start, step, turns)))
    if schema.type in (Type.INT32, Type.INT64) and schema.name is None:
        bits = 32 if schema.type is Type.INT32 else 64

        def count(chance: random.Random, number: int) -> int:
            value = int(_counted(number + skipped, start, step, turns))
            return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)  # as Java's numbers overflow

        return Generator(schema, count)
    if schema.name in (TIMESTAMP, TIME, DATE):
        unit_ms = _DAY_MS if schema.name == DATE else 1
        return Generator(
            schema,
            lambda chance, number: Moment(int(_counted(number + skipped, start, step, turns)) * unit_ms),
        )
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return Generator(schema, lambda chance, number: float(_counted(number + skipped, start, step, turns)))
    raise SchemaError(f"{place}: a {schema.type.value} can't be an iteration")


def _counted(number: int, start: float, step: float, turns: int | None) -> float:
    return start + step * (number if turns is None else number % turns)


def _with_logical_type(generator: Generator, avro: Mapping[str, Any], kind: str) -> Generator:
    """The generator with values of Connect's logical type, where the schema has one that Connect knows."""
    name, draw = avro.get("logicalType"), generator.draw
    if name in _LOGICAL and _LOGICAL[name][0] == kind:
        _, connect_name, unit_ms = _LOGICAL[name]
        schema = replace(generator.schema, name=connect_name, version=1)
        return Generator(schema, lambda chance, number: Moment(draw(chance, number) * unit_ms))
    if name == "decimal" and kind in ("bytes", "fixed"):
        scale, precision = int(avro.get("scale", 0)), int(avro.get("precision", 10))
        schema = Schema(Type.BYTES, name=DECIMAL, version=1, parameters={SCALE: str(scale)})
        most = 10 ** min(precision, 1000) - 1
        return Generator(
            schema, lambda chance, number: decimal.Decimal(chance.randint(-most, most)).scaleb(-scale)
        )
    return generator


def _limits(given: Any, place: str, name: str = "length") -> tuple[int, int]:
    """The least and the most of a length: a number, or an object with `min` and `max`."""
    least, most = (given.get("min", 0), given.get("max")) if isinstance(given, dict) else (given, given)
    if type(least) is not int or type(most) is not int or not 0 <= least <= most <= MAX_LENGTH:
        raise SchemaError(f"{place}: {name} is no length up to {MAX_LENGTH}, nor one from `min` to `max`")
    return least, most


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _value(schema: Schema, option: Any, place: str) -> Any:
    """An option of a schema as a value. Raises SchemaError where it has another type."""
    match schema.type, option:
        case Type.STRING, str():
            return option
        case Type.BOOLEAN, bool():
            return option
        case ((Type.INT32 | Type.INT64), int()) if not isinstance(option, bool):
            if schema.name is None:
                return option
            return Moment(option * (_DAY_MS if schema.name == DATE else 1))
        case ((Type.FLOAT32 | Type.FLOAT64), int() | float()) if not isinstance(option, bool):
            return float(option)
        case Type.BYTES, str() if schema.name is None:
            return option.encode("latin-1", "replace")
        case Type.ARRAY, list():
            assert schema.values is not None
            return [_value(schema.values, each, place) for each in option]
        case Type.MAP, dict():
            assert schema.values is not None
            return {str(key): _value(schema.values, each, place) for key, each in option.items()}
        case Type.STRUCT, dict():
            return Struct(
                schema,
                {each.name: _value(each.schema, option.get(each.name), place) for each in schema.fields},
            )
        case _, None if schema.optional:
            return None
    raise SchemaError(f"{place}: the option {json.dumps(option)[:100]} is no {schema.type.value}")


def names_of(fields: Sequence[Field]) -> str:
    """The names of fields for a message."""
    return ", ".join(each.name for each in fields)
