"""What ACLs cost: metadata of many topics, producers under many ACLs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import product

from bench import clients, secured, secured_client
from bench.clients import Production
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import BATCHED, RECORD_BYTES, UNBATCHED, Scenario, Turn
from bench.secured import NO_TLS, SecuredServer, Security
from ottla.core.security.acls import AclOperation, PatternType
from ottla.protocol.messages.create_acls_request import AclCreation

TOPICS, ACLS_ON_TOPICS = 500, 7_000
OPERATIONS = (AclOperation.READ, AclOperation.WRITE)
REQUESTS, WARMUP_REQUESTS = 100, 100

ACLS = 10_000
IN_FLIGHT = 5
# Kind of production to the records counted, and those of its warm-up.
PRODUCTIONS = {"batched": (1_500_000, 1_000_000), "single": (80_000, 60_000)}
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "batched": {**BATCHED, "acks": "1"},
    "single": {**UNBATCHED, "max.in.flight.requests.per.connection": str(IN_FLIGHT)},
}
PAIRS = 3

A_TENTH = Target(Bound.RATIO_AT_MOST, 0.1)
# A rate that is 5 % less, and one that is 10 % less.
LESS_BY_5_PERCENT = Target(Bound.VALUE_AT_MOST, round(1 / 0.95, 3))
LESS_BY_10_PERCENT = Target(Bound.VALUE_AT_MOST, round(1 / 0.9, 3))


# --- metadata ---------------------------------------------------------------------------------------------


def acls_on_one_prefix(prefix: str) -> list[AclCreation]:
    """ACLS_ON_TOPICS of as many users as it takes, all on one prefix; the measured user has one more."""
    users = range(ACLS_ON_TOPICS // len(OPERATIONS))
    acls = [
        secured.allow(operation, prefix, pattern=PatternType.PREFIXED, user=f"user-{number}")
        for number, operation in product(users, OPERATIONS)
    ]
    return [*acls, secured.allow(AclOperation.DESCRIBE, prefix, pattern=PatternType.PREFIXED)]


def acls_on_each_topic(topics: Sequence[str]) -> list[AclCreation]:
    """As many, with each topic having its share; the measured user has one on each."""
    users = range(ACLS_ON_TOPICS // len(OPERATIONS) // len(topics))
    others = [
        secured.allow(operation, topic, user=f"user-{number}")
        for topic, number, operation in product(topics, users, OPERATIONS)
    ]
    return [*others, *(secured.allow(AclOperation.DESCRIBE, topic) for topic in topics)]


def _metadata(turn: Turn) -> dict[str, float]:
    requests = turn.size(REQUESTS)
    shared = [f"shared-{number}" for number in range(TOPICS)]
    spread = [f"spread-{number}" for number in range(TOPICS)]
    acls = [*acls_on_one_prefix("shared-"), *acls_on_each_topic(spread)]
    with turn.secured_server(Security(acls=acls)) as server:
        for topics in (shared, spread):
            clients.create_topics(server.server, topics)
        (connection,) = secured.connecting_client(server).connect(1, 1)
        figures = {}
        for name, topics in (("spread", spread), ("shared", shared)):
            frame = secured_client.metadata_frame(topics)
            secured_client.wait_for_metadata(connection, frame, len(topics))
            secured_client.median_seconds(connection, frame, WARMUP_REQUESTS)
            figures[f"ms_{name}"] = secured_client.median_seconds(connection, frame, requests) * 1000
        connection.close()
    return figures


# --- producers --------------------------------------------------------------------------------------------


def _cost(turn: Turn) -> dict[str, float]:
    acls = [*secured.acls_of_the_user(), *secured.acls_of_others(ACLS)]
    figures: dict[str, float] = {}
    with (
        turn.secured_server(Security(NO_TLS, authorizer=False), "open") as unguarded,
        turn.secured_server(Security(NO_TLS, acls=acls), "guarded") as guarded,
    ):
        for server in (unguarded, guarded):
            clients.create_topic(server.server)
        for kind in PRODUCTIONS:
            pairs = [(_rate(turn, unguarded, kind), _rate(turn, guarded, kind)) for _ in range(PAIRS)]
            figures[f"times_{kind}"] = statistics.median(without / with_them for without, with_them in pairs)
            figures[f"records_per_second_{kind}"] = statistics.median(rate for _, rate in pairs)
    return figures


def _rate(turn: Turn, server: SecuredServer, kind: str) -> float:
    counted, warmup_records = PRODUCTIONS[kind]
    records = warmup_records + turn.size(counted)
    production = Production(records, warmup_records, RECORD_BYTES, access=server.access)
    run = clients.produce(server.server, PROPERTIES[kind], production)
    turn.note(run.client)
    return run.summary.records_per_second


# --- the table --------------------------------------------------------------------------------------------

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "metadata-under-acls",
        f"Metadata v8 of {TOPICS} topics by name, one request after the other on one connection of SASL_SSL: "
        f"the median of {REQUESTS} after {WARMUP_REQUESTS} of warm-up, by bench/secured_client.py, which "
        "reads nothing of the answer but its size. On one broker with the StandardAuthorizer: topics of one "
        f"prefix on which other users have {ACLS_ON_TOPICS:,} ACLs, as in KAFKA-20667; and topics that share "
        "as many among them, each by its name.",
        (
            Measure("ms_shared", f"{ACLS_ON_TOPICS:,} ACLs on the topics' prefix", "ms a request", A_TENTH),
            Measure("ms_spread", f"{ACLS_ON_TOPICS:,} ACLs, each on one topic", "ms a request"),
        ),
        _metadata,
    ),
    Scenario(
        "acl-cost",
        "Two brokers of the same side at a time, one with the StandardAuthorizer, the user's ACLs and "
        f"{ACLS:,} of others, one without an authorizer; SASL_PLAINTEXT. Java's ProducerPerformance, "
        "100-byte records, 1 partition, acks=1, on one broker and then on the other, "
        f"{PAIRS} times in turns: the median of the ratios of neighbours. "
        + "; ".join(
            f"{kind}: {counted:,} records after {warmup:,} of warm-up"
            for kind, (counted, warmup) in PRODUCTIONS.items()
        )
        + f". Batched is batch.size=16384 and linger.ms=5, single is one record a request, {IN_FLIGHT} in "
        "flight.",
        (
            Measure("times_batched", "rate without ACLs over that with, batched", "x", LESS_BY_5_PERCENT),
            Measure("times_single", "rate without ACLs over that with, single", "x", LESS_BY_10_PERCENT),
            Measure("records_per_second_batched", "records with ACLs, batched", "records/s"),
            Measure("records_per_second_single", "records with ACLs, single", "records/s"),
        ),
        _cost,
    ),
)
