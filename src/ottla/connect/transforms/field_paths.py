"""Names of fields, and with the second syntax (KIP-821) paths to fields within fields: a.b.`c.d`."""

from __future__ import annotations

import enum
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, choice
from ottla.connect.data.schema import DataError, Field, Schema, Struct, Type
from ottla.connect.transforms.common import require_map, require_struct

PURPOSE: Final = "nested field access"


class FieldSyntax(enum.StrEnum):
    """How a field is named."""

    V1 = "V1"
    V2 = "V2"


FIELD_SYNTAX_VERSION: Final = choice(FieldSyntax)(
    "field.syntax.version",
    FieldSyntax.V1,
    "How fields are named: V1 by their names, V2 by paths with dots, where backticks enclose a name.",
    importance=HIGH,
)


def path_steps(path: str, syntax: FieldSyntax) -> tuple[str, ...]:
    """The names along a path. Raises ConfigError."""
    if syntax is FieldSyntax.V1:
        return (path,)
    if not path:
        raise ConfigError("the path of a field must not be empty")
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _quoted_step(path, at)
            steps.append(step)
            continue
        dot = path.find(".", at)
        if dot < 0:
            steps.append(path[at:])
            break
        steps.append(path[at:dot])
        at = dot + 1
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted_step(path: str, opening: int) -> tuple[str, int]:
    """The name between backticks, and where the next one begins."""
    parts: list[str] = []
    start = at = opening + 1
    while True:
        at = path.find("`", at)
        if at < 0:
            raise _incomplete(path, opening)
        escaped = path[at - 1] == "\\"
        if at >= len(path) - 1:
            if escaped:
                raise _incomplete(path, opening)
            return "".join((*parts, path[start:at])), at + 1
        if path[at + 1] != ".":
            at += 1
        elif escaped:
            parts.append(path[start : at - 1] + "`")
            at += 1
            start = at
        else:
            return "".join((*parts, path[start:at])), at + 2


def _incomplete(path: str, opening: int) -> ConfigError:
    return ConfigError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at "
        f"position {opening} to escape it"
    )


def field_at(schema: Schema, steps: tuple[str, ...]) -> Field | None:
    """The field at a path within a STRUCT, None where there is none. Raises DataError for another type."""
    found: Field | None = None
    current = schema
    for step in steps:
        if current.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        found = current.field(step)
        if found is None:
            return None
        current = found.schema
    return found


def value_in_struct(struct: Struct, steps: tuple[str, ...], replace_null: bool) -> Any:
    """The value at a path within a struct, None where there is none. Raises DataError."""
    current = struct
    for step in steps[:-1]:
        field = current.schema.field(step)
        value = None if field is None else current.get(step)
        if value is None:
            return None
        current = require_struct(value, PURPOSE)
    last = current.schema.field(steps[-1])
    if last is None:
        return None
    value = current.values.get(last.name)
    return last.schema.default if value is None and replace_null else value


def value_in_map(values: dict[str, Any], steps: tuple[str, ...]) -> Any:
    """The value at a path within a map, None where there is none. Raises DataError."""
    current = values
    for step in steps[:-1]:
        value = current.get(step)
        if value is None:
            return None
        current = require_map(value, PURPOSE)
    return current.get(steps[-1])
