"""`ottla log` on directories that ottla and Apache Kafka write: it says the same as DumpLogSegments."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from ottla.cli.main import main
from support.clients.confluent import create_topic, poll_messages
from support.clients.named_states import plain_name, seed_of_this_run
from support.clients.ottla_command import CommandRun, done, ottla
from support.java.java_tools import run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker

TOOL = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.log.max.snapshot.interval.ms": "1000",
}
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
TIMESTAMP_TYPES = {"CREATE_TIME": "CreateTime", "LOG_APPEND_TIME": "LogAppendTime"}

START = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}


def log(*words: str) -> CommandRun:
    """Run `ottla log` in this process."""
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["log", *words])
    return CommandRun(words, code, out.getvalue(), err.getvalue())


def fill(bootstrap: str, draw: random.Random) -> str:
    """Records of every codec, transactions that commit, abort and stay open, groups of three kinds."""
    topic = f"t{plain_name()}"
    settings = {"segment.bytes": "1048576", "index.interval.bytes": "600"}
    create_topic(bootstrap, topic, 2, settings)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": draw.random() < 0.5,
                "batch.num.messages": draw.randint(1, 20),
                "linger.ms": 2,
            }
        )
        for _ in range(200):
            key = None if draw.random() < 0.2 else draw.randbytes(draw.randint(0, 10))
            value = None if draw.random() < 0.1 else draw.randbytes(draw.randint(0, 2_500))
            headers = [(f"h{number}", draw.randbytes(2)) for number in range(draw.randrange(3))]
            producer.produce(topic, value, key, partition=draw.randrange(2), headers=headers)
        producer.flush(30)
    for ending in ("commit", "abort", "commit", "abort", "open"):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{ending}-{topic}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, draw.randbytes(50), partition=draw.randrange(2))
        producer.flush(30)
        if ending == "commit":
            producer.commit_transaction(30)
        elif ending == "abort":
            producer.abort_transaction(30)
        else:
            producer.purge()
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{protocol}-{topic}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        poll_messages(consumer, 5)
        consumer.commit(asynchronous=False)
        consumer.close()
    words = ("group", "reset", f"share-{topic}", "--type", "share", "--topic", topic, "--to")
    for place in ("earliest", "latest"):
        done(bootstrap, *words, place, "--execute")
    return topic


@pytest.fixture(scope="module")
def written(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The data directory of a node that has stopped, and its topic; what it said while it ran was checked."""
    directory = tmp_path_factory.mktemp("written") / "node"
    start: Callable[..., AbstractContextManager[Any]] = START[cluster.name]
    with start(directory, settings=SETTINGS) as node:
        data = directory / "logs" if cluster.name == "apache-kafka" else directory
        topic = fill(node.bootstrap, random.Random(seed_of_this_run()))
        live = log("verify", str(data), "--json")
        live_rows = ottla(node.bootstrap, "log", "dump", "--topic", topic, "--records", "--json").rows
    assert (live.code, live.out) == (0, ""), "the directory of a broker that runs has no bad place"
    # through the broker and from the files the records are the same
    files = log("dump", str(data / f"{topic}-0"), "--records", "--json").rows
    named = ("batch", "record")
    assert [_placeless(row) for row in files if row["kind"] in named] == [
        _placeless(row) for row in live_rows
    ]
    yield data, topic


def _placeless(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("file", "position")}


def dumped(files: list[Path], *options: str) -> dict[str, list[str]]:
    """What DumpLogSegments says of each file."""
    run = run_java(TOOL, *options, "--files", ",".join(map(str, files)))
    assert run.returncode == 0 and "Exception" not in run.stderr, run
    said: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in run.stdout.splitlines():
        if line.startswith("Dumping "):
            lines = said.setdefault(line.removeprefix("Dumping "), [])
        elif not line.startswith(("Log starting offset", "Snapshot end offset", "KRaft bootstrap")):
            lines.append(line)
    return said


def ours(files: list[Path], *options: str) -> dict[str, list[dict[str, Any]]]:
    """What `ottla log dump` says of each file."""
    run = log("dump", *map(str, files), *options, "--json")
    assert (run.code, run.err) == (0, ""), run
    said: dict[str, list[dict[str, Any]]] = {str(file): [] for file in files}
    for row in run.rows:
        said[row["file"]].append(row)
    return said


