"""`ottla lag` on a large cluster, and its seconds beside the truth under a scripted load."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import statistics
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence

from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.ottla_commands import median_seconds, ottla_environment, ottla_words, run_ottla
from bench.scenarios.scenario import Scenario, Turn
from bench.servers import Server, System

TOPICS, PARTITIONS = 3_900, 10
GROUPS = 2_200
TOPICS_A_COMMAND = 1_000
PARTITIONS_A_REQUEST = 2_000
TIMES = 3
OPEN_TIMEOUT_SECONDS = 60
NOT_LEADER_OR_FOLLOWER = 6
SERVICE_TIMEOUT_SECONDS = 120
ROUNDS = 3
PORT = 18_923

TRUTH, REPLAY = "truth", "replay"
YEAR_SECONDS = 365 * 24 * 3_600
TRUTH_SECONDS = 60
LEAST_TRUTH_SECONDS = 30
"""Of a quick run: three rounds of the service."""
TRUTH_REFRESH_MS = 10_000
TRUTH_READING_SECONDS = 2.0
LOAD = ((20, 0.05), (1, 4.0), (200, 0.0), (1, 2.5), (40, 0.1))
"""Records, and the seconds between two of them: an even pace, silence, a burst, and again."""


def _scale(turn: Turn) -> dict[str, float]:
    if turn.system is System.KAFKA:
        return {}
    with turn.server() as server:
        topics = [f"lag-{number}" for number in range(turn.size(TOPICS))]
        for start in range(0, len(topics), TOPICS_A_COMMAND):
            page = topics[start : start + TOPICS_A_COMMAND]
            shape = ("--partitions", str(PARTITIONS), "--replication-factor", "1")
            run_ottla(server, "topic", "create", "-q", *shape, *page)
        places = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
        asyncio.run(_produce_each(server, places[::2]))
        groups = turn.size(GROUPS)
        asyncio.run(_commit(server, groups, places))
        listed = len(run_ottla(server, "lag", "--json", "--no-times").splitlines())
        if listed != len(places):
            raise BenchError(f"{listed} partitions of groups are told, not {len(places)}")
        with _service(server) as metrics:
            took = _rounds(metrics)
        return {
            "lag_seconds": median_seconds(server, TIMES, "lag", "--json"),
            "lag_no_times_seconds": median_seconds(server, TIMES, "lag", "--json", "--no-times"),
            "round_seconds": statistics.median(took),
        }


def _truth(turn: Turn) -> dict[str, float]:
    """The largest errors of the seconds that the service, and single readings, tell."""
    with turn.server() as server:
        run_ottla(
            server, "topic", "create", "-q", TRUTH, REPLAY, "--partitions", "1", "--replication-factor", "1"
        )
        written: list[float] = []
        ended = threading.Event()
        seconds = max(turn.size(TRUTH_SECONDS), LEAST_TRUTH_SECONDS)
        load = threading.Thread(target=_load, args=(server, seconds, written, ended))
        with _service(server, {"offset.refresh.ms": str(TRUTH_REFRESH_MS)}) as metrics:
            load.start()
            errors: dict[str, list[float]] = {TRUTH: [], REPLAY: []}
            once = [0.0]
            try:
                while not ended.wait(TRUTH_READING_SECONDS):
                    told = metrics()
                    for topic, of_topic in errors.items():
                        of_topic += _error(told, topic, written)
                    once += _error_once(server, written)
            finally:
                load.join()
            if min(map(len, errors.values())) < seconds / TRUTH_READING_SECONDS / 4:
                raise BenchError("the service told too few lags")
        return {
            "service_error_seconds": max(errors[TRUTH]),
            "replay_error_seconds": max(errors[REPLAY]),
            "once_error_seconds": max(once),
        }


def _load(server: Server, seconds: float, written: list[float], ended: threading.Event) -> None:
    """Write records by the script, with their times; the group follows some way behind."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": TRUTH})
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            for records, pause_seconds in LOAD:
                for _ in range(records):
                    written.append(time.time())
                    producer.produce(TRUTH, b"v", partition=0)
                    last_year_ms = round((written[-1] - YEAR_SECONDS) * 1_000)
                    producer.produce(REPLAY, b"v", partition=0, timestamp=last_year_ms)
                    if pause_seconds:
                        producer.flush(10)
                        time.sleep(pause_seconds)
                producer.flush(10)
                offset = max(0, len(written) - 60)
                behind = [TopicPartition(topic, 0, offset) for topic in (TRUTH, REPLAY)]
                consumer.commit(offsets=behind, asynchronous=False)
    finally:
        consumer.close()
        ended.set()


