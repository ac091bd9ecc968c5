"""`ottla lag` on a real cluster: beside kafka-consumer-groups.sh, and where that counts too much."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from ottla.cli.frame.errors import ExitCode
from ottla.client.access import ClusterAccess
from ottla.client.admin.partition_offsets import delete_records
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.first_records import first_record_times
from ottla.client.groups.changes import commit_offsets
from ottla.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from support.clients.confluent import create_topic, eventually, poll_messages, poll_until, produce
from support.clients.ottla_command import ottla
from support.clients.share_consumers import poll_until as share_poll_until
from support.clients.share_consumers import read_from_the_beginning, share_consumer
from support.clients.wire import WireClient
from support.java.java_tools import run_java
from support.servers.cluster import Cluster

GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def commit(cluster: Cluster, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit for a group without members."""

    async def run() -> None:
        client = ClusterRequests(ClusterAccess(cluster.bootstrap))
        try:
            wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
            errors = await commit_offsets(client, group, wanted)
            assert not [one for one in errors.values() if one is not None], errors
        finally:
            await client.close()

    asyncio.run(run())


def remove_before(cluster: Cluster, topic: str, offset: int) -> None:
    """Remove the records of partition 0 before an offset, as retention does."""

    async def run() -> None:
        client = ClusterRequests(ClusterAccess(cluster.bootstrap))
        try:
            (found,) = (await delete_records(client, {TopicPartition(topic, 0): offset})).values()
            assert not isinstance(found, ClusterError), found
        finally:
            await client.close()

    asyncio.run(run())


def lags(cluster: Cluster, group: str, *words: str) -> list[dict[str, Any]]:
    return told_by_ottla(cluster, "--group", group, *words)


def told_by_ottla(cluster: Cluster, *words: str) -> list[dict[str, Any]]:
    run = ottla(cluster.bootstrap, "lag", "--json", *words)
    assert (run.code, run.err) == (0, ""), run
    return run.rows


