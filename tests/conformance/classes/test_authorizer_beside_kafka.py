"""Decisions of the authorizer beside those of Apache Kafka's StandardAuthorizer, for drawn ACLs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from ottla.core.decisions.acl_changes import acl_problem
from ottla.core.security.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from support.clients.named_states import seed_of_this_run
from support.core.drawn_acls import Cluster, Request, decision, draw_acl, draw_cluster, draw_request
from support.java.security_oracle import RefusedByJava, SecurityOracle, security_oracle

pytestmark = pytest.mark.java

CLUSTERS = int(os.environ.get("OTTLA_DRAWN_CLUSTERS", "150"))
REQUESTS = 40


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecurityOracle]:
    with security_oracle() as oracle:
        yield oracle


def line_of(acl: Acl) -> str:
    kinds = (acl.resource_type, acl.pattern_type, acl.operation, acl.permission)
    return "\t".join((*(str(int(kind)) for kind in kinds), acl.resource_name, acl.principal, acl.host))


def loaded(cluster: Cluster) -> tuple[str, ...]:
    lines = "\n".join(map(line_of, cluster.acls))
    return ("acls", ";".join(cluster.super_users), str(cluster.allow_if_no_acl).lower(), lines)


def asked(request: Request) -> tuple[str, ...]:
    operation, kind = str(int(request.operation)), str(int(request.resource_type))
    if request.name is None:
        return ("by-type", request.principal, request.host, operation, kind)
    return ("authorize", request.principal, request.host, operation, kind, request.name)


def test_every_decision_is_kafkas(kafka: SecurityOracle) -> None:
    rng = random.Random(seed_of_this_run())
    verdicts = {"ALLOWED": 0, "DENIED": 0}
    for _ in range(CLUSTERS):
        cluster = draw_cluster(rng)
        requests = [draw_request(rng, cluster) for _ in range(REQUESTS)]
        authorizer = cluster.authorizer()
        answers = kafka.ask_all([loaded(cluster), *map(asked, requests)])[1:]
        for request, told in zip(requests, answers, strict=True):
            assert isinstance(told, str), (told, request, cluster)
            assert decision(authorizer, request) == (told == "ALLOWED"), (told, request, cluster)
            verdicts[told] += 1
    assert min(verdicts.values()) > CLUSTERS * REQUESTS / 10


def test_acls_are_refused_in_kafkas_words(kafka: SecurityOracle) -> None:
    rng = random.Random(seed_of_this_run())
    drawn = [draw_acl(rng, (ResourceType.TOPIC,)) for _ in range(10)]
    for acl in list(drawn):
        drawn += [acl._replace(resource_type=kind) for kind in ResourceType]
        drawn += [acl._replace(pattern_type=kind) for kind in PatternType]
        drawn += [acl._replace(operation=operation) for operation in AclOperation]
        drawn += [acl._replace(permission=permission) for permission in AclPermission]
        drawn += [acl._replace(resource_name=""), acl._replace(principal="alice"), acl._replace(principal="")]
    answers = kafka.ask_all([("validate", line_of(acl), "true") for acl in drawn])
    for acl, told in zip(drawn, answers, strict=True):
        if isinstance(told, RefusedByJava):  # Kafka's own classes can't hold it
            assert "must not be" in str(told) and acl_problem(acl) is not None
        else:
            assert (acl_problem(acl) or "valid") == told, acl
