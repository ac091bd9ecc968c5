"""Clients with quotas: whether one is met, a greedy client's neighbours, the memory of client ids."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench import clients, connection_clients
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import BYTES_PER_MEBIBYTE, RECORD_BYTES, UNBATCHED, Scenario, Turn
from bench.servers import HOST, Server, System
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from support.clients.wire import WireClient, batch, produce_request

GREEDY = "greedy-"
"""What the greedy client's id begins with; its producer is the program's first."""
GREEDY_ID = f"{GREEDY}producer-0"
QUOTA_BYTES = 5_000_000
PRODUCE_QUOTA = "producer_byte_rate"
# Two windows, not eleven: an unused quota may be used later for as long as they reach back, in one burst.
WINDOWS = {"quota.window.num": "2"}
LARGE_RECORD_BYTES = 10_000
GREEDY_IN_FLIGHT = 5
BURST_SECONDS, MEASURED_SECONDS = 5, 30

OTHERS, OTHERS_RATE = 5, 50
OTHERS_TOPIC = "others"
OTHERS_WARMUP_SECONDS, OTHERS_SECONDS = 15, 15

CLIENT_IDS = 100_000
CLIENT_IDS_AT_ONCE = 200
UNREACHED_QUOTA_BYTES = 1e9

WITHIN_10_PERCENT = Target(Bound.VALUE_AT_MOST, 10.0)
AT_MOST_TWICE = Target(Bound.VALUE_AT_MOST, 2.0)
AT_MOST_64_MEBIBYTES = Target(Bound.VALUE_AT_MOST, 64.0)


def set_quota(server: Server, client_id: str | None, bytes_per_second: float | None) -> None:
    """Give a client id (None: every one that has none of its own) a quota, or take it away with None."""
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[OpData(key=PRODUCE_QUOTA, value=bytes_per_second or 0.0, remove=bytes_per_second is None)],
    )
    with WireClient.connect(server.bootstrap) as client:
        for answer in client.call(AlterClientQuotasRequest(entries=[entry])).entries:
            if answer.error_code != ErrorCode.NONE:
                raise BenchError(f"{server.system.title} refused a quota: {answer.error_message}")


@contextmanager
def _greedy(server: Server) -> Iterator[connection_clients.JavaClients]:
    """A producer that sends large records as fast as it may."""
    properties = {"client.id": GREEDY, "acks": "1", "linger.ms": "0", "request.timeout.ms": "60000"}
    with connection_clients.producers(
        server, properties, count=1, partitions=1, record_bytes=LARGE_RECORD_BYTES
    ) as producer:
        yield producer


# --- one client -------------------------------------------------------------------------------------------


def _met(turn: Turn) -> dict[str, float]:
    seconds = turn.size(MEASURED_SECONDS)
    with turn.server(WINDOWS) as server:
        clients.create_topic(server)
        set_quota(server, GREEDY_ID, QUOTA_BYTES)
        with _greedy(server) as greedy:
            greedy.ask(f"load 1 {GREEDY_IN_FLIGHT}")
            greedy.ask(f"run {BURST_SECONDS}", seconds=BURST_SECONDS)
            answer, window = connection_clients.watch(
                server, lambda: greedy.ask(f"measure {seconds}", seconds=seconds)
            )
            turn.other_cpu_shares.append(window.other_cpu_share)
            greedy.ask("stop", seconds=30)
    rate = connection_clients.counted(answer).per_second * LARGE_RECORD_BYTES
    return {
        # Nothing may be divided by a miss of nothing at all.
        "missed_percent": max(0.01, abs(rate / QUOTA_BYTES - 1) * 100),
        "percent_of_quota": rate / QUOTA_BYTES * 100,
    }


# --- its neighbours ---------------------------------------------------------------------------------------


def _neighbours(turn: Turn) -> dict[str, float]:
    seconds = turn.size(OTHERS_SECONDS)
    with turn.server(WINDOWS) as server:
        clients.create_topic(server)
        clients.create_topic(server, topic=OTHERS_TOPIC, partitions=OTHERS)
        properties = {**UNBATCHED, "max.in.flight.requests.per.connection": "5"}
        with connection_clients.producers(
            server,
            properties,
            count=OTHERS,
            partitions=OTHERS,
            record_bytes=RECORD_BYTES,
            rate=OTHERS_RATE,
            topic=OTHERS_TOPIC,
        ) as others:

            def p99_ms() -> float:
                answer, window = connection_clients.watch(
                    server, lambda: others.ask(f"measure {seconds}", seconds=seconds)
                )
                turn.other_cpu_shares.append(window.other_cpu_share)
                return connection_clients.counted(answer).p99_ms

            others.ask(f"load {OTHERS} 0")
            with _greedy(server) as greedy:
                greedy.ask(f"load 1 {GREEDY_IN_FLIGHT}")
                others.ask(f"run {OTHERS_WARMUP_SECONDS}", seconds=OTHERS_WARMUP_SECONDS)
                unlimited = p99_ms()
                set_quota(server, GREEDY_ID, QUOTA_BYTES)
                greedy.ask(f"run {BURST_SECONDS}", seconds=BURST_SECONDS)
                limited = p99_ms()
                greedy.ask("stop", seconds=30)
            alone = p99_ms()
            others.ask("stop")
    return {
        "p99_times": limited / alone,
        "p99_ms_alone": alone,
        "p99_ms_limited": limited,
        "p99_ms_unlimited": unlimited,
    }


# --- names of clients -------------------------------------------------------------------------------------


def _client_ids(turn: Turn) -> dict[str, float]:
    count = turn.size(CLIENT_IDS)
    record = batch(value=bytes(RECORD_BYTES))
    with turn.server() as server:
        clients.create_topic(server)
        set_quota(server, None, UNREACHED_QUOTA_BYTES)
        with socket.create_connection((HOST, server.port)) as connection:
            _write_as(connection, [f"warm-{number % 10}" for number in range(count)], record)
            before = server.resident_bytes()
            _write_as(connection, [f"client-{number}" for number in range(count)], record)
            after = server.resident_bytes()
            _write_as(connection, [f"other-{number}" for number in range(count)], record)
            at_last = server.resident_bytes()
    grown = {
        "mebibytes_first": (after - before) / BYTES_PER_MEBIBYTE,
        "mebibytes_second": (at_last - after) / BYTES_PER_MEBIBYTE,
    }
    return {
        **(grown if turn.system is System.OTTLA else {}),
        "resident_before": before / BYTES_PER_MEBIBYTE,
        "resident_after": at_last / BYTES_PER_MEBIBYTE,
    }


def _write_as(connection: socket.socket, client_ids: Sequence[str], record: bytes) -> None:
    """One produce request as each of these clients, some of them in flight."""
    answers = connection.makefile("rb")
    request = produce_request(clients.TOPIC, 0, record, acks=1)
    for start in range(0, len(client_ids), CLIENT_IDS_AT_ONCE):
        page = client_ids[start : start + CLIENT_IDS_AT_ONCE]
        frames = [encode_request(ApiKey.PRODUCE, 9, 1, client_id, request) for client_id in page]
        connection.sendall(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
        for _ in page:
            size = int.from_bytes(answers.read(4), "big")
            if size == 0 or len(answers.read(size)) != size:
                raise BenchError("closed before the answer")


# --- the table --------------------------------------------------------------------------------------------

_WINDOWS = "quota.window.num=2 (an unused quota may be used later, for as long as the windows reach back)"

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "quota-met",
        f"One of Java's producers, {LARGE_RECORD_BYTES:,}-byte records, acks=1, {GREEDY_IN_FLIGHT} "
        f"unacknowledged, as fast as it may, with a quota of {QUOTA_BYTES:,} bytes a second for its client "
        f"id; {_WINDOWS}. The records acknowledged in {MEASURED_SECONDS} seconds, after {BURST_SECONDS}.",
        (
            Measure("missed_percent", "rate beside the quota", "% of the quota", WITHIN_10_PERCENT),
            Measure("percent_of_quota", "rate", "% of the quota"),
        ),
        _met,
    ),
    Scenario(
        "greedy-neighbour",
        f"{OTHERS} of Java's producers, each {OTHERS_RATE} records of 100 bytes a second, one a request; "
        "their p99 beside a greedy one as in quota-met, first without its quota (which warms the broker up), "
        f"then under it, then alone: {OTHERS_SECONDS} seconds of each. {_WINDOWS}.",
        (
            Measure(
                "p99_times", "p99 beside a greedy client under quota, over p99 alone", "x", AT_MOST_TWICE
            ),
            Measure("p99_ms_alone", "p99 alone", "ms"),
            Measure("p99_ms_limited", "p99 beside a greedy client under quota", "ms"),
            Measure("p99_ms_unlimited", "p99 beside a greedy client without a quota", "ms"),
        ),
        _neighbours,
    ),
    Scenario(
        "client-ids",
        f"Produce requests of one 100-byte record each, as {CLIENT_IDS:,} different clients, which all have "
        f"the quota of those that have none of their own; then as {CLIENT_IDS:,} others. RSS before (after "
        "as many requests by 10 clients) and after. Kafka's is that of a Java heap, which was not all "
        "touched before.",
        (
            Measure(
                "mebibytes_first",
                f"RSS grown by {CLIENT_IDS:,} client ids",
                "MiB",
                AT_MOST_64_MEBIBYTES,
                ottla_only=True,
            ),
            Measure(
                "mebibytes_second",
                f"RSS grown by {CLIENT_IDS:,} more",
                "MiB",
                AT_MOST_64_MEBIBYTES,
                ottla_only=True,
            ),
            Measure("resident_before", "RSS before", "MiB"),
            Measure("resident_after", "RSS after both", "MiB"),
        ),
        _client_ids,
    ),
)
