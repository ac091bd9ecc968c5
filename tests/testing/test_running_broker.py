"""`ottla.testing.running_broker`: its helpers beside a real client's, and every way to break it."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from ottla.testing import (
    KafkaTestError,
    RunningBroker,
    ServerError,
    running_broker,
    running_broker_async,
)

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


def read_by_librdkafka(
    bootstrap: str, topic: str, count: int, isolation: str
) -> list[tuple[int, int, object]]:
    """The first `count` records: partition, offset, and (key, value, headers)."""
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "isolation.level": isolation}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
    consumer.subscribe([topic])
    found = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            content = message.key(), message.value(), tuple(message.headers() or ())
            found.append((message.partition(), message.offset(), content))
    consumer.close()
    return sorted(found, key=lambda record: record[:2])


# -- records ------------------------------------------------------------------------------------------------


def test_what_produce_writes_a_client_reads(broker: RunningBroker) -> None:
    # given records of all kinds, at random places
    topic = broker.topic("kinds", partitions=3)
    dice = random.Random()
    texts = ["", "ä", b"\x00\xff", None, "x" * 20_000]
    written = []
    for _ in range(30):
        key, values = dice.choice(texts), dice.choices(texts, k=dice.randrange(1, 4))
        headers = [(dice.choice(["h", "h", "ü"]), dice.choice(texts)) for _ in range(dice.randrange(3))]
        places = broker.produce(topic, *values, key=key, headers=headers)
        content = [(encoded(key), encoded(value), headers) for value in values]
        written += [
            (
                place.partition,
                place.offset,
                (key, value, tuple((name, encoded(each)) for name, each in headers)),
            )
            for place, (key, value, headers) in zip(places, content, strict=True)
        ]
    # then a client reads them, and so does `consume`
    expected = sorted(written, key=lambda record: record[:2])
    assert read_by_librdkafka(broker.bootstrap, topic, len(expected), "read_committed") == expected
    consumed = [
        (each.partition, each.offset, (each.key, each.value, each.headers)) for each in broker.consume(topic)
    ]
    assert sorted(consumed, key=lambda record: record[:2]) == expected


def encoded(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_a_client_writes_consume_reads(broker: RunningBroker, codec: str) -> None:
    topic = broker.topic(codec, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.codec": codec, "linger.ms": 5})
    values = [f"{number} {'x' * random.randrange(500)}" for number in range(2_000)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    records = broker.consume(topic, len(values))
    assert sorted(str(each.text) for each in records) == sorted(values)
    # and from an offset within a batch
    last = records[-1]
    assert broker.consume(topic, partition=last.partition, offset=last.offset)[0] == last


def test_open_and_aborted_transactions_are_left_out_unless_asked_for(broker: RunningBroker) -> None:
    # given transactions of two producers at a time, ended at random, and one that stays open
    topic = broker.topic("transactions")
    dice = random.Random()
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
    producers = [Producer({**settings, "transactional.id": f"{topic}-{number}"}) for number in range(3)]
    for producer in producers:
        producer.init_transactions(TIMEOUT_S)
    committed = []
    number = 0
    for _ in range(6):
        pair = dice.sample(producers[:2], 2)
        fates = [dice.random() < 0.5 for _ in pair]
        for producer in pair:
            producer.begin_transaction()
        for _ in range(6):
            which = dice.randrange(3)
            value = f"{number}"
            number += 1
            chosen = plain if which == 2 else pair[which]
            chosen.produce(topic, value)
            assert chosen.flush(TIMEOUT_S) == 0
            if which == 2 or fates[which]:
                committed.append(value)
        for producer, commits in zip(pair, fates, strict=True):
            if commits:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)
    producers[2].begin_transaction()
    producers[2].produce(topic, "open")
    assert producers[2].flush(TIMEOUT_S) == 0
    # then
    assert [each.text for each in broker.consume(topic)] == committed
    everything = [each.text for each in broker.consume(topic, committed=False)]
    assert everything == [f"{each}" for each in range(number)] + ["open"]


def test_too_few_records_are_told_with_those_that_came(broker: RunningBroker) -> None:
    topic = broker.topic("few")
    broker.produce(topic, "only", key="k")
    with pytest.raises(KafkaTestError) as failed:
        broker.consume(topic, 2, timeout_seconds=2)
    first, second = str(failed.value).splitlines()
    assert first == f"topic {topic} has 1 of the 2 records that were waited for, after 2 s"
    assert second == "  partition 0, offset 0: key b'k', value b'only'"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda broker: broker.consume("nowhere", timeout_seconds=0.2), "could not read nowhere"),
        (lambda broker: broker.produce("nowhere", "a", timeout_seconds=0.2), "could not produce to nowhere"),
        (lambda broker: broker.create_topic("a b"), "INVALID_TOPIC_EXCEPTION"),
        (lambda broker: broker.topic(replication_factor=2), "INVALID_REPLICATION_FACTOR"),
        (lambda broker: broker.topic(config={"retention.ms": "x"}), "INVALID_CONFIG"),
        (lambda broker: broker.produce(broker.topic(), "a", partition=1), "it has 1 partitions, none is 1"),
        (lambda broker: broker.consume(broker.topic(), partition=0, offset=9), "does not hold offset 9"),
        (lambda broker: broker.produce(broker.topic(), "x" * 2_000_000), "MESSAGE_TOO_LARGE"),
    ],
)
def test_a_mistake_is_told_in_a_line(broker: RunningBroker, call: object, message: str) -> None:
    with pytest.raises(KafkaTestError, match=message):
        call(broker)  # type: ignore[operator]


def test_a_topic_that_exists_is_not_made_again(broker: RunningBroker) -> None:
    topic = broker.topic()
    with pytest.raises(KafkaTestError, match="TOPIC_ALREADY_EXISTS"):
        broker.create_topic(topic)


# -- breaking it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_comes_back_with_its_records_at_its_address(broker: RunningBroker, end: str) -> None:
    topic = broker.topic(end)
    address, pid = broker.bootstrap, broker.pid
    broker.produce(topic, "before")
    getattr(broker, end)()
    assert not broker.running
    with pytest.raises(ConnectionRefusedError):
        connect(broker)
    with pytest.raises(ServerError, match="is not running"):
        broker.stop()
    broker.start()
    assert broker.bootstrap == address and broker.pid != pid
    broker.produce(topic, "after")
    assert [each.text for each in broker.consume(topic)] == ["before", "after"]


def connect(broker: RunningBroker) -> socket.socket:
    host, port = broker.bootstrap.split(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


def test_a_paused_broker_answers_nothing_and_goes_on_afterwards(broker: RunningBroker) -> None:
    topic = broker.topic()
    with broker.paused():
        with pytest.raises(KafkaTestError, match="no answer in time"):
            broker.produce(topic, "a", timeout_seconds=0.2)
        assert broker.running
    broker.produce(topic, "b", timeout_seconds=TIMEOUT_S)
    assert [each.text for each in broker.consume(topic)][-1] == "b"


@pytest.mark.long
def test_a_paused_broker_can_be_killed_and_stopped(broker: RunningBroker) -> None:
    broker.pause()
    broker.kill()
    broker.start()
    broker.pause()
    broker.stop()
    broker.start()
    assert broker.topic()


def test_a_client_meets_each_way_in_which_a_connection_breaks(broker: RunningBroker) -> None:
    topic = broker.topic()
    # dropped: the client comes again by itself
    failures: list[int] = []
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "error_cb": lambda error: failures.append(error.code()),
    }
    producer = Producer({**settings, "reconnect.backoff.ms": 10})
    producer.produce(topic, "first")
    assert producer.flush(TIMEOUT_S) == 0
    assert broker.drop_connections() >= 1
    producer.produce(topic, "second")
    assert producer.flush(TIMEOUT_S) == 0
    # unreachable, and silent: one without patience gives up
    impatient = Producer({**settings, "message.timeout.ms": 300})
    for broken in (broker.unreachable(), broker.silent()):
        delivered: list[KafkaError | None] = []
        with broken:
            impatient.produce(topic, "lost", on_delivery=lambda error, _, to=delivered: to.append(error))
            impatient.flush(TIMEOUT_S)
        (error,) = delivered
        assert error is not None and error.code() == KafkaError._MSG_TIMED_OUT
    assert KafkaError._TRANSPORT in failures or KafkaError._ALL_BROKERS_DOWN in failures
    assert [each.text for each in broker.consume(topic, 2)] == ["first", "second"]


def test_a_broker_that_restarts_while_it_is_unreachable_stays_so(broker: RunningBroker) -> None:
    with broker.unreachable():
        broker.restart()
        with pytest.raises(ConnectionRefusedError):
            connect(broker)
    connect(broker).close()


def test_several_threads_may_use_the_helpers(broker: RunningBroker) -> None:
    topic = broker.topic(partitions=2)
    with ThreadPoolExecutor(4) as threads:
        reading = threads.submit(broker.consume, topic, 30, timeout_seconds=TIMEOUT_S)
        list(threads.map(lambda number: broker.produce(topic, f"{number}"), range(30)))
        assert sorted(int(str(each.text)) for each in reading.result()) == list(range(30))


def test_a_delay_is_felt_by_clients_both_ways(broker: RunningBroker) -> None:
    topic = broker.topic()
    broker.produce(topic, "warm")
    with broker.delayed(50):
        before = time.monotonic()
        broker.produce(topic, "late")
        # a Metadata and a Produce request, there and back
        assert time.monotonic() - before >= 0.2
    with pytest.raises(ValueError, match="a delay is 0 to"), broker.delayed(-1):
        pass


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_lost_answer_doubles_the_records_of_a_client_that_is_not_idempotent(
    broker: RunningBroker, idempotent: bool
) -> None:
    topic = broker.topic("lost-answers")
    settings = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": idempotent}
    producer = Producer({**settings, "retry.backoff.ms": 10, "reconnect.backoff.ms": 10})
    lost = broker.lost_answers
    with broker.losing_answers("Produce"):
        producer.produce(topic, "once")
        deadline = time.monotonic() + TIMEOUT_S
        while broker.lost_answers < lost + 2 and time.monotonic() < deadline:
            producer.poll(0.05)
    assert producer.flush(TIMEOUT_S) == 0
    found = [each.text for each in broker.consume(topic)]
    assert found == ["once"] if idempotent else len(found) >= 3
    with pytest.raises(ValueError, match="NoSuchApi is no API"), broker.losing_answers("NoSuchApi"):
        pass


# -- its life -----------------------------------------------------------------------------------------------


def test_a_directory_of_ones_own_keeps_the_records(tmp_path: Path) -> None:
    with running_broker(data=tmp_path / "kept") as first:
        first.create_topic("t")
        first.produce("t", "a")
        port = int(first.bootstrap.split(":")[1])
    with running_broker(data=tmp_path / "kept", port=port) as second:
        assert second.bootstrap.endswith(f":{port}")
        assert [each.text for each in second.consume("t")] == ["a"]


def test_a_setting_reaches_the_broker_and_one_that_it_refuses_is_told_with_its_line() -> None:
    with running_broker({"num.partitions": 4, "auto.create.topics.enable": True}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("made-by-default", "a", partition=3)
        assert producer.flush(TIMEOUT_S) == 0
    told = r"did not start, exit code 1\n.*num\.partitions"
    with pytest.raises(ServerError, match=told) as refused, running_broker({"num.partitions": "many"}):
        pass
    assert "Traceback" not in str(refused.value)


def test_settings_of_its_own_and_taken_ports_are_refused() -> None:
    own = {"listeners": "PLAINTEXT://:9092", "log.dirs": "/tmp"}
    with pytest.raises(ValueError, match=r"its own listeners, log\.dirs: leave it out"), running_broker(own):
        pass
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(OSError, match="in use"), running_broker(port=taken):
            pass


def test_an_exception_in_the_block_carries_the_end_of_the_log() -> None:
    with pytest.raises(RuntimeError) as failed, running_broker() as broker:
        raise RuntimeError("the test's own")
    (note,) = failed.value.__notes__
    assert note.startswith(f"the end of log of broker 1 at {broker.bootstrap}:\n")
    assert "node started" in note


def test_a_file_of_the_project_named_as_a_module_of_python_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logging.py").write_text("raise SystemExit('loaded')")
    monkeypatch.chdir(tmp_path)
    with running_broker() as broker:
        assert broker.running


def test_asynchronous_code_may_start_one_without_holding_its_loop() -> None:
    async def story() -> tuple[int, int]:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        counting = asyncio.create_task(count())
        async with running_broker_async() as broker:
            started = turns
            topic = await asyncio.to_thread(broker.topic)
            assert topic
        counting.cancel()
        return started, broker.server.log_size_bytes()

    turns, _ = asyncio.run(story())
    assert turns > 10


@pytest.mark.long
def test_an_exception_in_an_asynchronous_block_ends_the_broker() -> None:
    seen: list[RunningBroker] = []

    async def story() -> None:
        async with running_broker_async() as broker:
            seen.append(broker)
            raise RuntimeError("the test's own")

    with pytest.raises(RuntimeError, match="the test's own"):
        asyncio.run(story())
    assert not seen[0].running