def batch_line(row: dict[str, Any]) -> str:
    """A batch in the words of DumpLogSegments."""
    horizon = row["delete_horizon_ms"]
    facts = {
        "baseOffset": row["base_offset"],
        "lastOffset": row["last_offset"],
        "count": row["count"],
        "baseSequence": row["base_sequence"],
        "lastSequence": row["last_sequence"],
        "producerId": row["producer_id"],
        "producerEpoch": row["producer_epoch"],
        "partitionLeaderEpoch": row["leader_epoch"],
        "isTransactional": str(row["transactional"]).lower(),
        "isControl": str(row["control"]).lower(),
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        "position": row["position"],
        TIMESTAMP_TYPES[row["timestamp_type"]]: row["max_timestamp"],
        "size": row["size_bytes"],
        "magic": row["magic"],
        "compresscodec": row["compression"],
        "crc": row["crc"],
        "isvalid": str(row["valid"]).lower(),
    }
    return " ".join(f"{name}: {value}" for name, value in facts.items())


def record_line(row: dict[str, Any]) -> str:
    """The first part of a record in the words of DumpLogSegments."""
    keys = ",".join(row["header_keys"])
    return (
        f"| offset: {row['offset']} CreateTime: {row['timestamp']} keySize: {row['key_size']} "
        f"valueSize: {row['value_size']} sequence: {row['sequence']} headerKeys: [{keys}]"
    )


def test_no_file_has_a_bad_place(written: tuple[Path, str]) -> None:
    data, topic = written
    run = log("verify", str(data), "--json")
    assert (run.code, run.out, run.err) == (0, "", "")
    assert log("verify", str(data / f"{topic}-0"), "--gaps").code == 0


def test_every_file_is_told(written: tuple[Path, str]) -> None:
    """All files that the node keeps, but those without content, are known and told."""
    data, _ = written
    run = log("dump", str(data), "--records", "--json")
    assert (run.code, run.err) == (0, ""), run.err
    told = {row["file"] for row in run.rows}
    kept = {str(path) for path in data.rglob("*") if path.is_file() and path.stat().st_size}
    untold = {Path(path).name for path in kept - told}
    # indexes that Apache Kafka has set aside have no entries yet, checkpoints may be empty
    assert not {
        name
        for name in untold
        if not re.search(r"\.(index|timeindex|snapshot)$|checkpoint$|^\.lock$|^\.kafka_cleanshutdown$", name)
    }, untold
    names = {Path(path).name for path in told}
    assert {"meta.properties", "quorum-state", "partition.metadata", "leader-epoch-checkpoint"} <= names
    assert any(name.endswith(".checkpoint") for name in names)


@pytest.mark.java
def test_batches_and_records_are_those_of_the_tool(written: tuple[Path, str]) -> None:
    data, topic = written
    files = sorted(data.glob(f"{topic}-*/*.log"))
    assert files
    theirs, mine = dumped(files, "--deep-iteration"), ours(files, "--records")
    for file in map(str, files):
        lines = [batch_line(row) if row["kind"] == "batch" else record_line(row) for row in mine[file]]
        said = [re.sub(r"( headerKeys: \[.*?\]).*", r"\1", line) for line in theirs[file]]
        assert lines == said
        markers = [
            f"endTxnMarker: {row['type']} coordinatorEpoch: {row['value']['coordinatorEpoch']}"
            for row in mine[file]
            if "type" in row
        ]
        found = [match[0] for line in theirs[file] if (match := re.search("endTxnMarker: .*", line))]
        assert markers == found


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize("internal", sorted(DECODERS))
def test_internal_records_are_those_of_the_tool(written: tuple[Path, str], internal: str) -> None:
    data, _ = written
    files = sorted(path for path in data.glob(f"{internal}-*/*.log") if path.stat().st_size)
    if internal == "__cluster_metadata":
        files += sorted(data.glob("**/*.checkpoint"))
    assert files
    theirs, mine = dumped(files, DECODERS[internal]), ours(files, "--records")
    decoded = 0
    for file in map(str, files):
        rows = [row for row in mine[file] if row["kind"] == "record"]
        lines = [line for line in theirs[file] if line.startswith("|")]
        assert len(rows) == len(lines), file
        for row, line in zip(rows, lines, strict=True):
            assert line.startswith(f"| offset: {row['offset']} ")
            decoded += _decoded_alike(row, line)
    assert decoded