def _error(metrics: str, topic: str, written: Sequence[float]) -> list[float]:
    """The error of the seconds that the metrics tell of a topic; none where there is no lag."""
    found = {}
    for key, name in (
        ("lag", "kafka_consumergroup_lag"),
        ("seconds", "kafka_consumergroup_lag_seconds"),
        ("offset", "kafka_consumergroup_current_offset"),
        ("at", "ottla_lag_round_timestamp_seconds"),
    ):
        labels = "" if key == "at" else f'{{[^}}]*topic="{topic}"[^}}]*}}'
        matched = re.search(rf"^{name}{labels} (\S+)$", metrics, re.MULTILINE)
        if matched is None:
            return []
        found[key] = float(matched[1])
    if not found["lag"] or found["offset"] >= len(written):
        return []
    return [abs(found["seconds"] - (found["at"] - written[int(found["offset"])]))]


def _error_once(server: Server, written: Sequence[float]) -> list[float]:
    from datetime import datetime

    rows = [
        json.loads(line)
        for line in run_ottla(server, "lag", "--json", "--group", "trut*", "--topic", TRUTH).splitlines()
    ]
    return [
        abs(row["lag_seconds"] - (datetime.fromisoformat(row["time"]).timestamp() - written[row["offset"]]))
        for row in rows
        if row["lag"] and row["offset"] < len(written)
    ]


async def _produce_each(server: Server, places: Sequence[tuple[str, int]]) -> None:
    """Write a record to each partition: clients ask for metadata topic by topic, which takes minutes."""
    from ottla.client.access import ClusterAccess
    from ottla.client.cluster_requests import ClusterRequests, TopicPartition, by_topic
    from ottla.protocol.messages.produce_request import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )
    from ottla.protocol.messages.produce_response import ProduceResponse
    from ottla.protocol.record_batch import NewRecord, encode_batch

    batch = encode_batch([NewRecord(None, b"v", round(time.time() * 1_000))])
    client = ClusterRequests(ClusterAccess(server.bootstrap))
    try:
        ids = {topic.name: topic.topic_id for topic in await client.topics()}
        names = {topic_id: name for name, topic_id in ids.items()}

        def request(some: Sequence[TopicPartition]) -> ProduceRequest:
            topics = [
                TopicProduceData(
                    name=topic,
                    topic_id=ids[topic],
                    partition_data=[PartitionProduceData(index=one, records=batch) for one in partitions],
                )
                for topic, partitions in by_topic(some).items()
            ]
            return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics)

        def parts(answer: ProduceResponse) -> Iterator[tuple[TopicPartition, int, int]]:
            for topic in answer.responses:
                for one in topic.partition_responses:
                    name = topic.name or names[topic.topic_id] or ""
                    yield TopicPartition(name, one.index), one.error_code, one.error_code

        for start in range(0, len(places), PARTITIONS_A_REQUEST):
            some = [TopicPartition(*place) for place in places[start : start + PARTITIONS_A_REQUEST]]
            deadline = time.monotonic() + OPEN_TIMEOUT_SECONDS
            while some:
                codes = await client.ask_leaders(some, request, ProduceResponse, parts)
                some = [place for place, code in codes.items() if code == NOT_LEADER_OR_FOLLOWER]
                if set(codes.values()) - {0, NOT_LEADER_OR_FOLLOWER} or time.monotonic() > deadline:
                    raise BenchError(f"records can't be written: {set(codes.values())}")
                # The topics that were made last may not be open yet.
                await asyncio.sleep(0.1 if some else 0)
    finally:
        await client.close()


