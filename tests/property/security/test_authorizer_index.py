"""The index decides as a walk over all ACLs would, whatever was added and removed before."""

from __future__ import annotations

import random
import uuid

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.security.acls import WILDCARD, Acl, AclOperation, AclPermission, PatternType
from support.core.drawn_acls import TYPES, Cluster, Request, decision, draw_acl, draw_cluster, draw_request

IMPLIES_DESCRIBE = {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}


def is_of(acl: Acl, name: str) -> bool:
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def permits(acl: Acl, operation: AclOperation) -> bool:
    if acl.operation in (operation, AclOperation.ALL):
        return True
    if acl.permission is not AclPermission.ALLOW:
        return False
    if operation is AclOperation.DESCRIBE:
        return acl.operation in IMPLIES_DESCRIBE
    return operation is AclOperation.DESCRIBE_CONFIGS and acl.operation is AclOperation.ALTER_CONFIGS


def by_the_rules(cluster: Cluster, request: Request) -> bool:
    """A walk over all ACLs."""
    assert request.name is not None
    if request.principal in cluster.super_users:
        return True
    matching = [
        acl for acl in cluster.acls if acl.resource_type is request.resource_type and is_of(acl, request.name)
    ]
    if not matching:
        return cluster.allow_if_no_acl
    verdicts = {
        acl.permission
        for acl in matching
        if acl.principal in (request.principal, "User:*")
        and acl.host in (request.host, WILDCARD)
        and permits(acl, request.operation)
    }
    return verdicts == {AclPermission.ALLOW}


@given(st.integers(0, 2**32))
def test_decisions_are_those_of_a_walk_over_all_acls(seed: int) -> None:
    rng = random.Random(seed)
    cluster = draw_cluster(rng)
    authorizer = cluster.authorizer()
    for number in range(rng.randrange(20)):
        passing = draw_acl(rng, [acl.resource_type for acl in cluster.acls] or TYPES)
        authorizer.add(uuid.UUID(int=1_000_000 + number), passing)
    for number in range(20):
        authorizer.remove(uuid.UUID(int=1_000_000 + number))
    for _ in range(20):
        request = draw_request(rng, cluster)
        if request.name is not None:
            assert decision(authorizer, request) == by_the_rules(cluster, request), (cluster, request)