def member(cluster: Cluster, group: str, protocol: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "packer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def transactions(cluster: Cluster, topic: str, *ends: str) -> None:
    """One transaction of two records for each `commit` or `abort`; with its marker three offsets."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"writer of {topic}"})
    producer.init_transactions(30)
    for end in ends:
        producer.begin_transaction()
        for number in range(2):
            producer.produce(topic, f"{end} {number}", partition=0)
        producer.flush(30)
        (producer.commit_transaction if end == "commit" else producer.abort_transaction)(30)


@pytest.mark.java
@pytest.mark.slow
def test_records_are_counted_as_by_kafka_consumer_groups(cluster: Cluster, unique_name: str) -> None:
    """Of drawn groups at drawn offsets in plain topics."""
    # given
    dice = random.Random(unique_name)
    places = {}
    for number in range(3):
        partitions = dice.randrange(1, 4)
        topic = create_topic(cluster.bootstrap, f"{unique_name}-{number}", partitions)
        for partition in range(partitions):
            places[topic, partition] = dice.randrange(0, 40)
            records = [{"value": b"v", "partition": partition}] * places[topic, partition]
            produce(cluster.bootstrap, topic, records)
    groups = [f"{unique_name} group {number}" for number in range(4)]
    for group in groups:
        some = dice.sample(sorted(places), dice.randrange(1, len(places) + 1))
        commit(cluster, group, {place: dice.randrange(0, places[place] + 1) for place in some})
    # when
    words = [word for group in groups for word in ("--group", group)]
    told = run_java(GROUP_COMMAND, "--bootstrap-server", cluster.bootstrap, "--describe", *words)
    assert told.returncode == 0, told
    ours = told_by_ottla(cluster, *words)
    # then
    kafkas = set()
    for line in told.stdout.splitlines():
        for group in groups:
            if line.startswith(f"{group} "):
                topic, partition, offset, end, lag, *_ = line.removeprefix(group).split()
                kafkas.add((group, topic, int(partition), int(offset), int(end), int(lag)))
    assert kafkas == {
        (one["group"], one["topic"], one["partition"], one["offset"], one["end"], one["lag"]) for one in ours
    }
    assert len(kafkas) == len(ours) > 0


def test_the_time_is_that_for_which_the_next_record_has_waited(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    written_ms = int(time.time() * 1_000) - 90_000
    records = [{"value": b"v", "timestamp": written_ms + number * 10_000} for number in range(5)]
    for record in records:
        produce(cluster.bootstrap, topic, [record])
    commit(cluster, topic, {(topic, 0): 3})
    (one,) = lags(cluster, topic)
    waited = time.time() - (written_ms + 30_000) / 1_000
    assert (one["lag"], one["position"]) == (2, "behind")
    assert 0 <= waited - one["lag_seconds"] < 30
    assert lags(cluster, topic, "--no-times")[0]["lag_seconds"] is None


def test_a_group_has_no_lag_where_only_markers_are_left(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    transactions(cluster, topic, "commit", "commit")
    # a reader of records is at 5, behind the last record; 5 is the marker of its transaction
    commit(cluster, topic, {(topic, 0): 5})
    (one,) = lags(cluster, topic)
    assert (one["end"], one["lag"], one["lag_seconds"], one["position"]) == (6, 0, 0, "caught_up")
    commit(cluster, topic, {(topic, 0): 2})
    (one,) = lags(cluster, topic)
    assert (one["lag"], one["position"]) == (4, "behind")


def test_aborted_records_are_no_lag_of_those_who_are_not_given_them(
    cluster: Cluster, unique_name: str
) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    transactions(cluster, topic, "commit", "abort", "abort")
    commit(cluster, topic, {(topic, 0): 2})
    (all_records,) = lags(cluster, topic)
    (committed,) = lags(cluster, topic, "--isolation", "read_committed")
    assert (all_records["lag"], all_records["position"]) == (7, "behind")
    assert (committed["lag"], committed["lag_seconds"], committed["position"]) == (0, 0, "caught_up")


def test_an_open_transaction_ends_the_log_for_readers_of_committed_records(
    cluster: Cluster, unique_name: str
) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, [{"value": b"v"}] * 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": unique_name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    try:
        commit(cluster, topic, {(topic, 0): 3})
        (committed,) = lags(cluster, topic, "--isolation", "read_committed")
        assert (committed["end"], committed["lag"]) == (3, 0)
        assert lags(cluster, topic)[0]["lag"] == 1
    finally:
        producer.abort_transaction(30)


def test_records_that_were_removed_before_a_group_read_them_are_told(
    cluster: Cluster, unique_name: str
) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, [{"value": b"v"}] * 10)
    commit(cluster, topic, {(topic, 0): 3})
    remove_before(cluster, topic, 8)
    (one,) = lags(cluster, topic)
    assert (one["position"], one["lag"], one["removed"], one["start"]) == ("removed", 2, 5, 8)
    assert one["lag_seconds"] is not None
    remove_before(cluster, topic, 10)
    (one,) = lags(cluster, topic)
    assert (one["position"], one["lag"], one["removed"], one["lag_seconds"]) == ("removed", 0, 7, 0)


def test_an_offset_beyond_the_end_says_that_the_log_was_cut(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, [{"value": b"v"}] * 3)
    commit(cluster, topic, {(topic, 0): 9})
    (one,) = lags(cluster, topic)
    assert (one["position"], one["lag"], one["lag_seconds"]) == ("beyond_end", 0, 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_partitions_without_an_offset(cluster: Cluster, unique_name: str, protocol: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    produce(cluster.bootstrap, topic, [{"value": b"v", "partition": 0}] * 4)
    with contextlib.closing(member(cluster, unique_name, protocol)) as reader:
        reader.subscribe([topic])
        poll_messages(reader, 4)
        reader.commit(offsets=[Position(topic, 0, 1)], asynchronous=False)
        poll_until([reader], lambda: len(reader.assignment()) == 2, "both partitions are assigned")
        first, second = lags(cluster, unique_name)
    assert (first["type"], first["lag"], first["client_id"]) == (protocol, 3, "packer")
    assert first["host"] and first["member_id"]
    assert (second["position"], second["lag"], second["lag_seconds"]) == ("not_committed", None, None)
    assert (second["offset"], second["client_id"]) == (None, "packer")


def test_a_share_group_has_the_lag_that_its_coordinator_tells(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    read_from_the_beginning(cluster, unique_name)
    with share_consumer(cluster, unique_name, topic) as reader:
        produce(cluster.bootstrap, topic, [{"value": b"v"}] * 6)
        taken = []
        share_poll_until(lambda: len(taken) >= 6, lambda: taken.extend(reader.poll(0.2) or ()))
    produce(cluster.bootstrap, topic, [{"value": b"v"}] * 4)

    def told() -> dict[str, Any]:
        (one,) = lags(cluster, unique_name, "--type", "share")
        return one

    share_poll_until(lambda: told()["lag"] in (4, 10), lambda: time.sleep(0.1))
    one = told()
    assert one["type"] == "share" and one["position"] == "behind" and one["lag_seconds"] is not None


def test_a_streams_group_has_members_and_offsets(cluster: Cluster, unique_name: str) -> None:
    group = topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    produce(cluster.bootstrap, topic, [{"value": b"v", "partition": 0}] * 7)
    joining = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="AAAAAAAAAAAAAAAAAAAAAQ",
        process_id="a-process",
        rebalance_timeout_ms=60_000,
        topology=Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=[topic])]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    with WireClient.connect(cluster.bootstrap, "a-client") as wire:
        eventually(lambda: wire.call(joining).error_code == 0, "the member has joined")
        assert all(one["type"] == "streams" for one in lags(cluster, group, "--type", "streams"))
        run = ottla(cluster.bootstrap, "group", "remove-member", group, "--all", "--yes")
        assert run.code == 0, run
    commit(cluster, group, {(topic, 0): 3})
    (one,) = lags(cluster, group, "--type", "streams")
    assert (one["type"], one["partition"], one["lag"], one["position"]) == ("streams", 0, 4, "behind")


def test_the_exit_code_tells_of_bounds_that_are_passed(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, [{"value": b"v"}] * 5)
    commit(cluster, topic, {(topic, 0): 1})
    for words, code, status in (
        (("--warn-lag", "4", "--fail-on", "warn"), ExitCode.DONE, "OK"),
        (("--warn-lag", "3", "--fail-on", "warn"), ExitCode.FOUND, "WARN"),
        (("--warn-lag", "3", "--fail-on", "error"), ExitCode.DONE, "WARN"),
        (("--error-lag", "3", "--fail-on", "error"), ExitCode.FOUND, "ERR"),
        (("--error-lag", "3"), ExitCode.DONE, "ERR"),
    ):
        run = ottla(cluster.bootstrap, "lag", "--json", "--group", topic, *words)
        assert (run.code, [one["status"] for one in run.rows]) == (code, [status]), words


def test_repeated_readings_are_judged_by_bounds_and_by_commits(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, [{"value": b"v"}] * 5)
    commit(cluster, topic, {(topic, 0): 1})
    watch = ("--watch", "0.05", "--count", "3", "--fail-on", "warn")
    run = ottla(cluster.bootstrap, "lag", "--json", "--group", topic, *watch)
    # nothing is known yet of when it commits, whatever its lag is
    assert (run.code, [one["status"] for one in run.rows]) == (ExitCode.DONE, ["OK", "OK", "OK"])
    run = ottla(cluster.bootstrap, "lag", "--json", "--group", topic, *watch, "--warn-lag", "3")
    assert (run.code, [one["status"] for one in run.rows]) == (ExitCode.FOUND, ["WARN", "WARN", "WARN"])


def test_the_first_records_of_a_topic_that_was_made_again_are_found_by_the_same_client(
    cluster: Cluster,
) -> None:
    """The client knows the id of the topic that is gone: its leader refuses it, and is asked with the new."""
    topic = f"again-{random.getrandbits(32):x}"
    place = (TopicPartition(topic, 0), 0)

    async def times() -> list[int | None]:
        client = ClusterRequests(ClusterAccess(cluster.bootstrap))
        found = []
        try:
            for timestamp_ms in (1_000, 2_000):
                await asyncio.to_thread(make_again, timestamp_ms)
                found.append((await first_record_times(client, [place]))[place])
        finally:
            await client.close()
        return found

    def make_again(timestamp_ms: int) -> None:
        if timestamp_ms > 1_000:
            assert ottla(cluster.bootstrap, "topic", "delete", "--yes", topic).code == ExitCode.DONE
        create_topic(cluster.bootstrap, topic)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce(topic, b"v", timestamp=timestamp_ms)
        assert producer.flush(30) == 0

    assert asyncio.run(times()) == [1_000, 2_000]
