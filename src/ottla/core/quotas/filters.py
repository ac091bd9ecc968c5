"""The filter of DescribeClientQuotas (KIP-546): which entities it matches."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from ottla.core.quotas.entities import CLIENT_ID, IP, USER, EntityParts
from ottla.protocol.errors import InvalidRequest, UnsupportedVersion
from ottla.protocol.messages.describe_client_quotas_request import ComponentData

_ANY: Final = object()


class MatchType(enum.IntEnum):
    """How a component of the filter matches a name."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class QuotaFilter:
    """An entity matches if each component does; a strict filter's entities have no other type."""

    __slots__ = ("_strict", "_wanted")

    def __init__(self, components: Iterable[ComponentData], *, strict: bool) -> None:
        """Raises InvalidRequest or UnsupportedVersion for components that make no sense."""
        self._strict = strict
        self._wanted: dict[str, object] = {}
        for component in components:
            kind = component.entity_type
            if not kind:
                raise InvalidRequest("A component of the filter has no entity type")
            if kind in self._wanted:
                raise InvalidRequest(f"The filter has more than one component for {kind}")
            if kind not in (USER, CLIENT_ID, IP):
                raise UnsupportedVersion(f"Quotas have no entity type {kind}")
            self._wanted[kind] = _wanted_name(component)
        if IP in self._wanted and len(self._wanted) > 1:
            raise InvalidRequest("A filter is for ips, or for users and client ids, not for both")

    def matches(self, entity: EntityParts) -> bool:
        """Whether the filter matches an entity."""
        names = dict(entity)
        if self._strict and len(names) != len(self._wanted):
            return False
        return all(
            kind in names and (wanted is _ANY or names[kind] == wanted)
            for kind, wanted in self._wanted.items()
        )


def _wanted_name(component: ComponentData) -> object:
    try:
        match_type = MatchType(component.match_type)
    except ValueError:
        raise InvalidRequest(f"Filters have no match type {component.match_type}") from None
    if (component.match is None) == (match_type is MatchType.EXACT):
        rule = "needs" if match_type is MatchType.EXACT else "has no"
        raise InvalidRequest(f"A component of match type {match_type.name} {rule} a name")
    return _ANY if match_type is MatchType.SPECIFIED else component.match
