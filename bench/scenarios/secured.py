"""SASL_SSL beside plaintext: producers and a consumer of one broker, connects, idle connections."""

from __future__ import annotations

import os
import ssl
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench import clients, connection_clients, secured, secured_client
from bench.clients import Access, Production
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import (
    AT_LEAST_A_FIFTH_FASTER,
    BATCHED,
    BYTES_PER_GIGABYTE,
    BYTES_PER_MEBIBYTE,
    NO_LESS,
    NO_SLOWER,
    RECORD_BYTES,
    UNBATCHED,
    Scenario,
    Turn,
)
from bench.secured import SecuredServer, Security
from bench.servers import System
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.schema import Message
from support.clients.wire import batch, produce_request

ACLS_OF_OTHERS = 500
BATCHED_RECORDS, BATCHED_WARMUP_RECORDS = 3_000_000, 3_000_000
FETCHED_RECORDS = 3_000_000
# In flight to the records counted and those of the warm-up, as many as the plaintext scenarios have.
ONE_RECORD = {5: (200_000, 400_000), 1: (100_000, 150_000)}

CONNECTS, CONNECTS_AT_ONCE = 1_000, 32
CONNECTS_WARMUP_SECONDS, CONNECTS_SECONDS = 20, 15
OTHER_RATE = 200

IDLE_CONNECTIONS = 1_000
IDLE_WARMUP_CONNECTIONS = 20
LARGE_BYTES = 1_000_000
SETTLE_SECONDS = 1.0

# A rate that is 40 % less.
LESS_BY_40_PERCENT = Target(Bound.VALUE_AT_MOST, round(1 / 0.6, 3))
AT_MOST_TWICE = Target(Bound.VALUE_AT_MOST, 2.0)
AT_MOST_64_KIBIBYTES = Target(Bound.VALUE_AT_MOST, 64.0)


def _security() -> Security:
    acls = [*secured.acls_of_the_user(), *secured.acls_of_others(ACLS_OF_OTHERS)]
    return Security(acls=acls)


# --- the same, secured and in plaintext -------------------------------------------------------------------


def _produce(turn: Turn) -> dict[str, float]:
    records = BATCHED_WARMUP_RECORDS + turn.size(BATCHED_RECORDS)
    with turn.secured_server(_security()) as server:
        clients.create_topic(server.server)
        return _twice(
            server, partial(_production, turn, server, properties={**BATCHED, "acks": "1"}, records=records)
        )


def _production(
    turn: Turn,
    server: SecuredServer,
    access: Access | None,
    properties: Mapping[str, str],
    records: int,
    warmup_records: int = BATCHED_WARMUP_RECORDS,
) -> tuple[float, float]:
    production = Production(records, warmup_records, RECORD_BYTES, access=access)
    run = clients.produce(server.server, properties, production)
    turn.note(run.client)
    cpu = run.client.server_cpu_seconds / (records * RECORD_BYTES / BYTES_PER_GIGABYTE)
    if properties.get("batch.size") == "0" and run.summary.records_per_request != 1.0:
        raise BenchError(f"{run.summary.records_per_request} records a request where one was meant")
    return run.summary.records_per_second, cpu


def _fetch(turn: Turn) -> dict[str, float]:
    records = turn.size(FETCHED_RECORDS)

    def consumed(access: Access | None) -> tuple[float, float]:
        clients.consumer_performance(server.server, records=records, access=access)
        summary, client = clients.consumer_performance(server.server, records=records, access=access)
        turn.note(client)
        cpu = client.server_cpu_seconds / (records * RECORD_BYTES / BYTES_PER_GIGABYTE)
        return summary.fetch_records_per_second, cpu

    with turn.secured_server(_security()) as server:
        clients.create_topic(server.server)
        clients.produce(server.server, {**BATCHED, "acks": "1"}, Production(records, 0, RECORD_BYTES))
        return _twice(server, consumed)


