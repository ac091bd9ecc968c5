"""Decides what a principal may do, by ACLs, as Apache Kafka's StandardAuthorizer decides.

The rules: super users may do everything. An ACL that denies wins over all that allow. An ACL of any principal
and operation whose pattern matches the resource switches off `allow.everyone.if.no.acl.found`. READ, WRITE,
DELETE and ALTER imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS, when they are allowed; a denial
implies nothing. The wildcard stands for every name: Kafka passes over it for names that begin with an
asterisk and go on.

Theory of operation. Kafka walks over all ACLs of each pattern that matches, so thousands of principals with
ACLs on one pattern make every request slow. Here the way goes from the resource's type to the pattern, from
there to the principal (or `User:*`), and to one pair of bit sets a host. Prefixes are found by looking the
name up cut to each length that a prefix of the type has. The operations that are allowed on a resource are
one bit set, so the describe requests that ask for all operations cost the same as one decision; the last sets
are kept in a bounded cache, which every change of an ACL empties.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from ottla.core.security.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

#: Entries of each of the cache's two generations: some 10 MB with names of usual length.
CACHED_SETS: Final = 20_000
#: Longer names are decided each time: a client could fill the cache with group names of 32 KiB.
LONGEST_CACHED_NAME: Final = 256
#: The name that `authorizeByResourceType` asks for first, as in Kafka: it tells super users and `*` from
#: others.
_ANY_NAME: Final = "hardcode"

_OPERATIONS: Final = tuple(operation for operation in AclOperation if operation > AclOperation.ALL)
ALL_OPERATIONS: Final = sum(1 << operation for operation in _OPERATIONS)
_ALL: Final = 1 << AclOperation.ALL
#: operation -> the others whose permission is one for it too.
_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
_IMPLYING: Final = {
    operation: sum(1 << each for each in operations) for operation, operations in _IMPLIED_BY.items()
}

_Pattern = tuple[ResourceType, PatternType, str]
#: host -> permission -> how many ACLs there are of each operation (the same ACL may be there under two ids)
_Counts = dict[tuple[AclPermission, AclOperation], int]


@dataclass(slots=True)
class _Grants:
    """The operations that one principal is allowed and denied on one pattern from one host."""

    allowed: int = 0
    denied: int = 0
    counts: _Counts = field(default_factory=dict)

    def change(self, permission: AclPermission, operation: AclOperation, by: int) -> bool:
        """Count an ACL in or out; whether there are any left."""
        key = (permission, operation)
        count = self.counts.get(key, 0) + by
        if count > 0:
            self.counts[key] = count
        else:
            self.counts.pop(key, None)
        self.allowed = _bits(self.counts, AclPermission.ALLOW)
        self.denied = _bits(self.counts, AclPermission.DENY)
        return bool(self.counts)


def _bits(counts: _Counts, permission: AclPermission) -> int:
    return sum(1 << operation for kind, operation in counts if kind is permission)


_ByHost = dict[str, _Grants]


class Authorizer:
    """The ACLs of a cluster, and the decisions by them. Changed only as the metadata changes."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        """super_users: principals as texts. allow_if_no_acl: `allow.everyone.if.no.acl.found`."""
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._acls: dict[UUID, Acl] = {}
        self._patterns: dict[_Pattern, dict[str, _ByHost]] = {}
        #: The same grants by type and principal, for questions about any resource of a type.
        self._principals: dict[tuple[ResourceType, str], dict[_Pattern, _ByHost]] = {}
        #: type -> the lengths of its prefixes, in order, and how many prefixes have each
        self._prefix_lengths: dict[ResourceType, list[int]] = {}
        self._prefixes_of_length: dict[tuple[ResourceType, int], int] = {}
        self._recent: dict[tuple[str, str, ResourceType, str], int] = {}
        self._older: dict[tuple[str, str, ResourceType, str], int] = {}

    def __len__(self) -> int:
        return len(self._acls)

    # -- changes ----------------------------------------------------------------------------------------

    def add(self, acl_id: UUID, acl: Acl) -> None:
        """Add an ACL, in place of the one that had its id."""
        self.remove(acl_id)
        self._acls[acl_id] = acl
        self._count(acl, 1)

    def remove(self, acl_id: UUID) -> None:
        """Remove an ACL; one that is not there is passed over."""
        acl = self._acls.pop(acl_id, None)
        if acl is not None:
            self._count(acl, -1)

    def _count(self, acl: Acl, by: int) -> None:
        self._recent, self._older = {}, {}
        pattern: _Pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
        by_principal = self._patterns.get(pattern)
        if by_principal is None:
            by_principal = self._patterns[pattern] = {}
            self._count_prefix(acl, 1)
        by_host = by_principal.get(acl.principal)
        if by_host is None:
            by_host = by_principal[acl.principal] = {}
            self._principals.setdefault((acl.resource_type, acl.principal), {})[pattern] = by_host
        grants = by_host.setdefault(acl.host, _Grants())
        if grants.change(acl.permission, acl.operation, by):
            return
        del by_host[acl.host]
        if not by_host:
            del by_principal[acl.principal]
            of_principal = self._principals[(acl.resource_type, acl.principal)]
            del of_principal[pattern]
            if not of_principal:
                del self._principals[(acl.resource_type, acl.principal)]
        if not by_principal:
            del self._patterns[pattern]
            self._count_prefix(acl, -1)

    def _count_prefix(self, acl: Acl, by: int) -> None:
        if acl.pattern_type is not PatternType.PREFIXED:
            return
        lengths = self._prefix_lengths.setdefault(acl.resource_type, [])
        key = (acl.resource_type, len(acl.resource_name))
        before = self._prefixes_of_length.get(key, 0)
        if before == 0:
            insort(lengths, key[1])
        if before + by:
            self._prefixes_of_length[key] = before + by
        else:
            del self._prefixes_of_length[key]
            lengths.remove(key[1])

    # -- decisions --------------------------------------------------------------------------------------

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the principal may do the operation on the resource from that host (a numeric address)."""
        return bool(self.allowed_operations(principal, host, resource_type, name) >> operation & 1)

    def allowed_operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The operations that the principal may do on the resource, as bits by their numbers."""
        if len(name) > LONGEST_CACHED_NAME:
            return self._decide(principal, host, resource_type, name)
        key = (principal, host, resource_type, name)
        found = self._recent.get(key)
        if found is None:
            found = self._older.get(key)
            if found is None:
                found = self._decide(principal, host, resource_type, name)
            if len(self._recent) >= CACHED_SETS:
                self._recent, self._older = {}, self._recent
            self._recent[key] = found
        return found

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether the principal may do the operation on some resource of the type (KIP-679).

        Implied operations do not count here, but for the literal name that Kafka asks for first.
        """
        if self.authorize(principal, host, operation, resource_type, _ANY_NAME):
            return True
        allowed: list[_Pattern] = []
        denied: set[_Pattern] = set()
        wanted = 1 << operation | _ALL
        for pattern, grants in self._grants_on_any(principal, host, resource_type):
            if grants.denied & wanted:
                denied.add(pattern)
            if grants.allowed & wanted:
                allowed.append(pattern)
        wildcard: _Pattern = (resource_type, PatternType.LITERAL, WILDCARD)
        if wildcard in denied:
            return False
        return any(pattern == wildcard or not _is_dominated(pattern, denied) for pattern in allowed)

    def matching(self, acl_filter: AclFilter) -> Iterator[Acl]:
        """The ACLs that a filter selects, each once."""
        return (acl for acl in dict.fromkeys(self._acls.values()) if acl_filter.matches(acl))

    def _decide(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        if principal in self._super_users:
            return ALL_OPERATIONS
        allowed = denied = 0
        matched = False
        for by_principal in self._matching_patterns(resource_type, name):
            matched = True
            for grants in _grants(by_principal, principal, host):
                allowed |= grants.allowed
                denied |= grants.denied
        if not matched:
            return ALL_OPERATIONS if self._allow_if_no_acl else 0
        return _permitted(allowed) & ~denied if not denied & _ALL else 0

    def _matching_patterns(self, resource_type: ResourceType, name: str) -> Iterator[dict[str, _ByHost]]:
        patterns = self._patterns
        for literal in {name, WILDCARD}:
            found = patterns.get((resource_type, PatternType.LITERAL, literal))
            if found is not None:
                yield found
        lengths = self._prefix_lengths.get(resource_type)
        if lengths:
            for length in lengths[: bisect_right(lengths, len(name))]:
                found = patterns.get((resource_type, PatternType.PREFIXED, name[:length]))
                if found is not None:
                    yield found

    def _grants_on_any(
        self, principal: str, host: str, resource_type: ResourceType
    ) -> Iterator[tuple[_Pattern, _Grants]]:
        for each in {principal, WILDCARD_PRINCIPAL}:
            for pattern, by_host in self._principals.get((resource_type, each), {}).items():
                for which in {host, WILDCARD}:
                    grants = by_host.get(which)
                    if grants is not None:
                        yield pattern, grants


def _grants(by_principal: dict[str, _ByHost], principal: str, host: str) -> Iterator[_Grants]:
    for each in {principal, WILDCARD_PRINCIPAL}:
        by_host = by_principal.get(each)
        if by_host is not None:
            for which in {host, WILDCARD}:
                grants = by_host.get(which)
                if grants is not None:
                    yield grants


def _permitted(allowed: int) -> int:
    """All operations that ACLs permit, the implied ones among them."""
    if allowed & _ALL:
        return ALL_OPERATIONS
    for operation, implying in _IMPLYING.items():
        if allowed & implying:
            allowed |= 1 << operation
    return allowed & ALL_OPERATIONS


def _is_dominated(pattern: _Pattern, denied: set[_Pattern]) -> bool:
    """Whether denials cover all of an allowed pattern."""
    resource_type, pattern_type, name = pattern
    if pattern_type is PatternType.LITERAL and pattern in denied:
        return True
    return any(
        (resource_type, PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1)
    )
