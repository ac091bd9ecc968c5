"""The tagged fields of an Avro value in its JSON encoding, changed one by one.

A field has the tags of its own `confluent:tags`, and those of the metadata's patterns that match its full
name. They hold for the values in its arrays, maps and unions, not for the fields of a record in it. A value
that is not of its schema's shape is refused: what is not understood would be left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

TAGS: Final = "confluent:tags"
_NAMED: Final = ("record", "error", "enum", "fixed")
_LEAVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed")
)


class OtherShape(ValueError):
    """A value that does not fit its schema; the message says where and why."""


Change = Callable[[str, Any], Any]
"""Changes a value of a type (`string`, `bytes`, `int`…) that is not null."""


@dataclass(frozen=True, slots=True)
class AvroFields:
    """The fields with one of `tags`, or all where there are none.

    schema, named: as fastavro.parse_schema gives them, with full names. paths: the tags of the metadata, by
    patterns of full names.
    """

    schema: Any
    named: Mapping[str, Any]
    tags: Collection[str]
    paths: Mapping[str, Collection[str]]

    def changed(self, value: Any, change: Change) -> Any:
        """The value with its tagged fields changed, defaults of missing ones included. Raises OtherShape."""
        return self._walk(self.schema, value, None, change)

    def _walk(self, schema: Any, value: Any, chosen: bool | None, change: Change) -> Any:
        """chosen: whether the field around it has one of the tags; None outside of all fields."""
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._union(schema, value, chosen, change)
        kind = schema["type"]
        match kind:
            case "record" | "error":
                return self._record(schema, value, change)
            case "array":
                if not isinstance(value, list):
                    raise OtherShape("an array is needed")
                return [self._walk(schema["items"], one, chosen, change) for one in value]
            case "map":
                if not isinstance(value, dict):
                    raise OtherShape("a map is needed")
                return {
                    name: self._walk(schema["values"], one, chosen, change) for name, one in value.items()
                }
        if kind not in _LEAVES:
            return self._walk(kind, value, chosen, change)
        return change(kind, value) if chosen and kind != "null" else value

    def _union(self, branches: list[Any], value: Any, chosen: bool | None, change: Change) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict) or len(value) != 1:
            raise OtherShape("a union's value is null, or an object that names its branch")
        ((name, inner),) = value.items()
        for branch in branches:
            if self._branch_name(branch) == name:
                return {name: self._walk(branch, inner, chosen, change)}
        raise OtherShape(f"the union has no branch {name[:100]}")

    def _record(self, schema: Any, value: Any, change: Change) -> Any:
        if not isinstance(value, dict):
            raise OtherShape(f"a record {schema['name']} is needed")
        found = dict(value)
        for field in schema["fields"]:
            name = field["name"]
            if name not in found:
                if "default" not in field:
                    raise OtherShape(f"{schema['name']} has no field {name}")
                found[name] = self._default(field["type"], field["default"])
            chosen = self._is_chosen(f"{schema['name']}.{name}", field.get(TAGS) or ())
            try:
                found[name] = self._walk(field["type"], found[name], chosen, change)
            except OtherShape as problem:
                raise OtherShape(f"{name}: {problem}") from None
        return found

    def _default(self, schema: Any, default: Any) -> Any:
        """A default in the JSON encoding of values: a union's is one of its first branch."""
        schema = self._resolved(schema)
        if isinstance(schema, list):
            inner = self._default(schema[0], default)
            return None if default is None else {self._branch_name(schema[0]): inner}
        match schema["type"]:
            case "record" | "error":
                return {
                    field["name"]: self._default(
                        field["type"], default.get(field["name"], field.get("default"))
                    )
                    for field in schema["fields"]
                }
            case "array":
                return [self._default(schema["items"], one) for one in default]
            case "map":
                return {name: self._default(schema["values"], one) for name, one in default.items()}
        return default

    def _is_chosen(self, full_name: str, own_tags: Collection[str]) -> bool:
        if not self.tags:
            return True
        given = {*own_tags}
        for pattern, tags in self.paths.items():
            if matches(full_name, pattern):
                given.update(tags)
        return not given.isdisjoint(self.tags)

    def _resolved(self, schema: Any) -> Any:
        if isinstance(schema, str):
            return self.named.get(schema, {"type": schema})
        return schema

    def _branch_name(self, branch: Any) -> str:
        branch = self._resolved(branch)
        kind: str = branch["type"]
        return branch["name"] if kind in _NAMED else kind


def matches(full_name: str, pattern: str) -> bool:
    """Whether a name fits: `?` is a character and `*` some characters of a part, `**` those of several."""
    pattern = pattern.replace("**.*", "**")
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    words = {"**": ".*", "*": "[^.]*", "?": "[^.]"}
    return re.fullmatch("".join(words.get(part) or re.escape(part) for part in parts), full_name) is not None
