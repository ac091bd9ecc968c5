"""A schema's texts: canonical (as of Java's Schema.toString), normalized, or with references inlined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.schemas.avro.json_text import MAX_DEPTH, write_json, write_string
from ottla.schemas.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    NamedType,
    Primitive,
    Properties,
    Record,
    Union,
)
from ottla.schemas.format import InvalidSchema


def canonical_text(root: AvroType, known: Iterable[str] = ()) -> str:
    """The schema without spaces; types whose full names are in `known` are named, others defined.

    Raises InvalidSchema if the text is nested deeper than a schema may be, as `normalized_text` does.
    """
    return _Writer(set(known), normal=False).write(root, "")


def normalized_text(root: AvroType, known: Iterable[str] = ()) -> str:
    """The same text for all schemas of the same meaning: with full names, sorted properties and aliases."""
    return _Writer(set(known), normal=True).write(root, "")


@dataclass(slots=True)
class _Writer:
    known: set[str]
    normal: bool
    depth: int = 0

    def write(self, kind: AvroType, namespace: str) -> str:
        """The text of a type inside of `namespace`."""
        levels = 3 if isinstance(kind, Record) else 1
        self.depth += levels
        # Types that were defined side by side, and references, may be nested in this text.
        if self.depth > MAX_DEPTH:
            raise InvalidSchema(
                f"the schema is nested more than {MAX_DEPTH} deep once its types are in place"
            )
        text = self._text(kind, namespace)
        self.depth -= levels
        return text

    def _text(self, kind: AvroType, namespace: str) -> str:
        match kind:
            case Primitive():
                name = write_string(kind.kind)
                if not kind.properties:
                    return name
                return "{" + f'"type":{name}{self._properties(kind.properties)}' + "}"
            case Array():
                items = self.write(kind.items, namespace)
                return "{" + f'"type":"array","items":{items}{self._properties(kind.properties)}' + "}"
            case Map():
                values = self.write(kind.values, namespace)
                return "{" + f'"type":"map","values":{values}{self._properties(kind.properties)}' + "}"
            case Union():
                return "[" + ",".join(self.write(branch, namespace) for branch in kind.branches) + "]"
            case Record() | Enum() | Fixed():
                if kind.full_name in self.known:
                    return write_string(kind.full_name if self.normal else kind.name.within(namespace))
                self.known.add(kind.full_name)
                return "{" + self._definition(kind, namespace) + "}"

    def _definition(self, kind: NamedType, namespace: str) -> str:
        word = "error" if isinstance(kind, Record) and kind.is_error else kind.kind
        parts = [f'"type":"{word}"', *self._name(kind.name, namespace)]
        if kind.doc is not None:
            parts.append(f'"doc":{write_string(kind.doc)}')
        match kind:
            case Record():
                fields = ",".join(self._field(field, kind.name.namespace) for field in kind.fields)
                parts.append(f'"fields":[{fields}]')
            case Enum():
                parts.append(f'"symbols":{write_json(kind.symbols)}')
                if kind.default is not None:
                    parts.append(f'"default":{write_string(kind.default)}')
            case Fixed():
                parts.append(f'"size":{kind.size}')
        text = ",".join(parts) + self._properties(kind.properties)
        if kind.aliases and self.normal:
            text += f',"aliases":{write_json(sorted(_findable(alias, kind.name) for alias in kind.aliases))}'
        elif kind.aliases:
            text += f',"aliases":{write_json([alias.within(kind.name.namespace) for alias in kind.aliases])}'
        return text

    def _name(self, name: Name, namespace: str) -> list[str]:
        if self.normal:
            # A full name without a dot would be taken into the enclosing namespace.
            unnamed = ['"namespace":""'] if not name.namespace and namespace else []
            return [f'"name":{write_string(name.full)}', *unnamed]
        written = [f'"name":{write_string(name.name)}']
        if name.namespace != namespace:
            written.append(f'"namespace":{write_string(name.namespace)}')
        return written

    def _field(self, field: Field, namespace: str) -> str:
        parts = [f'"name":{write_string(field.name)}', f'"type":{self.write(field.type, namespace)}']
        if field.doc is not None:
            parts.append(f'"doc":{write_string(field.doc)}')
        if field.has_default:
            parts.append(f'"default":{write_json(field.default, sort_keys=self.normal)}')
        if field.order != "ascending":
            parts.append(f'"order":"{field.order}"')
        if field.aliases:
            aliases = sorted(field.aliases) if self.normal else field.aliases
            parts.append(f'"aliases":{write_json(aliases)}')
        return "{" + ",".join(parts) + self._properties(field.properties) + "}"

    def _properties(self, properties: Properties) -> str:
        names = sorted(properties) if self.normal else properties
        return "".join(
            f",{write_string(name)}:{write_json(properties[name], sort_keys=self.normal)}" for name in names
        )


def _findable(alias: Name, name: Name) -> str:
    """The full alias, as parsing finds it again: an alias without a namespace keeps a dot before it."""
    return f".{alias.name}" if not alias.namespace and name.namespace else alias.full