def _one_record(turn: Turn) -> dict[str, float]:
    figures = {}
    with turn.secured_server(_security()) as server:
        clients.create_topic(server.server)
        for in_flight, (records, warmup_records) in ONE_RECORD.items():
            properties = {**UNBATCHED, "max.in.flight.requests.per.connection": str(in_flight)}
            produced = partial(
                _production,
                turn,
                server,
                properties=properties,
                records=warmup_records + turn.size(records),
                warmup_records=warmup_records,
            )
            figures |= _twice(server, produced, f"_{in_flight}")
    return figures


def _twice(
    server: SecuredServer, run: Callable[[Access | None], tuple[float, float]], suffix: str = ""
) -> dict[str, float]:
    """The figures of a run over TLS, and of one in plaintext after it; each gives its rate and CPU time."""
    rate, cpu = run(server.access)
    plain_rate, plain_cpu = run(None)
    return {
        f"records_per_second{suffix}": rate,
        f"plaintext_times{suffix}": plain_rate / rate,
        f"plaintext_records_per_second{suffix}": plain_rate,
        f"cpu_seconds_per_gigabyte{suffix}": cpu,
        f"plaintext_cpu_seconds_per_gigabyte{suffix}": plain_cpu,
    }


def _measures_of_twice(title: str, target: Target, suffix: str = "") -> tuple[Measure, ...]:
    return (
        Measure(f"records_per_second{suffix}", title, "records/s", target),
        Measure(f"plaintext_times{suffix}", f"{title}, plaintext's rate over TLS's", "x", LESS_BY_40_PERCENT),
        Measure(f"plaintext_records_per_second{suffix}", f"{title}, plaintext", "records/s"),
        Measure(f"cpu_seconds_per_gigabyte{suffix}", f"broker's CPU time, {title}", "s/GB"),
        Measure(
            f"plaintext_cpu_seconds_per_gigabyte{suffix}", f"broker's CPU time, {title}, plaintext", "s/GB"
        ),
    )


# --- connects ---------------------------------------------------------------------------------------------


def _connects(turn: Turn) -> dict[str, float]:
    connection_clients.allow_descriptors(3 * CONNECTS)
    seconds = turn.size(CONNECTS_SECONDS)
    properties = {**UNBATCHED, "max.in.flight.requests.per.connection": "5"}
    with turn.secured_server(_security()) as server:
        clients.create_topic(server.server)
        client = secured.connecting_client(server)
        _rounds(client, CONNECTS_WARMUP_SECONDS)
        with connection_clients.producers(
            server.server,
            properties,
            count=1,
            partitions=1,
            record_bytes=RECORD_BYTES,
            rate=OTHER_RATE,
            access=server.access,
        ) as other:
            other.ask("load 1 0")
            other.ask(f"run {seconds}", seconds=seconds)
            calm = connection_clients.counted(other.ask(f"measure {seconds}", seconds=seconds))
            other.begin(f"measure {seconds}")
            own_cpu = _own_cpu_seconds()
            taken, window = connection_clients.watch(server.server, lambda: _rounds(client, seconds))
            own_cpu = _own_cpu_seconds() - own_cpu
            turn.other_cpu_shares.append(window.other_cpu_share)
            beside = connection_clients.counted(other.end(seconds=seconds))
            other.ask("stop")
    made = len(taken) * CONNECTS
    return {
        "seconds": statistics.median(taken),
        "p99_times": beside.p99_ms / calm.p99_ms,
        "p99_ms_calm": calm.p99_ms,
        "p99_ms_beside": beside.p99_ms,
        "server_cpu_us": window.server_cpu_seconds / made * 1e6,
        "client_cpu_us": own_cpu / made * 1e6,
    }


