"""Unanswered records are read again: clients that die, answers that are not taken, reads that are full."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor

import httpx

from support.clients.confluent import create_topic, eventually, produce
from support.rest.rest_instances import Instance, cut
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess


def number(record: dict[str, str]) -> int:
    return int(base64.b64decode(record["value"]).strip())


def fill(broker: OttlaBroker, topic: str, count: int, size: int = 10) -> None:
    produce(broker.bootstrap, topic, [{"value": b"%*d" % (size, n)} for n in range(count)])


def test_a_client_that_dies_while_its_read_collects_loses_nothing(
    broker: OttlaBroker, rest: ServiceProcess
) -> None:
    topic = create_topic(broker.bootstrap, "died-collecting")
    with Instance.make(
        rest.url, "dying", fetch_min_bytes=-1, consumer_request_timeout_ms=60_000, auto_commit_enable="true"
    ) as instance:
        instance.subscribe(topic)
        eventually(lambda: instance.partitions() == [0], "the instance has its partition")
        connection = instance.begin_read()
        fill(broker, topic, 100)
        cut(connection)
        # the read's turn ends with the connection, not after its minute
        found = instance.read(timeout=2_000)
        assert [number(each) for each in found] == list(range(100))


def test_an_answer_that_is_not_taken_comes_again(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "not-taken")
    fill(broker, topic, 400, 100_000)
    with Instance.make(
        rest.url, "takers", fetch_min_bytes=10_000_000, consumer_request_timeout_ms=20_000
    ) as instance:
        instance.assign(topic, 0)
        connection = instance.begin_read()
        connection.settimeout(30)
        assert connection.recv(17) == b"HTTP/1.1 200 OK\r\n"  # some of 13 MB
        cut(connection)
        found = instance.read_records(400, timeout=2_000)
        assert [number(each) for each in found] == list(range(400))
        instance.post("offsets")
        assert instance.committed(topic, 0) == {0: 400}


def test_records_beyond_max_bytes_come_with_the_next_read(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "cut-short")
    fill(broker, topic, 1_000, 100)
    with Instance.make(rest.url, "cutters") as instance:
        instance.assign(topic, 0)
        found = []
        while len(found) < 1_000:
            some = instance.read(max_bytes=9_999)
            assert 1 <= len(some) <= 99
            found += [number(each) for each in some]
        assert found == list(range(1_000))


def test_an_unread_instance_drops_fetched_records_and_keeps_its_position(
    broker: OttlaBroker, rest: ServiceProcess
) -> None:
    topic = create_topic(broker.bootstrap, "unread", partitions=2)
    produce(broker.bootstrap, topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(1_000)])
    with Instance.make(rest.url, "pausing") as instance:
        instance.subscribe(topic)
        found = [number(each) for each in instance.read(max_bytes=100)]
        instance.post("offsets")
        # an instance without reads pauses, and then serves its group
        with Instance.make(rest.url, "pausing") as guest:
            guest.subscribe(topic)
            eventually(lambda: len(instance.partitions()) == len(guest.partitions()) == 1, "each has one")
        eventually(lambda: instance.partitions() == [0, 1], "the guest has left")
        found += [number(each) for each in instance.read_records(1_000 - len(found))]
        assert sorted(found) == list(range(1_000))


def test_long_reads_delay_no_other_request(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "held")
    empty = create_topic(broker.bootstrap, "held-empty")
    fill(broker, topic, 1)
    with (
        Instance.make(rest.url, "waiting", consumer_request_timeout_ms=60_000) as waiting,
        Instance.make(rest.url, "quick") as quick,
        ThreadPoolExecutor(1) as thread,
    ):
        waiting.assign(empty, 0)
        quick.assign(topic, 0)
        long = thread.submit(waiting.ask_records)
        assert len(quick.read_records(1)) == 1
        assert not long.done()
        # deleting the instance ends its read
        assert httpx.delete(waiting.base).status_code == 204
        assert long.result(20).status_code == 200


def test_reads_of_one_instance_take_turns(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "turns", partitions=4)
    records = [{"value": b"%d" % n, "partition": n % 4} for n in range(2_000)]
    produce(broker.bootstrap, topic, records)
    with Instance.make(rest.url, "turners") as instance, ThreadPoolExecutor(8) as threads:
        instance.assign(topic, 0, 1, 2, 3)
        found: list[int] = []
        while len(found) < 2_000:
            answers = [threads.submit(instance.read, max_bytes=400, timeout=500) for _ in range(8)]
            found += [number(record) for answer in answers for record in answer.result(30)]
        assert sorted(found) == list(range(2_000))
