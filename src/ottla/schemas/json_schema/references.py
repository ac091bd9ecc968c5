"""Where `$ref` leads: within the document and to the schemas that it was registered with, never elsewhere.

A reference's name is the URI, absolute or relative, that the schema uses. A `$ref` that is relative to an
`$id` becomes absolute, so that a name also stands for URIs that end with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from attrs import evolve
from jsonschema_specifications import REGISTRY as SPECIFICATIONS  # type: ignore[import-untyped]  # has no types
from referencing import Registry, Resource

from ottla.schemas.format import InvalidSchema
from ottla.schemas.json_schema.dialects import Dialect, dialect_of, shortened
from ottla.schemas.json_schema.documents import write_json

MAX_CHARACTERS: Final = 8 << 20
"""Of all that a schema refers to; a document counts for each URI that it is asked for by, names apart."""
_REFERRING: Final = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True)
class Graph:
    """Where the subschemas of a document lead to.

    The keys are `id()`s of the schemas' dicts: valid as long as the documents live.
    """

    targets: Mapping[int, tuple[object, ...]]
    """Of a schema with references: the schemas that they mean."""
    dialects: Mapping[int, Dialect]
    """Of each subschema: the draft that it is written in."""


def resolved(root: Any, dialect: Dialect, documents: Mapping[str, Any]) -> tuple[Graph, Registry[Any]]:
    """All that is reachable from `root`, which may refer to `documents` by their names.

    And a registry that has all of it, `root` under its own id. Raises InvalidSchema where a reference leads
    nowhere, and where looking schemas up takes too long.
    """
    resource = dialect.specification.create_resource(root)
    uri = resource.id() or ""
    lookups = _Lookups(_registry_of(documents, dialect).with_resource(uri, resource))
    return _graph_of(root, dialect, lookups, lookups.registry.resolver(uri)), lookups.registry


class _Lookups:
    """Looks references up, and keeps what was found out on the way: else each looks through all again."""

    def __init__(self, registry: Registry[Any]) -> None:
        try:
            self.registry = registry.crawl()
        except Exception:  # an odd `$id` somewhere: told where a reference needs it
            self.registry = registry

    def look_up(self, resolver: Any, reference: str) -> Any:
        try:
            found = evolve(resolver, registry=self.registry).lookup(reference)
        except Exception as problem:  # the library lets other errors than its own through for odd URIs
            cause = problem.__cause__
            reason = str(cause) if isinstance(cause, _TooMuch) else type(problem).__name__
            raise InvalidSchema(
                f"the reference '{shortened(reference)}' can't be resolved ({reason})"
            ) from None
        self.registry = found.resolver._registry
        return found


class _TooMuch(Exception):
    """Documents are asked for under too many URIs."""


def _registry_of(documents: Mapping[str, Any], default: Dialect) -> Registry[Any]:
    """A registry that knows `documents` by their names, and the drafts' meta-schemas."""
    resources = {
        name: dialect_of(document, default).specification.create_resource(document)
        for name, document in documents.items()
    }
    left = MAX_CHARACTERS

    def retrieve(uri: str) -> Resource[Any]:
        nonlocal left
        ending = [name for name in resources if uri.endswith("/" + name.removeprefix("./"))]
        if not ending:
            raise LookupError(uri)
        name = max(ending, key=len)
        left -= len(write_json(documents[name]))
        if left < 0:
            raise _TooMuch("the schemas that it refers to are asked for under too many URIs")
        return resources[name]

    # A name that is no URI can't be told to the registry's own crawl: it stays behind `retrieve`.
    known = Registry(retrieve=retrieve).with_resources(resources.items())  # type: ignore[call-arg]
    named = [(uri, resource) for resource in resources.values() if (uri := _id_of(resource))]
    combined: Registry[Any] = SPECIFICATIONS.combine(known.with_resources(named))
    return combined


def _graph_of(root: Any, dialect: Dialect, lookups: _Lookups, resolver: Any) -> Graph:
    pending: list[tuple[Any, Dialect, Any]] = [(root, dialect, resolver)]
    targets: dict[int, tuple[object, ...]] = {}
    dialects: dict[int, Dialect] = {}
    while pending:
        schema, inherited, resolver = pending.pop()
        if not isinstance(schema, dict) or id(schema) in dialects:
            continue
        own = dialect_of(schema, inherited)
        dialects[id(schema)] = own
        for keyword, reference in _references(schema, own):
            found = lookups.look_up(resolver, reference)
            if not isinstance(found.contents, (dict, bool)):
                raise InvalidSchema(
                    f"{keyword} '{shortened(reference)}' leads to something that is no schema"
                )
            targets[id(schema)] = (*targets.get(id(schema), ()), found.contents)
            pending.append((found.contents, own, found.resolver))
        for below in _subschemas(schema, own):
            inner = dialect_of(below, own).specification.create_resource(below)
            pending.append((below, own, resolver.in_subresource(inner)))
    return Graph(targets, dialects)


def _references(schema: Mapping[str, Any], dialect: Dialect) -> Iterator[tuple[str, str]]:
    for keyword in _REFERRING:
        if keyword in dialect.keywords and isinstance(reference := schema.get(keyword), str):
            yield keyword, reference


def _subschemas(schema: dict[str, Any], dialect: Dialect) -> list[Any]:
    if dialect.ref_hides_siblings and "$ref" in schema:
        # Definitions beside a `$ref` are still there to be pointed at.
        schema = {name: value for name, value in schema.items() if name in ("definitions", "$defs")}
    return list(dialect.specification.subresources_of(schema))


def _id_of(resource: Resource[Any]) -> str | None:
    try:
        return resource.id()
    except Exception:  # an `$id` that is no text: the meta-schema says so where it matters
        return None
