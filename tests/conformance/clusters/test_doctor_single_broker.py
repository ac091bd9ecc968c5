"""`ottla doctor` on one broker: faults of topics, groups, transactions and disks, caused and then told."""

from __future__ import annotations

import base64
import http.server
import shlex
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.clients.confluent import admin_client, create_topic, eventually
from support.clients.ottla_command import done
from support.clients.wire import WireClient
from support.doctor.runs import WHATEVER_THE_DISK, DoctorRun, doctor
from support.servers.cluster import Cluster

HOUR_MS = 3_600_000
SETTINGS = {
    # so that a producer can begin a transaction without telling its coordinator
    "transaction.partition.verification.enable": "false",
    "num.particions": "3",
}
#: Limits that a small cluster meets, where the default asks for a large one.
LIMITS = (
    *("--limit", "disk_free_part=1", "--limit", "disk_hours=1e12", "--limit", "transaction_minutes=0"),
    *("--limit", "producers_a_partition=2", "--limit", "replicas_a_broker=3"),
    *("--limit", "partition_skew_bytes=10000"),
)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def write(
    bootstrap: str,
    topic: str,
    *,
    partition: int = 0,
    producer_id: int = -1,
    transactional: bool = False,
    timestamp_ms: int | None = None,
    values: int = 1,
    size: int = 1,
) -> None:
    """Write one batch, as a producer that does what it wants."""
    own = {} if producer_id < 0 else {"producer_id": producer_id, "producer_epoch": 3, "base_sequence": 0}
    stamp = now_ms() if timestamp_ms is None else timestamp_ms
    records = encode_batch(
        [NewRecord(b"k", b"v" * size, stamp)] * values,
        transactional=transactional,
        **own,  # type: ignore[arg-type]
    )
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
    )
    request = ProduceRequest(
        transactional_id="lost" if transactional else None, acks=-1, timeout_ms=10_000, topic_data=[data]
    )
    with WireClient.connect(bootstrap) as wire:
        answer = wire.call(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit an offset for a group without members."""
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])

    def committed() -> bool:
        altered = admin_client(bootstrap).alter_consumer_group_offsets([request])[group].result(20)
        return all(one.error is None for one in altered.topic_partitions)

    eventually(committed, f"{group} has an offset")


def members(stack: ExitStack, bootstrap: str, group: str, topic: str, count: int) -> None:
    """Consumers of the classic protocol that read and never commit."""
    found = []
    for _ in range(count):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "group.protocol": "classic",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 200,
            }
        )
        stack.callback(consumer.close)
        consumer.subscribe([topic])
        found.append(consumer)

    def stable() -> bool:
        for consumer in found:
            consumer.poll(0.05)
        (row,) = done(bootstrap, "group", "describe", group, "--no-times")
        return row["state"] == "Stable" and len(row["members"]) == count

    eventually(stable, f"{group} is stable")


def never_ready(stack: ExitStack, bootstrap: str, group: str, topic: str) -> None:
    """A member that joins and never says that it has its assignment: the group stays in its rebalance."""
    wire = stack.enter_context(WireClient.connect(bootstrap))

    def join(member_id: str) -> Any:
        name = topic.encode()
        metadata = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)
        protocol = JoinGroupRequestProtocol(name="range", metadata=metadata)
        return wire.call(
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=60_000,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[protocol],
            ),
            5,
        )

    answer = join("")
    while answer.error_code != 0:
        time.sleep(0.05)  # the coordinator starts, or gives the member its id
        answer = join(answer.member_id)


@pytest.fixture(scope="module")
def told(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, DoctorRun]]:
    """A broker with many faults at once, and what the doctor tells of it."""
    from support.servers.apache_kafka import ApacheKafka
    from support.servers.ottla_broker import OttlaBroker

    start = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}[cluster.name]
    with start(tmp_path_factory.mktemp("doctor") / "own", settings=SETTINGS) as own, ExitStack() as stack:
        at = own.bootstrap
        cause(stack, at)
        yield at, doctor(at, "--sample", "0.4", *LIMITS)


def cause(stack: ExitStack, at: str) -> None:
    """Every fault that one broker can have within seconds."""
    create_topic(at, "unbounded", 1, {"retention.ms": "-1"})
    create_topic(at, "tiny", 1, {"segment.ms": "1000"})
    create_topic(at, "lazy", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"})
    create_topic(at, "unclean", 1, {"unclean.leader.election.enable": "true"})
    create_topic(at, "throttled", 1, {"leader.replication.throttled.replicas": "*"})
    create_topic(at, "demanding", 1, {"min.insync.replicas": "2"})
    create_topic(at, "skewed", 4)
    write(at, "skewed", size=100_000)
    for index in range(1, 4):
        write(at, "skewed", partition=index)
    # groups
    create_topic(at, "read", 1, {"retention.ms": str(HOUR_MS)})
    write(at, "read", values=5, timestamp_ms=now_ms() - HOUR_MS + 5 * 60_000)
    commit(at, "abandoned", "read", 0)
    commit(at, "beyond", "read", 400)
    create_topic(at, "purged", 1)
    write(at, "purged", values=5)
    commit(at, "late", "purged", 0)
    done(at, "topic", "purge", "purged", "--partition", "0", "--before", "3", "--yes")
    create_topic(at, "narrow", 1, {"retention.bytes": "20000"})
    write(at, "narrow", values=2, size=15_000)
    commit(at, "slow", "narrow", 0)
    members(stack, at, "careless", "purged", 2)
    never_ready(stack, at, "restless", "purged")
    # transactions
    create_topic(at, "hung", 1)
    write(at, "hung", producer_id=71_000, transactional=True, timestamp_ms=now_ms() - 20 * 60_000)
    for number in range(2):
        write(at, "hung", producer_id=71_001 + number)
    create_topic(at, "open", 1)
    producer = Producer({"bootstrap.servers": at, "transactional.id": "nightly"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"v")
    producer.flush(30)
    stack.callback(producer.purge)


FAULTS = (
    ("unknown-settings", "warning", "num.particions"),
    ("retention-unbounded", "warning", "unbounded"),
    ("tiny-segments", "warning", "tiny"),
    ("compaction-stuck", "warning", "lazy"),
    ("unclean-election", "warning", "unclean"),
    ("throttles-left", "warning", "throttled"),
    ("under-min-isr", "critical", "demanding-0"),
    ("partitions-skewed", "warning", "skewed-0"),
    ("group-abandoned", "warning", "abandoned"),
    ("group-records-due", "critical", "abandoned"),
    ("group-records-lost", "warning", "beyond"),
    ("group-records-lost", "critical", "late"),
    ("group-classic", "note", "careless"),
    ("group-idle-members", "note", "careless"),
    ("group-no-commits", "warning", "careless"),
    ("group-records-full", "warning", "slow"),
    ("group-rebalancing", "warning", "restless"),
    ("transactions-hanging", "critical", "hung-0"),
    ("transactions-long", "warning", "nightly"),
    ("producer-ids", "warning", "hung-0"),
    ("too-many-replicas", "warning", "1"),
    ("disk-full", "warning", ""),
    ("disk-filling", "warning", ""),
)


@pytest.mark.parametrize(("check", "severity", "subject"), FAULTS)
def test_a_fault_that_was_caused_is_told(
    told: tuple[str, DoctorRun], check: str, severity: str, subject: str
) -> None:
    _, run = told
    if check.startswith("disk"):
        assert check in run.names(), (run.findings, run.not_made)
    else:
        run.of(check, severity, *([subject] if subject else []))
    assert run.code == 4


def test_checks_that_can_not_be_made_are_told_and_no_others(told: tuple[str, DoctorRun]) -> None:
    _, run = told
    assert set(run.not_made) == {"acls-for-everyone", "tokens-ending", "weak-acks"}


def test_the_command_of_a_finding_mends_it(told: tuple[str, DoctorRun]) -> None:
    at, run = told
    mended = (
        "retention-unbounded",
        "tiny-segments",
        "compaction-stuck",
        "unclean-election",
        "throttles-left",
        "under-min-isr",
    )
    for check in (*mended, "transactions-hanging"):
        command = run.of(
            check, "critical" if check in ("under-min-isr", "transactions-hanging") else "warning"
        )["command"]
        _, *words = shlex.split(command)
        done(at, *words, *(["--yes"] if words[0] == "txn" else []))
    again = doctor(at, "--sample", "0", "--only", ",".join((*mended, "transactions-hanging")))
    assert (again.code, again.findings) == (0, [])


def test_a_fresh_broker_is_sound(
    start_own: Callable[..., AbstractContextManager[Any]], unique_name: str
) -> None:
    with start_own() as own:
        create_topic(own.bootstrap, unique_name, 3)
        write(own.bootstrap, unique_name, values=3)
        commit(own.bootstrap, unique_name, unique_name, 3)
        run = doctor(own.bootstrap, "--sample", "0.2", *WHATEVER_THE_DISK)
        assert (run.code, run.findings) == (0, [])


def test_a_clock_that_differs_from_the_controllers_is_told(cluster: Cluster) -> None:
    import asyncio

    from ottla.client.access import ClusterAccess
    from ottla.doctor.checks.table import chosen, parts_of
    from ottla.doctor.examination import examine
    from ottla.doctor.limits import Limits
    from ottla.doctor.reading.look import LookOptions
    from ottla.doctor.reading.readers import look

    checks = chosen(["clock-skew"], [])

    def skew(ahead_ms: int) -> list[str]:
        """What is told to a machine whose clock is ahead."""
        options = LookOptions(now_ms=lambda: time.time_ns() / 1_000_000 + ahead_ms)
        snapshot = asyncio.run(look(ClusterAccess(cluster.bootstrap), parts_of(checks), options))
        return [finding.summary for _, finding in examine(snapshot, checks, Limits()).findings()]

    assert skew(0) == []
    (summary,) = skew(60_000)
    assert "60 seconds behind" in summary
    (summary,) = skew(-60_000)
    assert "60 seconds ahead" in summary


PAGE = b"""# TYPE ottla_produced_batches_total counter
ottla_produced_batches_total{acks="all"} 40
ottla_produced_batches_total{acks="1"} 2
"""


class MetricsPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == f"Basic {base64.b64encode(b'me:secret').decode()}"
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(PAGE if known else b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_weak_acks_are_told_from_the_brokers_metrics(cluster: Cluster) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), MetricsPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}/metrics"
        words = ("--only", "weak-acks", "--sample", "0", "--metrics-from")
        run = doctor(cluster.bootstrap, *words, f"http://me:secret@{place}")
        assert "acks=1: 2 of 42" in run.of("weak-acks", "warning", "acks=1")["summary"]
        run = doctor(cluster.bootstrap, *words, f"http://me:guessed@{place}")
        assert run.code == 3 and "401" in run.not_made["weak-acks"]
        assert "guessed" not in str(run)
        run = doctor(cluster.bootstrap, *words, "file:///etc/passwd")
        assert run.code == 3 and "not an http:// or https:// URL" in run.not_made["weak-acks"]
        server.shutdown()
