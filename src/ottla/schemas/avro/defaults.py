"""Checks that the defaults of fields fit their types, for new schemas only."""

from __future__ import annotations

from typing import Any, Final

from ottla.schemas.avro.json_text import write_json
from ottla.schemas.avro.model import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from ottla.schemas.format import InvalidSchema

MAX_STEPS: Final = 1_000_000
"""The most types to check for all defaults of a schema: defaults within defaults multiply."""
_INT: Final = 1 << 31
_LONG: Final = 1 << 63


def check_defaults(root: AvroType) -> None:
    """Raise InvalidSchema for the first default that does not fit."""
    checker = _Checker()
    waiting: list[AvroType] = [root]
    seen: set[int] = set()
    while waiting:
        kind = waiting.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        match kind:
            case Array():
                waiting.append(kind.items)
            case Map():
                waiting.append(kind.values)
            case Union():
                waiting.extend(kind.branches)
            case Record():
                for field in kind.fields:
                    if field.has_default and not checker.fits(field.type, field.default, 0):
                        shown = write_json(field.default)[:120]
                        raise InvalidSchema(
                            f"the default {shown} of the field {field.name} of {kind.full_name} is no "
                            f"{field.type.full_name}"
                        )
                    waiting.append(field.type)


class _Checker:
    def __init__(self) -> None:
        self._steps = 0

    def fits(self, kind: AvroType, value: Any, depth: int) -> bool:
        self._steps += 1
        if self._steps > MAX_STEPS or depth > 200:
            raise InvalidSchema("the defaults of the schema are nested too deep")
        match kind:
            case Primitive():
                return _fits_primitive(kind.kind, value)
            case Enum() | Fixed():
                return isinstance(value, str)
            case Array():
                return isinstance(value, list) and all(
                    self.fits(kind.items, element, depth + 1) for element in value
                )
            case Map():
                return isinstance(value, dict) and all(
                    self.fits(kind.values, element, depth + 1) for element in value.values()
                )
            case Union():
                return any(self.fits(branch, value, depth + 1) for branch in kind.branches)
            case Record():
                return isinstance(value, dict) and all(
                    self.fits(field.type, value[field.name], depth + 1)
                    if field.name in value
                    else field.has_default and self.fits(field.type, field.default, depth + 1)
                    for field in kind.fields
                )


def _fits_primitive(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool) and -_INT <= value < _INT
        case "long":
            return isinstance(value, int) and not isinstance(value, bool) and -_LONG <= value < _LONG
        case "float" | "double":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case _:
            return isinstance(value, str)
