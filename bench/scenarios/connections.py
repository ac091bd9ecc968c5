"""Many connections to one broker: one record a request from each, a thousand consumers with little to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
# Measured: Apache Kafka takes so long to get warm, from 4,000 requests a second to 30,000.
WARMUP_SECONDS = 30
WARMUP_CONNECTIONS = 10
SETTLE_SECONDS = 2
COUNTED_SECONDS = 5

CONSUMERS = 1_000
GROUPS = 100
# A consumer has a connection from its bootstrap and one to the broker, and two descriptors to wait with.
DESCRIPTORS = 5 * CONSUMERS
CONSUMERS_TOPIC = "consumed"
GROUPS_SETTLE_SECONDS = 3
IDLE_SECONDS = 10
DELIVERY_WARMUP_SECONDS = 20
TRICKLE_SECONDS = 8
TRICKLE_RATE = 5

# --- one record a request -------------------------------------------------------------------------------


def _one_record(in_flight: int) -> Callable[[Turn], dict[str, float]]:
    def run(turn: Turn) -> dict[str, float]:
        with turn.server() as server:
            clients.create_topic(server, partitions=PARTITIONS)
            return _one_record_requests(turn, server, CONNECTIONS, PARTITIONS, in_flight)

    return run


def _one_record_requests(
    turn: Turn, server: Server, connections: Sequence[int], partitions: int, in_flight: int
) -> dict[str, float]:
    """Closed loops of so many connections in turn, after a warm-up: the figures of each, by their names.

    The requests must carry one record each, and none may be lost.
    """
    before = clients.end_offsets(server, partitions)
    seconds = turn.size(COUNTED_SECONDS)
    figures = {}
    with connection_clients.producers(
        server,
        {**UNBATCHED, "max.in.flight.requests.per.connection": str(in_flight)},
        count=max(connections),
        partitions=partitions,
        record_bytes=RECORD_BYTES,
    ) as producers:
        producers.ask(f"load {min(max(connections), WARMUP_CONNECTIONS)} {in_flight}")
        producers.ask(f"run {WARMUP_SECONDS}", seconds=WARMUP_SECONDS)
        for count in connections:
            producers.ask(f"load {count} {in_flight}")
            producers.ask(f"run {SETTLE_SECONDS}", seconds=SETTLE_SECONDS)
            answer, window = connection_clients.watch(
                server, lambda: producers.ask(f"measure {seconds}", seconds=seconds)
            )
            turn.other_cpu_shares.append(window.other_cpu_share)
            produced = connection_clients.counted(answer)
            figures |= {
                f"records_per_second_{count}": produced.per_second,
                f"p50_ms_{count}": produced.p50_ms,
                f"p99_ms_{count}": produced.p99_ms,
                f"server_cpu_us_{count}": window.server_cpu_seconds / produced.count * 1e6,
                f"client_cpu_us_{count}": window.client_cpu_seconds / produced.count * 1e6,
            }
        stopped = connection_clients.stopped(producers.ask("stop"))
    if stopped.records_per_request != 1.0:
        raise BenchError(f"{stopped.records_per_request} records a request where one was meant")
    found = clients.end_offsets(server, partitions) - before
    if found != stopped.acknowledged:
        raise BenchError(f"{server.system.title} has {found} records, acknowledged {stopped.acknowledged}")
    return figures


def _one_record_measures(connections: Sequence[int]) -> tuple[Measure, ...]:
    """The measures of `_one_record_requests`."""
    measures: list[Measure] = []
    for count in connections:
        by = f", {count} connection{'s' if count > 1 else ''}"
        measures += (
            Measure(f"records_per_second_{count}", f"records{by}", "records/s", AT_LEAST_A_FIFTH_FASTER),
            Measure(f"p50_ms_{count}", f"p50{by}", "ms", AT_MOST_FOUR_FIFTHS),
            Measure(f"p99_ms_{count}", f"p99{by}", "ms", AT_MOST_FOUR_FIFTHS),
            Measure(f"server_cpu_us_{count}", f"broker's CPU time{by}", "us a request"),
            Measure(f"client_cpu_us_{count}", f"clients' CPU time{by}", "us a request"),
        )
    return tuple(measures)


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
            consumers.ask(f"idle {GROUPS_SETTLE_SECONDS}", seconds=GROUPS_SETTLE_SECONDS)
            answer, window = connection_clients.watch(
                server, lambda: consumers.ask(f"idle {IDLE_SECONDS}", seconds=IDLE_SECONDS)
            )
            connection_clients.idled(answer)
            turn.other_cpu_shares.append(window.other_cpu_share)
            resident_bytes = server.resident_bytes()
            beside = _one_record_requests(turn, server, [1], 1, in_flight=5)
    return {
        **beside,
        "resident_mebibytes": resident_bytes / BYTES_PER_MEBIBYTE,
        "cpu_percent": 100 * window.server_cpu_seconds / window.seconds,
    }


def _slow_consumers(turn: Turn) -> dict[str, float]:
    connection_clients.allow_descriptors(DESCRIPTORS)
    seconds = turn.size(TRICKLE_SECONDS)
    with turn.server() as server:
        clients.create_topic(server, topic=CONSUMERS_TOPIC)
        with connection_clients.consumers(
            server, count=CONSUMERS, groups=0, topic=CONSUMERS_TOPIC, record_bytes=RECORD_BYTES
        ) as consumers:
            consumers.ask(f"flood {DELIVERY_WARMUP_SECONDS}", seconds=DELIVERY_WARMUP_SECONDS)
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


def _one_record_scenario(in_flight: int) -> Scenario:
    return Scenario(
        "one-record-connections" + ("-1-in-flight" if in_flight == 1 else ""),
        "1, then 10, then 100 of Java's KafkaProducers in one process (bench/java), each with a connection "
        f"and a thread of its own and one of {PARTITIONS} partitions: 100-byte records, acks=1, "
        "batch.size=0, linger.ms=0, buffer.memory=262144, "
        f"max.in.flight.requests.per.connection={in_flight} and so many records unacknowledged: "
        "the callback of one sends the next. Every request carries one record (the "
        f"client's own records-per-request-avg must be 1). {COUNTED_SECONDS} seconds of each, after "
        f"{SETTLE_SECONDS} of its own and {WARMUP_SECONDS} of warm-up with {WARMUP_CONNECTIONS} connections; "
        "latency is from send() to the callback.",
        _one_record_measures(CONNECTIONS),
        _one_record(in_flight),
        shows_client_limit=True,
    )


_MEMORY = Measure("resident_mebibytes", "RSS with the consumers", "MiB")

SCENARIOS: tuple[Scenario, ...] = (
    *(_one_record_scenario(in_flight) for in_flight in IN_FLIGHT),
    Scenario(
        "idle-consumers",
        "1,000 of Java's KafkaConsumers in one process (bench/java), a thread each, in 100 groups of 10 (the "
        "classic protocol, the library's defaults: fetches wait 500 ms, heartbeats, commits) on an empty "
        f"topic of 10 partitions: the broker's RSS, and its CPU time over {IDLE_SECONDS} seconds. Then one "
        "producer beside them on another topic, one record a request and 5 in flight, warmed up and counted "
        "as in one-record-connections.",
        (
            *_one_record_measures([1]),
            _MEMORY,
            Measure("cpu_percent", "broker's CPU while idle", "% of a core"),
        ),
        _idle_consumers,
    ),
    Scenario(
        "slow-consumers",
        "1,000 of Java's KafkaConsumers in one process (bench/java), a thread each, without a group, at the "
        "end of 1 partition; every 100-byte record goes to all of them. After "
        f"{DELIVERY_WARMUP_SECONDS} seconds of warm-up: deliveries a second where the next record is written "
        f"when all have the last, for {TRICKLE_SECONDS} seconds; then {TRICKLE_RATE} records a second for "
        f"{TRICKLE_SECONDS} seconds, from send() to each return from poll(), and the broker's RSS and CPU "
        "time of these.",
        (
            Measure("deliveries_per_second", "deliveries", "records/s", AT_LEAST_A_FIFTH_FASTER),
            Measure("p50_ms", "p50", "ms", AT_MOST_FOUR_FIFTHS),
            Measure("p99_ms", "p99", "ms", AT_MOST_FOUR_FIFTHS),
            _MEMORY,
            Measure("cpu_percent", "broker's CPU while trickling", "% of a core"),
        ),
        _slow_consumers,
    ),
)
