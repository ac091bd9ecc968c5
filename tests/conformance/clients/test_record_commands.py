"""`ottla produce` and `ottla consume` beside kcat, confluent-kafka and Java's tools, on any cluster."""

from __future__ import annotations

import functools
import json
import random
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from support.clients.confluent import admin_client, create_topic, eventually, read_all
from support.clients.record_commands import (
    consumed,
    produced,
    produced_json,
    run,
    started,
)
from support.java.java_tools import run_java
from support.servers.cluster import Cluster

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Drawn = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def drawn_records(seed: int, count: int) -> list[Drawn]:
    """Records of any bytes, sizes and headers."""
    dice = random.Random(seed)
    print(f"seed {seed}")

    def text(most: int) -> bytes:
        kind = dice.randrange(3)
        if kind == 0:
            return dice.randbytes(dice.randrange(most))
        if kind == 1:
            return "".join(dice.choices('aé€\U0001f600\n\x00"\\ ', k=dice.randrange(most))).encode()
        return b"x" * dice.randrange(most)

    return [
        (
            None if dice.random() < 0.2 else text(30),
            None if dice.random() < 0.1 else text(dice.choice([10, 300, 5_000])),
            [
                (dice.choice(["a", "b", "é"]), None if dice.random() < 0.3 else text(10))
                for _ in range(dice.choice([0, 0, 1, 3]))
            ],
        )
        for _ in range(count)
    ]


def as_json(data: bytes | None) -> object:
    import base64

    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def line_of(record: Drawn) -> bytes:
    key, value, headers = record
    pairs = [[name, as_json(data)] for name, data in headers]
    return json.dumps({"key": as_json(key), "value": as_json(value), "headers": pairs}).encode()


def fields(message: Message) -> Drawn:
    return message.key(), message.value(), list(message.headers() or [])


def wrote(topic: str, cluster: Cluster, records: list[Drawn], codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 20})
    for key, value, headers in records:
        producer.produce(topic, value, key, headers=headers)
    assert producer.flush(30) == 0


def test_what_ottla_produces_confluent_kafka_reads(cluster: Cluster, unique_name: str) -> None:
    """Of any bytes, in every codec."""
    topic = create_topic(cluster.bootstrap, unique_name)
    records = drawn_records(random.randrange(1 << 32), 500)
    for index, codec in enumerate(CODECS):
        part = records[100 * index : 100 * (index + 1)]
        words = ("produce", topic, "--json", "-z", codec, "--batch-bytes", "20000")
        done = run(cluster.bootstrap, *words, input=b"".join(line_of(record) + b"\n" for record in part))
        assert (done.code, json.loads(done.out)["written"]) == (0, 100), done
    assert [fields(message) for message in read_all(cluster.bootstrap, topic, 500)] == records


