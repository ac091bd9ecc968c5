"""Many connections to one broker: one record a request from each, a thousand consumers with little to do."""

from __future__ import annotations

from collections.abc import Callable

from bench import clients, connection_clients
from bench.errors import BenchError
from bench.figures import Measure
from bench.scenarios.scenario import (
    AT_LEAST_A_FIFTH_FASTER,
    AT_MOST_FOUR_FIFTHS,
    BYTES_PER_MEBIBYTE,
    RECORD_BYTES,
    UNBATCHED,
    Scenario,
    Turn,
)
from bench.servers import Server

CONNECTIONS = (1, 10, 100)
IN_FLIGHT = (5, 1)
PARTITIONS = 10
WARMUP_SECONDS = 10
COUNTED_SECONDS = 10

CONSUMERS = 1_000
GROUPS = 100
# A consumer has a connection from its bootstrap and one to the broker, and two descriptors to wait with.
DESCRIPTORS = 5 * CONSUMERS
CONSUMERS_TOPIC = "consumed"
TRICKLE_RATE = 5

_RATE = Measure("records_per_second", "records", "records/s", AT_LEAST_A_FIFTH_FASTER)
_P50 = Measure("p50_ms", "p50", "ms", AT_MOST_FOUR_FIFTHS)
_P99 = Measure("p99_ms", "p99", "ms", AT_MOST_FOUR_FIFTHS)


# --- one record a request -------------------------------------------------------------------------------


def _one_record(connections: int, in_flight: int) -> Callable[[Turn], dict[str, float]]:
    partitions = min(connections, PARTITIONS)

    def run(turn: Turn) -> dict[str, float]:
        with turn.server() as server:
            clients.create_topic(server, partitions=partitions)
            produced, window = _produce_one_record_requests(turn, server, connections, partitions, in_flight)
        return {
            "records_per_second": produced.per_second,
            "p50_ms": produced.p50_ms,
            "p99_ms": produced.p99_ms,
            "server_cpu_us": window.server_cpu_seconds / produced.count * 1e6,
            "client_cpu_us": window.client_cpu_seconds / produced.count * 1e6,
        }

    return run


def _produce_one_record_requests(
    turn: Turn, server: Server, connections: int, partitions: int, in_flight: int
) -> tuple[connection_clients.Counted, connection_clients.Window]:
    """Closed loops after a warm-up; the requests must carry one record each, and none may be lost."""
    before = clients.end_offsets(server, partitions)
    seconds = turn.size(COUNTED_SECONDS)
    with connection_clients.producers(
        server,
        {**UNBATCHED, "max.in.flight.requests.per.connection": str(in_flight)},
        count=connections,
        partitions=partitions,
        record_bytes=RECORD_BYTES,
        window=in_flight,
    ) as producers:
        producers.ask(f"run {WARMUP_SECONDS}", seconds=WARMUP_SECONDS)
        answer, window = connection_clients.watch(
            server, lambda: producers.ask(f"measure {seconds}", seconds=seconds)
        )
        stopped = connection_clients.stopped(producers.ask("stop"))
    turn.other_cpu_shares.append(window.other_cpu_share)
    if stopped.records_per_request != 1.0:
        raise BenchError(f"{stopped.records_per_request} records a request where one was meant")
    found = clients.end_offsets(server, partitions) - before
    if found != stopped.acknowledged:
        raise BenchError(f"{server.system.title} has {found} records, acknowledged {stopped.acknowledged}")
    return connection_clients.counted(answer), window


# --- a thousand consumers -------------------------------------------------------------------------------


