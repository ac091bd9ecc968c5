"""Shows a message as JSON, with the fields' names and values as Kafka's own JSON converters have them.

Names are in camel case (`committed_offset` is committedOffset), bytes base64, uuids as Kafka writes them.
Left out are the fields that a version lacks, the tagged ones that have their default, and record batches.
"""

from __future__ import annotations

import base64
import functools
import uuid
from typing import TYPE_CHECKING, Any, cast

from ottla.protocol.fields import FRESH, Field
from ottla.protocol.schema import Struct, struct_class

if TYPE_CHECKING:
    from collections.abc import Mapping


def message_json(message: Struct, version: int) -> dict[str, Any]:
    """The fields that `message` has at `version`, ready for `json.dumps`."""
    shown: dict[str, Any] = {}
    for field in struct_class(message).FIELDS:
        if field.kind == "records" or not field.in_version(version):
            continue
        value = getattr(message, field.name)
        if not (field.tagged_in(version) and _is_default(field, value)):
            shown[camel_case(field.name)] = _value(value, version)
    if message.unknown_tagged_fields:
        shown["unknownTaggedFields"] = _unknown(message.unknown_tagged_fields)
    return shown


@functools.cache
def camel_case(name: str) -> str:
    """A field's name as in Kafka's JSON: committed_leader_epoch is committedLeaderEpoch."""
    if name.startswith("kraft_"):
        name = "k_" + name[1:]  # kRaftVersion
    first, *others = name.strip("_").split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)


def _value(value: Any, version: int) -> Any:
    match value:
        case Struct():
            return message_json(value, version)
        case list():
            return [_value(each, version) for each in value]
        case uuid.UUID():
            return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case _:
            return value


def _is_default(field: Field, value: Any) -> bool:
    if field.default is FRESH:
        # an array is empty by default, a struct has the defaults of its own fields
        return not value if field.array else bool(value == cast("type[Struct]", field.kind)())
    return bool(value == field.default)


def _unknown(tagged: Mapping[int, bytes]) -> dict[str, str]:
    return {str(tag): base64.b64encode(content).decode() for tag, content in tagged.items()}