def test_what_confluent_kafka_produces_ottla_consumes(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    records = drawn_records(random.randrange(1 << 32), 500)
    for index, codec in enumerate(CODECS):
        wrote(topic, cluster, records[100 * index : 100 * (index + 1)], codec)
    lines = [json.loads(line) for line in consumed(cluster.bootstrap, topic, "--json").splitlines()]
    assert [line["offset"] for line in lines] == list(range(500))
    assert [(line["key"], line["value"]) for line in lines] == [
        (as_json(key), as_json(value)) for key, value, _ in records
    ]
    values = consumed(cluster.bootstrap, topic, "-f", "%V{big32}%v")
    assert values == b"".join(
        len(value or b"").to_bytes(4, "big") + (value or b"") for _, value, _ in records
    )


def test_a_topic_that_is_copied_as_json_lines_is_the_same(cluster: Cluster, unique_name: str) -> None:
    source = create_topic(cluster.bootstrap, f"{unique_name}-a", partitions=3)
    copy = create_topic(cluster.bootstrap, f"{unique_name}-b", partitions=3)
    wrote(source, cluster, drawn_records(random.randrange(1 << 32), 200))
    lines = consumed(cluster.bootstrap, source, "--json").splitlines()
    produced_json(cluster.bootstrap, copy, lines)

    def by_partition(topic: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in consumed(cluster.bootstrap, topic, "--json").splitlines()]
        for record in found:
            del record["topic"]
        return sorted(found, key=lambda record: (record["partition"], record["offset"]))

    assert by_partition(copy) == by_partition(source)


@pytest.mark.system("kcat")
def test_kcat_and_ottla_read_and_write_each_others_lines(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    lines = b"".join(b"k%d:%s\n" % (number, b"v" * (number % 90)) for number in range(500))
    assert produced(cluster.bootstrap, topic, "-K", ":", input=lines) == 500

    def kcat(*words: str, input: bytes = b"") -> bytes:
        done = subprocess.run(
            ["kcat", "-b", cluster.bootstrap, "-q", "-t", topic, *words],
            input=input, capture_output=True, timeout=30, check=True,
        )  # fmt: skip
        return done.stdout

    assert kcat("-C", "-e", "-K:", "-o", "beginning") == lines
    kcat("-P", "-K:", "-Z", "-H", "a=b", input=b"last:\n")
    form = r"%t %p %o %k %K %s %S %h %T\n"
    assert consumed(cluster.bootstrap, topic, "--kcat-format", form) == kcat(
        "-C", "-e", "-o", "beginning", "-f", form
    )
    assert consumed(cluster.bootstrap, topic, "--kcat-format", "%R%s", "--from", "-3") == kcat(
        "-C", "-e", "-o", "-3", "-f", "%R%s"
    )


@pytest.mark.java
@pytest.mark.long
def test_javas_console_tools_and_ottla_read_each_others_records(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    assert produced(cluster.bootstrap, topic, "-K", "\\t", "-H", "h=1", input=b"k1\tv1\nk2\tv2\n") == 2
    tools = "org.apache.kafka.tools"
    sent = run_java(
        f"{tools}.ConsoleProducer", "--bootstrap-server", cluster.bootstrap, "--topic", topic,
        "--property", "parse.key=true", "--property", "key.separator=:", input="k3:v3\n",
    )  # fmt: skip
    assert sent.returncode == 0, sent.stderr
    read = run_java(
        f"{tools}.consumer.ConsoleConsumer", "--bootstrap-server", cluster.bootstrap, "--topic", topic,
        "--from-beginning", "--max-messages", "3",
        "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
        "--formatter-property", "print.offset=true",
    )  # fmt: skip
    assert read.stdout.splitlines() == [
        "Offset:0\th:1\tk1\tv1",
        "Offset:1\th:1\tk2\tv2",
        "Offset:2\tNO_HEADERS\tk3\tv3",
    ]
    assert consumed(cluster.bootstrap, topic, "-f", "%o %k=%v\\n") == b"0 k1=v1\n1 k2=v2\n2 k3=v3\n"


@pytest.mark.long
def test_keys_land_where_other_clients_put_them(cluster: Cluster, unique_name: str) -> None:
    ours = create_topic(cluster.bootstrap, f"{unique_name}-a", partitions=7)
    theirs = create_topic(cluster.bootstrap, f"{unique_name}-b", partitions=7)
    dice = random.Random()
    keys = [b"%x" % dice.getrandbits(dice.choice([4, 16, 60, 200])) for _ in range(200)]
    produced(cluster.bootstrap, ours, "-K", " ", input=b"".join(key + b" v\n" for key in keys))
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs, b"v", key)
    assert producer.flush(30) == 0

    def places(topic: str) -> list[bytes]:
        return sorted(consumed(cluster.bootstrap, topic, "-f", "%k %p\\n").splitlines())

    assert places(ours) == places(theirs)


def test_places_ranges_and_counts(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    lines = [
        json.dumps({"value": str(number), "timestamp": 1_700_000_000_000 + 1_000 * number}).encode()
        for number in range(50)
    ]
    produced_json(cluster.bootstrap, topic, lines)

    def numbers(*words: str) -> list[int]:
        return [int(line) for line in consumed(cluster.bootstrap, topic, *words).splitlines()]

    assert numbers("--from", "-3") == [47, 48, 49]
    assert numbers("--from", "+48") == [48, 49]
    assert numbers("-o", "5:8") == [5, 6, 7]
    assert numbers("--from", "@2023-11-14T22:13:25Z", "--to", "@1700000008000") == [5, 6, 7]
    assert numbers("-n", "4") == [0, 1, 2, 3]
    assert numbers("--from", "end") == []
    assert numbers("--from", "1000") == []
    # an end that is not there yet is waited for
    waiting = started(cluster.bootstrap, "consume", topic, "-o", "49:52")
    try:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"49\n"
        produced(cluster.bootstrap, topic, input=b"50\n51\n52\n")
        assert waiting.communicate(timeout=30)[0] == b"50\n51\n"
        assert waiting.returncode == 0
    finally:
        waiting.kill()
        waiting.wait()


@pytest.mark.long
def test_a_reader_that_follows_gets_records_as_they_come(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    following = started(cluster.bootstrap, "consume", topic, "-f", "%v\\n")
    try:
        assert following.stdout is not None
        for word in (b"one", b"two"):
            produced(cluster.bootstrap, topic, input=word + b"\n")
            assert following.stdout.readline() == word + b"\n"
    finally:
        following.kill()
        following.communicate()


def test_the_end_is_exact_behind_transactions(cluster: Cluster, unique_name: str) -> None:
    """Aborted records are left out, markers are counted, and nothing is waited for."""
    topic = create_topic(cluster.bootstrap, unique_name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": unique_name})
    producer.init_transactions(30)
    for number, commits in enumerate((True, False, True, False)):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, str(number))
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
    committed = consumed(cluster.bootstrap, topic)
    assert committed == b"0\n" * 3 + b"2\n" * 3
    everything = consumed(cluster.bootstrap, topic, "--isolation", "read_uncommitted")
    assert everything == b"0\n" * 3 + b"1\n" * 3 + b"2\n" * 3 + b"3\n" * 3
    shown = consumed(cluster.bootstrap, topic, "--control", "--json").splitlines()
    markers = [json.loads(line) for line in shown if json.loads(line).get("control")]
    assert [marker["offset"] for marker in markers] == [3, 7, 11, 15]


def test_a_transaction_is_all_of_the_input_or_nothing(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    words = (topic, "--transactional-id", unique_name)
    writing = started(cluster.bootstrap, "produce", *words, "--linger-ms", "0", stdin=subprocess.PIPE)
    try:
        assert writing.stdin is not None
        writing.stdin.write(b"a\nb\n")
        writing.stdin.flush()
        uncommitted = ("--isolation", "read_uncommitted")
        eventually(lambda: len(consumed(cluster.bootstrap, topic, *uncommitted)) == 4, "both are written")
        assert consumed(cluster.bootstrap, topic) == b""
        _, err = writing.communicate(b"c\n", timeout=30)
        assert writing.returncode == 0, err
    finally:
        writing.kill()
        writing.wait()
    assert sorted(consumed(cluster.bootstrap, topic).split()) == [b"a", b"b", b"c"]
    # a bad line takes all of the input along
    done = run(cluster.bootstrap, "produce", *words, "--json", input=b'{"value": "d"}\n{"valu": "e"}\n')
    assert done.code == 1
    assert done.err.splitlines() == [
        "ottla produce: line 2: a record has no 'valu'; did you mean value?; nothing was written, the "
        "transaction is aborted"
    ]
    assert sorted(consumed(cluster.bootstrap, topic).split()) == [b"a", b"b", b"c"]


def test_nothing_of_a_killed_transaction_is_visible(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    words = ("produce", topic, "--transactional-id", unique_name)
    writing = started(cluster.bootstrap, *words, stdin=subprocess.PIPE)
    assert writing.stdin is not None
    writing.stdin.write(b"lost\n" * 1_000)
    writing.stdin.flush()
    uncommitted = ("--isolation", "read_uncommitted")
    eventually(
        lambda: consumed(cluster.bootstrap, topic, *uncommitted) == b"lost\n" * 1_000, "they are there"
    )
    writing.kill()
    writing.communicate()
    assert consumed(cluster.bootstrap, topic) == b""
    # the next producer of the id aborts what was left, and its own records are seen
    assert produced(cluster.bootstrap, topic, "--transactional-id", unique_name, input=b"kept\n") == 1
    assert consumed(cluster.bootstrap, topic) == b"kept\n"


def test_a_refused_record_is_named_by_its_line(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    large = b"x" * 2_000_000
    done = run(cluster.bootstrap, "produce", topic, input=b"a\nb\n" + large + b"\nc\n")
    assert done.code == 1
    (line,) = done.err.splitlines()
    assert line.startswith(f"ottla produce: line 3: {topic}-0: ")
    assert "MESSAGE_TOO_LARGE" in line
    written = int(line.rpartition("; ")[2].split()[0])
    assert consumed(cluster.bootstrap, topic).splitlines()[:2] == [b"a", b"b"][:written]
    (tmp_path / "one").write_bytes(b"1\n2\n")
    (tmp_path / "two").write_bytes(b"3\n" + large)
    done = run(cluster.bootstrap, "produce", topic, "one", "two", cwd=tmp_path)
    assert done.code == 1
    assert "two line 2: " in done.err
    missing = run(cluster.bootstrap, "produce", f"{topic}s", input=b"a\n")
    assert (missing.code, missing.err) == (
        1,
        f"ottla produce: topic {topic}s does not exist; did you mean {topic}?\n",
    )


def test_whole_files_delimiters_lengths_and_nulls(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    (tmp_path / "file").write_bytes(b"a\nb\x00")
    produced(cluster.bootstrap, topic, "--whole-file", str(tmp_path / "file"))
    produced(cluster.bootstrap, topic, "-D", "||", input=b"c||d\n||e")
    produced(cluster.bootstrap, topic, "--length-prefixed", input=b"\0\0\0\2f\n\0\0\0\0")
    produced(cluster.bootstrap, topic, "-Z", "-K", ":", "-k", "fixed", input=b"k:\n:v\nplain\n")
    produced(cluster.bootstrap, topic, "--null", "NULL", "-K", ":", input=b"NULL:NULL\n")
    found = [
        (record["key"], record["value"])
        for record in map(json.loads, consumed(cluster.bootstrap, topic, "--json").splitlines())
    ]
    assert found == [
        (None, "a\nb\x00"), (None, "c"), (None, "d\n"), (None, "e"), (None, "f\n"), (None, ""),
        ("k", None), (None, "v"), ("fixed", "plain"), (None, None),
    ]  # fmt: skip
    assert consumed(cluster.bootstrap, topic, "--null", "-", "-f", "%k=%v ", "--from", "-1") == b"-=- "


def test_a_group_goes_on_where_it_stopped(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    produced(cluster.bootstrap, topic, "-p", "0", input=b"".join(b"%d\n" % number for number in range(20)))
    produced(
        cluster.bootstrap, topic, "-p", "1", input=b"".join(b"%d\n" % number for number in range(20, 40))
    )
    group = ("--group", f"{unique_name}-g")
    first = run(cluster.bootstrap, "consume", topic, *group, "-n", "15")
    assert (first.code, len(first.lines)) == (0, 15), first
    second = consumed(cluster.bootstrap, topic, *group).splitlines()
    assert sorted(map(int, first.lines + second)) == list(range(40))
    assert consumed(cluster.bootstrap, topic, *group) == b""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"{unique_name}-g"})
    committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 30)
    assert [place.offset for place in committed] == [20, 20]
    consumer.close()


@pytest.mark.long
def test_a_group_is_shared_with_members_of_other_clients(cluster: Cluster, unique_name: str) -> None:
    """Every record is read by one of both, and ottla's share passes to the other when it ends."""
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    other = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": f"{unique_name}-g",
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range", "session.timeout.ms": 6_000, "enable.auto.commit": True,
        }
    )  # fmt: skip
    theirs: list[bytes] = []
    held: set[int] = set()
    stop = threading.Event()

    def assigned(_: Consumer, places: list[TopicPartition]) -> None:
        held.update(place.partition for place in places)

    def revoked(_: Consumer, places: list[TopicPartition]) -> None:
        held.difference_update(place.partition for place in places)

    def read() -> None:
        while not stop.is_set():
            message = other.poll(0.1)
            if message is not None and message.error() is None:
                theirs.append(message.value() or b"")

    other.subscribe([topic], on_assign=assigned, on_revoke=revoked)
    reading = threading.Thread(target=read)
    reading.start()
    ours = started(cluster.bootstrap, "consume", topic, "--group", f"{unique_name}-g")
    try:
        eventually(lambda: len(held) == 2, "both have two partitions")
        for partition in range(4):
            produced(cluster.bootstrap, topic, "-p", str(partition), input=b"%d\n" % partition)
        assert ours.stdout is not None
        got = [ours.stdout.readline().strip() for _ in range(2)]
        eventually(lambda: len(theirs) == 2, "the other has its two")
        assert sorted([*got, *theirs]) == [b"0", b"1", b"2", b"3"]
        ours.send_signal(signal.SIGINT)
        ours.communicate(timeout=30)
        assert ours.returncode == 130
        eventually(lambda: len(held) == 4, "the other has all")
    finally:
        ours.kill()
        ours.wait()
        stop.set()
        reading.join()
        other.close()


def test_a_reader_that_goes_away_ends_the_command_silently(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produced(cluster.bootstrap, topic, input=b"line\n" * 200_000)
    consuming = started(cluster.bootstrap, "consume", topic)
    assert consuming.stdout is not None and consuming.stderr is not None
    assert consuming.stdout.readline() == b"line\n"
    consuming.stdout.close()
    assert consuming.wait(30) == 141
    assert consuming.stderr.read() == b""
    consuming.stderr.close()


@pytest.mark.long
def test_records_are_acknowledged_as_asked(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    assert produced(cluster.bootstrap, topic, "--rate", "400", input=b"x\n" * 40) == 40
    for words in (("--acks", "1"), ("--acks", "0"), ("--no-idempotence",), ("--batch-bytes", "1")):
        assert produced(cluster.bootstrap, topic, *words, input=b"y\nz\n") == 2
    eventually(lambda: len(consumed(cluster.bootstrap, topic).split()) == 48, "all are there")


@pytest.mark.long
def test_bench_speaks_as_kafkas_own_tools_do(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    words = ("bench", "produce", topic, "-n", "5000", "-s", "50")
    (line,) = run(cluster.bootstrap, *words).out.decode().splitlines()
    assert line.startswith("5000 records sent, ")
    assert line.endswith(" ms 99.9th.")
    told = json.loads(run(cluster.bootstrap, *words, "--json", "--throughput", "20000").out)
    assert told["records"] == 5_000
    assert told["records_per_second"] < 21_000
    header, line = run(cluster.bootstrap, "bench", "consume", topic, "-n", "10000").out.decode().splitlines()
    assert header.split(", ")[4] == "data.consumed.in.nMsg"
    assert line.split(", ")[4] == "10000"
    told = json.loads(run(cluster.bootstrap, "bench", "latency", topic, "-n", "20", "--json").out)
    assert told["records"] == 20
    assert 0 < told["latency_p50_ms"] <= told["latency_max_ms"]


@pytest.mark.long
def test_the_end_is_exact_in_a_compacted_log(
    start_own: Callable[..., AbstractContextManager[Cluster]], unique_name: str
) -> None:
    """Holes are passed over, and the records that are left keep their offsets."""
    settings = {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0"}
    with start_own(settings=settings) as own:
        config = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0"}
        topic = create_topic(own.bootstrap, unique_name, config=config)
        lines = b"".join(b"k%d:%d\n" % (number % 10, number) for number in range(300))
        produced(own.bootstrap, topic, "-K", ":", input=lines)

        def numbers() -> list[int]:
            produced(own.bootstrap, topic, "-K", ":", input=b"last:1000\n")
            return [int(line) for line in consumed(own.bootstrap, topic).split()]

        eventually(lambda: numbers()[:11] == [*range(290, 300), 1000], "the log is compacted")
        offsets = [int(line) for line in consumed(own.bootstrap, topic, "-f", "%o\\n").split()]
        assert offsets[:10] == list(range(290, 300))
        assert consumed(own.bootstrap, topic, "-o", "5:292") == b"290\n291\n"


@pytest.mark.long
def test_an_interrupted_command_tells_what_it_has_written(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    for there, words, told in (
        (2, (), "warning: interrupted; at least 2 records were written\n"),
        (
            4,
            ("--transactional-id", unique_name),
            "warning: interrupted; nothing was written, the transaction is aborted\n",
        ),
    ):
        writing = started(cluster.bootstrap, "produce", topic, *words, stdin=subprocess.PIPE)
        try:
            assert writing.stdin is not None
            writing.stdin.write(b"a\nb\n")
            writing.stdin.flush()
            uncommitted = ("--isolation", "read_uncommitted")
            read = functools.partial(consumed, cluster.bootstrap, topic, *uncommitted)
            eventually(lambda read=read, there=there: len(read().split()) == there, "both are written")
            writing.send_signal(signal.SIGINT)
            _, err = writing.communicate(timeout=30)
            assert (writing.returncode, err.decode()) == (130, told)
        finally:
            writing.kill()
            writing.wait()
    assert consumed(cluster.bootstrap, topic) == b"a\nb\n"
    missing = run(cluster.bootstrap, "produce", topic, "/dev/null", "no-such-file")
    assert (missing.code, missing.err) == (1, "ottla produce: no-such-file: No such file or directory\n")


@pytest.mark.long
def test_a_reader_that_follows_finds_new_topics_and_partitions(cluster: Cluster, unique_name: str) -> None:
    first = create_topic(cluster.bootstrap, f"{unique_name}-1")
    following = started(
        cluster.bootstrap, "consume", f"^{unique_name}-", "--metadata-max-age-ms", "100", "-f", "%t %p %v\\n"
    )
    try:
        assert following.stdout is not None
        produced(cluster.bootstrap, first, input=b"a\n")
        assert following.stdout.readline() == f"{first} 0 a\n".encode()
        second = create_topic(cluster.bootstrap, f"{unique_name}-2")
        produced(cluster.bootstrap, second, input=b"b\n")
        assert following.stdout.readline() == f"{second} 0 b\n".encode()
        admin_client(cluster.bootstrap).create_partitions([NewPartitions(first, 2)])[first].result(20)
        eventually(
            lambda: run(cluster.bootstrap, "produce", first, "-p", "1", input=b"c\n").code == 0,
            "the new partition is there",
        )
        assert following.stdout.readline() == f"{first} 1 c\n".encode()
    finally:
        following.kill()
        following.communicate()