def _rounds(client: secured_client.SecuredClient, seconds: float) -> list[float]:
    """The seconds of each round of connects, as long as there is time for another one."""
    began, taken = time.perf_counter(), [_connect_and_close(client, CONNECTS)]
    while time.perf_counter() + taken[-1] < began + seconds:
        taken.append(_connect_and_close(client, CONNECTS))
    return taken


def _connect_and_close(client: secured_client.SecuredClient, count: int) -> float:
    """The seconds of `count` connects, without those of their closing."""
    began = time.perf_counter()
    connections = client.connect(count, CONNECTS_AT_ONCE)
    took = time.perf_counter() - began
    _close(connections)
    return took


def _close(connections: Sequence[ssl.SSLSocket]) -> None:
    for connection in connections:
        connection.close()


def _own_cpu_seconds() -> float:
    """User and system time of this process alone, which is the client."""
    times = os.times()
    return times.user + times.system


# --- idle connections -------------------------------------------------------------------------------------


def _idle(turn: Turn) -> dict[str, float]:
    connection_clients.allow_descriptors(3 * IDLE_CONNECTIONS)
    count = turn.size(IDLE_CONNECTIONS)
    record = batch(value=os.urandom(LARGE_BYTES))
    write = _frame(ApiKey.PRODUCE, produce_request(clients.TOPIC, 0, record, acks=1), 9)
    read = _frame(ApiKey.FETCH, _fetch_request(), 11)
    small = secured_client.metadata_frame([clients.TOPIC])
    with turn.secured_server(_security()) as server:
        clients.create_topic(server.server)
        client = secured.connecting_client(server)
        # The first connections and requests make what all others share.
        warm = client.connect(IDLE_WARMUP_CONNECTIONS, CONNECTS_AT_ONCE)
        for connection in warm:
            secured_client.ask(connection, small)
        for connection in warm:
            secured_client.ask(connection, write)
        _close(warm)
        empty = _settled_bytes(server)
        connections = client.connect(count, CONNECTS_AT_ONCE)
        for connection in connections:
            secured_client.ask(connection, small)
        after_small = _settled_bytes(server)
        for connection in connections:
            secured_client.ask(connection, write)
            if len(secured_client.ask(connection, read)) < LARGE_BYTES:
                raise BenchError(f"{server.server.system.title} gave less than a megabyte")
        after_large = _settled_bytes(server)
        _close(connections)
    held = {
        "kibibytes_small": (after_small - empty) / count / 1024,
        "kibibytes_large": (after_large - empty) / count / 1024,
    }
    return {
        **(held if turn.system is System.OTTLA else {}),
        "resident_empty": empty / BYTES_PER_MEBIBYTE,
        "resident_small": after_small / BYTES_PER_MEBIBYTE,
        "resident_large": after_large / BYTES_PER_MEBIBYTE,
    }


def _settled_bytes(server: SecuredServer) -> int:
    time.sleep(SETTLE_SECONDS)
    return server.server.resident_bytes()


