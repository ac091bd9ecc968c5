"""A type's description in JSON, as ksqlDB gives it."""

from __future__ import annotations

from typing import Any

from ottla.sql.types.sql_types import Base, SqlType


def schema_json(of: SqlType) -> dict[str, Any]:
    """A type as ksqlDB describes it."""
    fields: list[dict[str, Any]] | None = None
    member: dict[str, Any] | None = None
    found: dict[str, Any] = {"type": of.base.value}
    match of.base:
        case Base.STRUCT:
            fields = [{"name": name, "schema": schema_json(each)} for name, each in of.fields]
        case Base.ARRAY:
            member = schema_json(of.elements[0])
        case Base.MAP:
            member = schema_json(of.elements[1])
        case Base.DECIMAL:
            found["parameters"] = {"precision": of.precision, "scale": of.scale}
    return {**found, "fields": fields, "memberSchema": member}