def _idle_consumers(turn: Turn) -> dict[str, float]:
    connection_clients.allow_descriptors(DESCRIPTORS)
    with turn.server() as server:
        clients.create_topic(server, topic=CONSUMERS_TOPIC, partitions=CONSUMERS // GROUPS)
        clients.create_topic(server)
        with connection_clients.consumers(
            server, count=CONSUMERS, groups=GROUPS, topic=CONSUMERS_TOPIC, record_bytes=RECORD_BYTES
        ) as consumers:
            # The last rebalances, and the first commits.
            connection_clients.idled(consumers.ask("idle 3", seconds=3))
            answer, window = connection_clients.watch(
                server, lambda: consumers.ask(f"idle {COUNTED_SECONDS}", seconds=COUNTED_SECONDS)
            )
            connection_clients.idled(answer)
            turn.other_cpu_shares.append(window.other_cpu_share)
            resident_bytes = server.resident_bytes()
            produced, _ = _produce_one_record_requests(turn, server, 1, 1, in_flight=5)
    return {
        "records_per_second": produced.per_second,
        "p50_ms": produced.p50_ms,
        "p99_ms": produced.p99_ms,
        "resident_mebibytes": resident_bytes / BYTES_PER_MEBIBYTE,
        "cpu_percent": 100 * window.server_cpu_seconds / window.seconds,
    }


def _slow_consumers(turn: Turn) -> dict[str, float]:
    connection_clients.allow_descriptors(DESCRIPTORS)
    seconds = turn.size(COUNTED_SECONDS)
    with turn.server() as server:
        clients.create_topic(server, topic=CONSUMERS_TOPIC)
        with connection_clients.consumers(
            server, count=CONSUMERS, groups=0, topic=CONSUMERS_TOPIC, record_bytes=RECORD_BYTES
        ) as consumers:
            consumers.ask("flood 8", seconds=8)
            answer = consumers.ask(f"flood {seconds}", seconds=seconds)
            flood = connection_clients.counted(answer)
            answer, window = connection_clients.watch(
                server, lambda: consumers.ask(f"trickle {TRICKLE_RATE} {seconds}", seconds=seconds)
            )
            trickle = connection_clients.counted(answer)
            turn.other_cpu_shares.append(window.other_cpu_share)
            resident_bytes = server.resident_bytes()
    return {
        "deliveries_per_second": flood.per_second,
        "p50_ms": trickle.p50_ms,
        "p99_ms": trickle.p99_ms,
        "resident_mebibytes": resident_bytes / BYTES_PER_MEBIBYTE,
        "cpu_percent": 100 * window.server_cpu_seconds / window.seconds,
    }


# --- the table ------------------------------------------------------------------------------------------


def _one_record_scenario(connections: int, in_flight: int) -> Scenario:
    plural = "" if connections == 1 else "s"
    suffix = "-1-in-flight" if in_flight == 1 else ""
    return Scenario(
        f"one-record-{connections}-connection{plural}{suffix}",
        f"{connections} of Java's KafkaProducer{plural} in one process (bench/java), each with a connection "
        f"and a thread of its own, {'each to one of ' if connections > 1 else ''}"
        f"{min(connections, PARTITIONS)} partition{plural}: "
        f"100-byte records, acks=1, batch.size=0, linger.ms=0, buffer.memory=262144, "
        f"max.in.flight.requests.per.connection={in_flight} and so many records unacknowledged: the callback "
        "of one sends the next. Every request carries one record (the client's own records-per-request-avg "
        f"must be 1). {COUNTED_SECONDS} seconds after {WARMUP_SECONDS} of warm-up; latency is from send() to "
        "the callback.",
        (
            _RATE,
            _P50,
            _P99,
            Measure("server_cpu_us", "broker's CPU time", "us a request"),
            Measure("client_cpu_us", "clients' CPU time", "us a request"),
        ),
        _one_record(connections, in_flight),
    )


_MEMORY = Measure("resident_mebibytes", "RSS with the consumers", "MiB")

SCENARIOS: tuple[Scenario, ...] = (
    *(_one_record_scenario(connections, in_flight) for in_flight in IN_FLIGHT for connections in CONNECTIONS),
    Scenario(
        "idle-consumers",
        "1,000 of Java's KafkaConsumers in one process (bench/java), a thread each, in 100 groups of 10 (the "
        "classic protocol, the library's defaults: fetches wait 500 ms, heartbeats, commits) on an empty "
        "topic of 10 partitions: the broker's RSS, and its CPU time over 10 seconds. Then one producer "
        "beside them on another topic, one record a request and 5 in flight, as in one-record-1-connection.",
        (
            _RATE,
            _P50,
            _P99,
            _MEMORY,
            Measure("cpu_percent", "broker's CPU while idle", "% of a core"),
        ),
        _idle_consumers,
    ),
    Scenario(
        "slow-consumers",
        "1,000 of Java's KafkaConsumers in one process (bench/java), a thread each, without a group, at the "
        "end of 1 partition; every 100-byte record goes to all of them. After 8 seconds of warm-up: "
        "deliveries a second where the next record is written when all have the last, for 10 seconds; then "
        f"{TRICKLE_RATE} records a second for 10 seconds, from send() to each return from poll(), and the "
        "broker's RSS and CPU time of these.",
        (
            Measure("deliveries_per_second", "deliveries", "records/s", AT_LEAST_A_FIFTH_FASTER),
            _P50,
            _P99,
            _MEMORY,
            Measure("cpu_percent", "broker's CPU while trickling", "% of a core"),
        ),
        _slow_consumers,
    ),
)