def _fetch_request() -> FetchRequest:
    """The topic's first record, which is large."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2 * LARGE_BYTES)
    topic = FetchTopic(topic=clients.TOPIC, partitions=[partition])
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=2 * LARGE_BYTES, topics=[topic])


def _frame(api_key: ApiKey, request: Message, version: int) -> bytes:
    frame = encode_request(api_key, version, 1, "bench", request)
    return len(frame).to_bytes(4, "big") + frame


# --- the table --------------------------------------------------------------------------------------------

_SECURED = (
    "A listener of SASL_SSL (SCRAM-SHA-256, TLS 1.3, an EC certificate in PEM) beside a plaintext one on the "
    f"same broker, the StandardAuthorizer with the user's ACLs and {ACLS_OF_OTHERS} of others. "
)


def _held(size: str) -> Measure:
    title = f"held after {size} requests"
    return Measure(f"kibibytes_{size}", title, "KiB a connection", AT_MOST_64_KIBIBYTES, ottla_only=True)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "secured-produce",
        f"{_SECURED}Java's ProducerPerformance, 100-byte records, 1 partition, acks=1, batch.size=16384 and "
        f"linger.ms=5 (the defaults): {BATCHED_RECORDS:,} records after {BATCHED_WARMUP_RECORDS:,} of "
        "warm-up, over TLS, then the same in plaintext. CPU time is of both parts of a run.",
        _measures_of_twice("records", AT_LEAST_A_FIFTH_FASTER),
        _produce,
    ),
    Scenario(
        "secured-fetch",
        f"{_SECURED}Java's ConsumerPerformance on {FETCHED_RECORDS:,} 100-byte records in 1 partition, in "
        "the page cache, after one such run as warm-up, over TLS, then twice in plaintext; the rate of "
        "fetching, without the time of joining the group.",
        _measures_of_twice("records", NO_LESS),
        _fetch,
    ),
    Scenario(
        "secured-one-record",
        f"{_SECURED}Java's ProducerPerformance, 100-byte records, 1 partition, acks=1, batch.size=0, "
        "linger.ms=0, buffer.memory=262144: every request carries one record. "
        + "; ".join(
            f"{records:,} records after {warmup_records:,} of warm-up, {in_flight} in flight"
            for in_flight, (records, warmup_records) in ONE_RECORD.items()
        )
        + "; each over TLS, then in plaintext.",
        tuple(
            measure
            for in_flight in ONE_RECORD
            for measure in _measures_of_twice(
                f"records, {in_flight} in flight", AT_LEAST_A_FIFTH_FASTER, f"_{in_flight}"
            )
        ),
        _one_record,
    ),
    Scenario(
        "secured-connects",
        f"{_SECURED}Rounds of {CONNECTS:,} connects, {CONNECTS_AT_ONCE} on their way at once, each by TLS "
        "without resumption and SCRAM until it has logged in; closing them is not counted. The client is "
        "bench/secured_client.py, one thread of sockets and OpenSSL that computes PBKDF2 once: its own CPU "
        "time a connect is told, as on two cores it bounds both brokers alike. "
        f"{CONNECTS_WARMUP_SECONDS} seconds of them are the warm-up; then the median of the rounds in "
        f"{CONNECTS_SECONDS} seconds. Meanwhile one of Java's producers sends {OTHER_RATE} records a second "
        f"over TLS, one a request: its p99 then over that of {CONNECTS_SECONDS} seconds before, which have a "
        "warm-up as long.",
        (
            Measure("seconds", f"{CONNECTS:,} connects", "s", NO_SLOWER),
            Measure(
                "p99_times", "another client's p99 beside connects, over p99 without", "x", AT_MOST_TWICE
            ),
            Measure("p99_ms_calm", "another client's p99, no connects", "ms"),
            Measure("p99_ms_beside", "another client's p99 beside connects", "ms"),
            Measure("server_cpu_us", "broker's CPU time", "us a connect"),
            Measure("client_cpu_us", "connecting client's CPU time", "us a connect"),
        ),
        _connects,
    ),
    Scenario(
        "idle-tls-connections",
        f"{_SECURED}The broker's RSS with {IDLE_CONNECTIONS:,} connections that have logged in and had one "
        "small request (Metadata) answered, then a produce request of a megabyte and a fetch of a megabyte "
        f"each, one connection after the other; over its RSS before, after {IDLE_WARMUP_CONNECTIONS} others "
        "have come and gone. For Kafka the RSS alone is told: a Java heap's is what was touched "
        "between two collections, not what connections hold.",
        (
            _held("small"),
            _held("large"),
            Measure("resident_empty", "RSS without connections", "MiB"),
            Measure("resident_small", f"RSS with {IDLE_CONNECTIONS:,}, after small requests", "MiB"),
            Measure("resident_large", f"RSS with {IDLE_CONNECTIONS:,}, after large requests", "MiB"),
        ),
        _idle,
    ),
)
