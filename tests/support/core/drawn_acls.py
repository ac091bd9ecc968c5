"""ACLs and requests drawn at random, from few names so that patterns, principals and hosts meet often."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.core.security.acls import (
    Acl,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ottla.core.security.authorizer import Authorizer

TYPES = tuple(kind for kind in ResourceType if kind > ResourceType.ANY)
OPERATIONS = tuple(operation for operation in AclOperation if operation >= AclOperation.ALL)
PRINCIPALS = ("User:alice", "User:bob", "User:*", "User:CN=a,O=b:c", "Group:alice", "User:")
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
NAMES = (
    "orders",
    "order",
    "orders-eu",
    "o",
    "payments",
    "kafka-cluster",
    "hardcode",
    "hard",
    "*",
    "or",
    "p",
    "ordersö",
)


@dataclass(frozen=True, slots=True)
class Request:
    """A question to an authorizer; without a name it is one about any resource of the type."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The settings of an authorizer and its ACLs."""

    super_users: tuple[str, ...]
    allow_if_no_acl: bool
    acls: tuple[Acl, ...]

    def authorizer(self) -> Authorizer:
        made = Authorizer(self.super_users, allow_if_no_acl=self.allow_if_no_acl)
        for number, acl in enumerate(self.acls):
            made.add(uuid.UUID(int=number), acl)
        return made


def draw_acl(rng: random.Random, types: Sequence[ResourceType]) -> Acl:
    return Acl(
        rng.choice(types),
        rng.choice(NAMES),
        rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        rng.choice(PRINCIPALS),
        rng.choice(("*", *HOSTS)),
        rng.choice(OPERATIONS),
        rng.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
    )


def draw_cluster(rng: random.Random) -> Cluster:
    types = rng.sample(TYPES, rng.randint(1, 3))
    count = rng.choice((0, 1, 2, 3, 5, 8, 20, 60))
    acls = tuple(dict.fromkeys(draw_acl(rng, types) for _ in range(count)))  # Kafka takes each once
    supers = tuple(rng.sample(PRINCIPALS, rng.choice((0, 0, 1))))
    return Cluster(supers, rng.random() < 0.5, acls)


def draw_request(rng: random.Random, cluster: Cluster) -> Request:
    """Mostly about resources that the ACLs name."""
    acl = rng.choice(cluster.acls) if cluster.acls and rng.random() < 0.9 else draw_acl(rng, TYPES)
    # Kafka passes over the wildcard for names that begin with an asterisk.
    longer = acl.resource_name.replace("*", "any") + "-x"
    name: str | None = rng.choice((acl.resource_name, longer, rng.choice(NAMES)))
    return Request(
        # Kafka fails for a user whose name is the wildcard.
        rng.choice((acl.principal, *PRINCIPALS)).replace("User:*", "User:bob"),
        rng.choice((acl.host, *HOSTS[1:])).replace("*", HOSTS[1]),
        rng.choice(
            (*OPERATIONS[1:], acl.operation if acl.operation > AclOperation.ALL else AclOperation.READ)
        ),
        acl.resource_type,
        None if rng.random() < 0.3 else name,
    )


def decision(authorizer: Authorizer, request: Request) -> bool:
    if request.name is None:
        return authorizer.authorize_by_resource_type(
            request.principal, request.host, request.operation, request.resource_type
        )
    return authorizer.authorize(
        request.principal, request.host, request.operation, request.resource_type, request.name
    )
