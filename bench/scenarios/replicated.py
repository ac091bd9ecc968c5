"""Three brokers with three replicas: producers, and what a kill costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from bench import clients, clusters
from bench.figures import Measure
from bench.scenarios.scenario import (
    AT_LEAST_A_FIFTH_FASTER,
    BATCHED,
    BYTES_PER_GIGABYTE,
    CPU,
    NO_SLOWER,
    RECORD_BYTES,
    Scenario,
    Turn,
)

CLUSTER_RECORDS = 2_000_000
CLUSTER_WARMUP_RECORDS = 1_000_000
CLUSTER_PARTITIONS = 3
CLUSTER_KILLS = 5
MANY_PARTITIONS = 2_000


def _cluster_produce(acks: str) -> Callable[[Turn], dict[str, float]]:
    def run(turn: Turn) -> dict[str, float]:
        records = CLUSTER_WARMUP_RECORDS + turn.size(CLUSTER_RECORDS)
        with clusters.serve_cluster(turn.system, turn.workspace) as server:
            clients.create_topic(server, partitions=CLUSTER_PARTITIONS, replication_factor=clusters.BROKERS)
            run = clients.producer_performance(
                server,
                {**BATCHED, "acks": acks},
                records=records,
                warmup_records=CLUSTER_WARMUP_RECORDS,
                record_bytes=RECORD_BYTES,
                partitions=CLUSTER_PARTITIONS,
            )
            turn.note(run.client)
        gigabytes = records * RECORD_BYTES / BYTES_PER_GIGABYTE
        return {
            "records_per_second": run.summary.records_per_second,
            "cpu_seconds_per_gigabyte": run.client.server_cpu_seconds / gigabytes,
        }

    return run


def _cluster_failover(turn: Turn) -> dict[str, float]:
    with clusters.serve_cluster(turn.system, turn.workspace, settings=clusters.FAILOVER_SETTINGS) as server:
        taken: dict[bool, list[float]] = {False: [], True: []}
        for number in range(turn.size(CLUSTER_KILLS)):
            for of_controller in taken:
                topic = f"failover-{number}-{of_controller}"
                taken[of_controller].append(
                    clusters.failover_seconds(server, topic, of_controller=of_controller)
                )
    return {
        "leader_seconds": statistics.median(taken[False]),
        "controller_seconds": statistics.median(taken[True]),
    }


def _cluster_many_partitions(turn: Turn) -> dict[str, float]:
    with clusters.serve_cluster(turn.system, turn.workspace) as server:
        created = clusters.create_partitions_seconds(server, "many", turn.size(MANY_PARTITIONS))
        failed_over = clusters.controller_failover_seconds(server, "after")
    return {"create_seconds": created, "controller_failover_seconds": failed_over}


_CLUSTER_METHOD = (
    "Three combined nodes (broker and controller) on this node, replication factor 3; Kafka's have a heap of "
    "1g each."
)


SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(
            f"cluster-produce-acks{acks}",
            _CLUSTER_METHOD + f" Java's ProducerPerformance, 100-byte records, {CLUSTER_PARTITIONS} "
            f"partitions, acks={acks}, batch.size=16384 and linger.ms=5 (the defaults), as fast as it "
            "goes: 2 million records after 1 million of warm-up. CPU time is of all three brokers.",
            (
                Measure(
                    "records_per_second",
                    "records",
                    "records/s",
                    AT_LEAST_A_FIFTH_FASTER,
                    history=f"single producer thread, 3x {history}",
                ),
                CPU,
            ),
            _cluster_produce(acks),
        )
        for acks, history in (
            ("1", "asynchronous replication: 786,980"),
            ("all", "synchronous replication: 421,823"),
        )
    ),
    Scenario(
        "cluster-failover",
        _CLUSTER_METHOD + " Kill -9 of the leader of a partition, once where it is not the active "
        "controller and once where it is: from the kill to the next write of acks=all that is "
        "acknowledged (min.insync.replicas=2), asked every 5 ms over plain sockets. "
        "broker.session.timeout.ms=6000, broker.heartbeat.interval.ms=500, the quorum's timeouts are the "
        "defaults. The median of 5 kills of each kind is a run's figure.",
        (
            Measure("leader_seconds", "leader killed", "s", NO_SLOWER),
            Measure("controller_seconds", "leader and controller killed", "s", NO_SLOWER),
        ),
        _cluster_failover,
    ),
    Scenario(
        "cluster-2000-partitions",
        _CLUSTER_METHOD + " One topic of 2,000 partitions: from the request to the acknowledgement of a "
        "write of acks=all to each of them. Then kill -9 of the active controller: to the answer that "
        "another topic is created.",
        (
            Measure("create_seconds", "created and written to", "s", NO_SLOWER),
            Measure("controller_failover_seconds", "controller failover", "s", NO_SLOWER),
        ),
        _cluster_many_partitions,
    ),
)
