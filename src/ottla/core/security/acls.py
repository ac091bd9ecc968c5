"""ACLs: resources, patterns, operations, and filters over them, with the numbers of Kafka's ACL protocol.

Numbers that are not known (of a newer Kafka) count as UNKNOWN: such an ACL is kept and matches nothing.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


class _Numbered(enum.IntEnum):
    @classmethod
    def _missing_(cls, value: object) -> _Numbered | None:
        return cls(0) if isinstance(value, int) else None


class ResourceType(_Numbered):
    """The kinds of resources."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Numbered):
    """How a pattern's name is compared (KIP-290). ANY and MATCH are of filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Numbered):
    """The operations on resources."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


#: The operations that a kind of resource has, as the bit sets that describe requests answer (KIP-430).
OPERATIONS_OF: Final = {
    ResourceType.TOPIC: _bits(
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: _bits(
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: _bits(
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}


class AclPermission(_Numbered):
    """Whether an ACL allows or denies. ANY is of filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One access control entry with the pattern of resources that it is for."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


class AclFilter(NamedTuple):
    """A filter over ACLs; None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def pattern_is_unknown(self) -> bool:
        """Whether the part about resources has a number that is not known."""
        return self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN

    @property
    def entry_is_unknown(self) -> bool:
        """Whether the part about the entry has a number that is not known."""
        return self.operation is AclOperation.UNKNOWN or self.permission is AclPermission.UNKNOWN

    def matches(self, acl: Acl) -> bool:
        """Whether the filter selects this ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        exact = self.pattern_type in (PatternType.ANY, acl.pattern_type)
        if not exact and self.pattern_type is not PatternType.MATCH:
            return False
        if self.resource_name is None:
            return True
        if exact:
            return self.resource_name == acl.resource_name
        match acl.pattern_type:
            case PatternType.LITERAL:
                return acl.resource_name in (self.resource_name, WILDCARD)
            case PatternType.PREFIXED:
                return self.resource_name.startswith(acl.resource_name)
            case _:
                return False
