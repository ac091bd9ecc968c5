"""Tags of a schema's records and fields, as requests and answers name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.registry.core.failures import invalid_schema
from ottla.schemas.model import Metadata, RuleSet

RECORD: Final = "sr_record"
FIELD: Final = "sr_field"


class Entity(NamedTuple):
    """A record or field of a schema."""

    path: str
    type: str

    def as_json(self) -> dict[str, str]:
        return {"entityPath": self.path, "entityType": self.type}


@dataclass(frozen=True, slots=True)
class EntityTags:
    """Tags of one entity, in the order in which they were given."""

    entity: Entity
    tags: tuple[str, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EntityTags:
        """Raises ApiError 42201."""
        match value:
            case {"schemaEntity": {"entityPath": str(path), "entityType": str(kind)}, "tags": [*tags]} if (
                kind.lower() in (RECORD, FIELD) and all(isinstance(tag, str) for tag in tags)
            ):
                return cls(Entity(path.removeprefix("."), kind.lower()), tuple(tags))
        raise invalid_schema(
            f"tags need a schemaEntity with an entityPath and an entityType ({RECORD} or {FIELD}), and tags, "
            "which are texts"
        )

    def as_json(self) -> dict[str, Any]:
        return {"schemaEntity": self.entity.as_json(), "tags": list(self.tags)}


class TagChanges(NamedTuple):
    """Tags to add to entities, and then tags to remove."""

    added: Sequence[EntityTags] = ()
    removed: Sequence[EntityTags] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def of(self, entity: Entity, tags: Iterable[str]) -> list[str]:
        """The tags of the entity after these changes, which had `tags`."""
        gone = {tag for each in self.removed if each.entity == entity for tag in each.tags}
        more = [tag for each in self.added if each.entity == entity for tag in each.tags]
        return [tag for tag in dict.fromkeys((*tags, *more)) if tag not in gone]

    def entities(self) -> list[Entity]:
        """The entities that change, each once."""
        return list(dict.fromkeys(each.entity for each in (*self.added, *self.removed)))


NO_CHANGES: Final = TagChanges()


class Place(NamedTuple):
    """An entity's tags in the text: as they are, and the function that puts others in their place."""

    tags: Sequence[str]
    put: Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class TagRequest:
    """A new version of a schema with other tags, and maybe with other metadata and rules.

    version: the number of the new version, None for the next one. rules_to_merge are laid over the rules of
    the version before, and those with the names of `rules_to_remove` taken away; `rule_set` replaces them.
    """

    tags: TagChanges = NO_CHANGES
    version: int | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    rules_to_merge: RuleSet | None = None
    rules_to_remove: tuple[str, ...] | None = None