async def _commit(server: Server, groups: int, places: Sequence[tuple[str, int]]) -> None:
    """Give each group its share of the partitions, with an offset of 0 in each."""
    from ottla.client.access import ClusterAccess
    from ottla.client.cluster_requests import ClusterRequests, TopicPartition
    from ottla.client.groups.changes import commit_offsets

    client = ClusterRequests(ClusterAccess(server.bootstrap))
    try:
        for number in range(groups):
            offsets = {TopicPartition(*place): 0 for place in places[number::groups]}
            errors = await commit_offsets(client, f"group-{number}", offsets)
            if any(one is not None for one in errors.values()):
                raise BenchError(f"group-{number} can't commit: {errors}")
    finally:
        await client.close()


@contextlib.contextmanager
def _service(server: Server, settings: Mapping[str, str] | None = None) -> Iterator[Metrics]:
    """`ottla lag serve`, ready; the value gives its metrics."""
    words = ["lag", "serve", "--bootstrap", server.bootstrap, "--listen", f"127.0.0.1:{PORT}"]
    for name, value in {"offset.refresh.ms": "1000", **(settings or {})}.items():
        words += ["--set", f"{name}={value}"]
    with subprocess.Popen(ottla_words(*words), env=ottla_environment(), stdout=subprocess.DEVNULL) as process:
        try:
            metrics = Metrics(f"http://127.0.0.1:{PORT}")
            metrics.wait_until_ready()
            yield metrics
        finally:
            process.terminate()


class Metrics:
    """The metrics of a service."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self) -> str:
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    def wait_until_ready(self) -> None:
        """Raises BenchError if that takes too long."""
        deadline = time.monotonic() + SERVICE_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self._url}/burrow/admin/ready", timeout=30).close()
                return
            time.sleep(0.1)
        raise BenchError("ottla lag serve does not become ready")


def _rounds(metrics: Metrics) -> list[float]:
    """The seconds of some rounds after the first, in which the windows of all groups are made."""
    took: list[float] = []
    last = 0.0
    deadline = time.monotonic() + SERVICE_TIMEOUT_SECONDS
    while len(took) < ROUNDS + 1:
        if time.monotonic() > deadline:
            raise BenchError("the service's rounds take too long")
        text = metrics()
        number = float(re.findall(r'^ottla_lag_rounds_total{outcome="ok"} (\S+)$', text, re.MULTILINE)[0])
        if number > last:
            last = number
            took += map(float, re.findall(r"^ottla_lag_round_duration_seconds (\S+)$", text, re.MULTILINE))
        time.sleep(0.2)
    return took[1:]


AT_MOST_5_SECONDS = Target(Bound.VALUE_AT_MOST, 5.0)
AT_MOST_1_SECOND = Target(Bound.VALUE_AT_MOST, 1.0)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "lag-scale",
        f"{GROUPS:,} groups with {TOPICS * PARTITIONS:,} partitions between them, half one record behind, "
        f"on one broker: `ottla lag` from its start to its end, the median of {TIMES}, and the rounds of "
        "`ottla lag serve`, in which all groups are judged. Apache Kafka's side is left out: it keeps "
        "several files open for each partition, more than the 20,000 that a process may have here.",
        (
            Measure("lag_seconds", "ottla lag --json", "s", AT_MOST_5_SECONDS, ottla_only=True),
            Measure(
                "lag_no_times_seconds",
                "ottla lag --json --no-times",
                "s",
                AT_MOST_5_SECONDS,
                ottla_only=True,
            ),
            Measure("round_seconds", "a round of ottla lag serve", "s", AT_MOST_5_SECONDS, ottla_only=True),
        ),
        _scale,
    ),
    Scenario(
        "lag-truth",
        f"{TRUTH_SECONDS} s of a load with bursts and silence, and a group that follows it: the largest "
        "difference between the lag in seconds and the time since the next record was sent, told by "
        f"`ottla lag serve` with offsets read every {TRUTH_REFRESH_MS // 1_000} s, and by `ottla lag`.",
        (
            Measure("service_error_seconds", "ottla lag serve", "s", AT_MOST_1_SECOND),
            Measure("replay_error_seconds", "... of records with timestamps of last year", "s"),
            Measure("once_error_seconds", "ottla lag", "s", AT_MOST_1_SECOND),
        ),
        _truth,
    ),
)
