"""The words of `ottla acl`: options that name resources, principals, operations, and the ACLs they mean."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import click

from ottla.client.admin.acls import (
    ANY_HOST,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.config.errors import UsageError

OPERATIONS: Final = {each.word: each for each in Operation if each > Operation.ANY}
_RESOURCE_OPTIONS: Final = (
    ("--topic", "topics", ResourceType.TOPIC, "A topic."),
    ("--group", "groups", ResourceType.GROUP, "A group."),
    ("--transactional-id", "transactional_ids", ResourceType.TRANSACTIONAL_ID, "A transactional id."),
    ("--delegation-token", "tokens", ResourceType.DELEGATION_TOKEN, "A delegation token."),
    ("--user-principal", "users", ResourceType.USER, "A principal whose tokens are made or described."),
)

#: The operations on each kind of resource that a client of Kafka needs, as kafka-acls.sh gives them.
_PRODUCER: Final = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMER: Final = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}


class Named(NamedTuple):
    """A resource that the command line names."""

    type: ResourceType
    name: str


def resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name resources; the command gets them as `named` gathers them."""
    for option, name, _, text in reversed(_RESOURCE_OPTIONS):
        words = f"{text} '*' stands for all. May be repeated."
        function = click.option(option, name, multiple=True, metavar="NAME", help=words)(function)
    return click.option("--cluster", is_flag=True, help="The cluster as a whole.")(function)


def named(given: dict[str, Any]) -> list[Named]:
    """The resources of the options, which are taken out of `given`."""
    found = [
        Named(kind, name)
        for _, option, kind, _ in _RESOURCE_OPTIONS
        for name in dict.fromkeys(given.pop(option))
    ]
    return [*found, Named(ResourceType.CLUSTER, CLUSTER_NAME)] if given.pop("cluster") else found


def principal_of(word: str) -> str:
    """A principal: `User:alice` as it is, `alice` as a user's name. Raises UsageError."""
    if not word:
        raise UsageError("a principal can't be empty")
    return word if ":" in word else f"User:{word}"


def created_acls(
    resources: Sequence[Named],
    principals: Sequence[str],
    hosts: Sequence[str],
    operations: Sequence[Operation],
    *,
    prefixed: bool,
    deny: bool,
) -> list[Acl]:
    """An ACL for each combination."""
    permission = Permission.DENY if deny else Permission.ALLOW
    return [
        _acl(resource, principal, host, operation, prefixed, permission)
        for resource, principal, host, operation in itertools.product(
            resources, map(principal_of, principals), hosts or (ANY_HOST,), operations
        )
    ]


def client_acls(
    resources: Sequence[Named],
    principals: Sequence[str],
    hosts: Sequence[str],
    *,
    producer: bool,
    consumer: bool,
    idempotent: bool,
    prefixed: bool,
) -> list[Acl]:
    """The ACLs that a producer or consumer of the resources needs. Raises UsageError."""
    kinds = {resource.type for resource in resources}
    tables = [*([_PRODUCER] if producer else []), *([_CONSUMER] if consumer else [])]
    if ResourceType.TOPIC not in kinds:
        raise UsageError("give the topics that the client is for: --topic")
    if consumer and ResourceType.GROUP not in kinds:
        raise UsageError("a consumer needs its groups too: --group")
    strange = kinds - {kind for table in tables for kind in table}
    if strange:
        raise UsageError(f"--{min(strange).word} is not for this kind of client")
    places = itertools.product(map(principal_of, principals), hosts or (ANY_HOST,))
    return [
        acl
        for principal, host in places
        for acl in _of_client(resources, tables, principal, host, prefixed=prefixed, idempotent=idempotent)
    ]


def _of_client(
    resources: Sequence[Named],
    tables: Sequence[dict[ResourceType, tuple[Operation, ...]]],
    principal: str,
    host: str,
    *,
    prefixed: bool,
    idempotent: bool,
) -> Iterator[Acl]:
    for table in tables:
        for resource in resources:
            for operation in table.get(resource.type, ()):
                yield _acl(resource, principal, host, operation, prefixed, Permission.ALLOW)
    if idempotent:
        cluster = Named(ResourceType.CLUSTER, CLUSTER_NAME)
        yield _acl(cluster, principal, host, Operation.IDEMPOTENT_WRITE, False, Permission.ALLOW)


def _acl(
    resource: Named,
    principal: str,
    host: str,
    operation: Operation,
    prefixed: bool,
    permission: Permission,
) -> Acl:
    by_prefix = prefixed and resource.type is not ResourceType.CLUSTER
    pattern = PatternType.PREFIXED if by_prefix else PatternType.LITERAL
    return Acl(resource.type, resource.name, pattern, principal, host, operation, permission)


def filters_of(
    resources: Sequence[Named],
    principals: Sequence[str],
    hosts: Sequence[str],
    operations: Sequence[str],
    *,
    pattern: str | None,
    permission: str | None,
) -> list[AclFilter]:
    """A filter for each combination; what is not given selects all."""
    wanted = PatternType[pattern.upper()] if pattern else PatternType.ANY
    return [
        AclFilter(
            resource.type if resource is not None else ResourceType.ANY,
            resource.name if resource is not None else None,
            wanted,
            principal_of(principal) if principal is not None else None,
            host,
            OPERATIONS[operation] if operation is not None else Operation.ANY,
            Permission[permission.upper()] if permission else Permission.ANY,
        )
        for resource, principal, host, operation in itertools.product(
            resources or (None,), principals or (None,), hosts or (None,), operations or (None,)
        )
    ]


def acl_row(acl: Acl) -> dict[str, Any]:
    """An ACL for output."""
    return {
        "resource_type": acl.resource_type.word,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.word,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.word,
        "permission": acl.permission.word,
    }
