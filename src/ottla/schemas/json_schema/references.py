"""Resolves `$ref`: within the document, and to the schemas it was registered with, never elsewhere.

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
"""The most characters of all documents that a schema refers to.

A document counts once for each URI by which it is looked up, except by its name.
"""
_REFERRING: Final = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True)
class Graph:
    """The targets of the references in a document.

    The keys are `id()`s of the schemas' dicts: valid as long as the documents live.
    """

    targets: Mapping[int, tuple[object, ...]]
    """For each schema with references: the schemas to which they lead."""
    dialects: Mapping[int, Dialect]
    """For each subschema: the draft in which it is written."""


def resolved(root: Any, dialect: Dialect, documents: Mapping[str, Any]) -> tuple[Graph, Registry[Any]]:
    """The graph of all schemas reachable from `root`, which may refer to `documents` by their names.

    The second result is a registry with all of them, `root` under its own id. Raises InvalidSchema if a
    reference leads nowhere, or if looking up schemas takes too long.
    """
    resource = dialect.specification.create_resource(root)
    uri = resource.id() or ""
    lookups = _Lookups(_registry_of(documents, dialect).with_resource(uri, resource))
    return _graph_of(root, dialect, lookups, lookups.registry.resolver(uri)), lookups.registry


class _Lookups:
    """Looks up references, and keeps the crawled registry: otherwise each lookup would crawl it again."""

    def __init__(self, registry: Registry[Any]) -> None:
        try:
            self.registry = registry.crawl()
        except Exception:  # an invalid `$id` somewhere: reported when a reference needs it
            self.registry = registry

    def look_up(self, resolver: Any, reference: str) -> Any:
        try:
            found = evolve(resolver, registry=self.registry).lookup(reference)
        except Exception as problem:  # for invalid URIs, the library raises other errors than its own
            cause = problem.__cause__
            reason = str(cause) if isinstance(cause, _TooMuch) else type(problem).__name__
            raise InvalidSchema(
                f"the reference '{shortened(reference)}' can't be resolved ({reason})"
            ) from None
        self.registry = found.resolver._registry
        return found


class _TooMuch(Exception):
    """Documents are looked up under too many URIs."""


def _registry_of(documents: Mapping[str, Any], default: Dialect) -> Registry[Any]:
    """A registry with `documents` under their names, and with the drafts' meta-schemas."""
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

    # The registry's crawl fails for a name that is not a URI: such a document is left to `retrieve`.
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
        # References may still lead to definitions beside a `$ref`.
        schema = {name: value for name, value in schema.items() if name in ("definitions", "$defs")}
    return list(dialect.specification.subresources_of(schema))


def _id_of(resource: Resource[Any]) -> str | None:
    try:
        return resource.id()
    except Exception:  # an `$id` that is not a text: the meta-schema's check reports it
        return None