def _decoded_alike(row: dict[str, Any], line: str) -> bool:
    """Whether the tool's line has JSON, which must be ours."""
    key = re.search(r" key: (\{.*?\}\})(?= payload| *$)", line)
    payload = re.search(r" payload: (\{.*\})$", line)
    if payload is None:
        control = re.search(r" (?:SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters):? (\{.*\})", line)
        if control is not None:
            assert json.loads(control[1]) == row["value"], line
        return False
    value = json.loads(payload[1])
    if key is not None:
        assert json.loads(key[1])["data"] == row["key"], line
    assert value["data"] == row["value"], line
    assert int(value["version"]) == row["version"], line
    return True


@pytest.mark.java
@pytest.mark.long
def test_side_files_are_those_of_the_tool(written: tuple[Path, str]) -> None:
    data, topic = written
    lines_of: dict[str, Callable[[dict[str, Any]], str]] = {
        ".index": lambda row: f"offset: {row['offset']} position: {row['position']}",
        ".timeindex": lambda row: f"timestamp: {row['timestamp']} offset: {row['offset']}",
        ".txnindex": lambda row: (
            f"version: {row['version']} producerId: {row['producer_id']} firstOffset: {row['first_offset']} "
            f"lastOffset: {row['last_offset']} lastStableOffset: {row['last_stable_offset']}"
        ),
        ".snapshot": _producer_line,
    }
    for suffix, line_of in lines_of.items():
        files = sorted(path for path in data.glob(f"{topic}-*/*{suffix}") if path.stat().st_size)
        assert files, suffix
        theirs, mine = dumped(files), ours(files)
        for file in map(str, files):
            said = [line.strip() for line in theirs[file] if not line.endswith("is empty.")]
            assert sorted(map(line_of, mine[file])) == sorted(said), file


def _producer_line(row: dict[str, Any]) -> str:
    first = row["current_txn_first_offset"]
    facts = {
        "producerId": row["producer_id"],
        "producerEpoch": row["epoch"],
        "coordinatorEpoch": row["coordinator_epoch"],
        "currentTxnFirstOffset": "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]",
        "lastTimestamp": row["timestamp_ms"],
    }
    if row["last_offset"] >= 0:
        facts |= {
            "firstSequence": (row["last_sequence"] - row["offset_delta"]) & 0x7FFFFFFF
            if row["last_sequence"] >= 0
            else -1,
            "lastSequence": row["last_sequence"],
            "lastOffset": row["last_offset"],
            "offsetDelta": row["offset_delta"],
            "timestamp": row["timestamp_ms"],
        }
    return " ".join(f"{name}: {value}" for name, value in facts.items())


def test_offsets_and_times_choose_the_records(written: tuple[Path, str]) -> None:
    data, topic = written
    directory = str(data / f"{topic}-1")
    whole = [row for row in log("dump", directory, "--records", "--json").rows if row["kind"] == "record"]
    draw = random.Random(len(whole))
    for _ in range(10):
        first, last = sorted(draw.sample(range(len(whole)), 2))
        words = ("--records", "--offset", str(whole[first]["offset"]), "--to", str(whole[last]["offset"]))
        rows = [row for row in log("dump", directory, *words, "--json").rows if row["kind"] == "record"]
        assert rows == whole[first : last + 1]
        moment = whole[first]["timestamp"]
        rows = log("dump", directory, "--records", "--at", str(moment), "-n", "3", "--json").rows
        records = [row for row in rows if row["kind"] == "record"]
        begin = next(index for index, row in enumerate(whole) if row["timestamp"] >= moment)
        assert records == whole[begin : begin + 3]


@pytest.mark.java
@pytest.mark.long
def test_damage_is_found_where_the_tool_finds_it(written: tuple[Path, str], tmp_path: Path) -> None:
    data, topic = written
    shutil.copytree(data / f"{topic}-0", tmp_path / f"{topic}-0")
    segment = sorted((tmp_path / f"{topic}-0").glob("*.log"))[0]
    draw = random.Random(seed_of_this_run())
    content = bytearray(segment.read_bytes())
    batches = ours([segment])[str(segment)]
    damaged = sorted(draw.sample(range(len(batches)), 5))
    for number in damaged:
        content[batches[number]["position"] + 61 + draw.randrange(5)] ^= 1 << draw.randrange(8)
    segment.write_bytes(content)
    said = [line for line in dumped([segment])[str(segment)] if line.endswith("isvalid: false")]
    found = log("verify", str(segment), "--json")
    assert found.code == 1
    positions = [row["position"] for row in found.rows if row["file"] == str(segment)]
    assert positions == [batches[number]["position"] for number in damaged]
    assert positions == [int(match[1]) for line in said if (match := re.search(r"position: (\d+)", line))]
