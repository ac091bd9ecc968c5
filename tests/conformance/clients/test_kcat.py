"""kcat, the command-line client that Debian ships: an older librdkafka than confluent-kafka's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.clients.confluent import create_topic
from support.servers.cluster import Cluster

pytestmark = pytest.mark.system("kcat")


def kcat(cluster: Cluster, *arguments: str, input: bytes = b"", timeout_s: float = 30) -> str:
    done = subprocess.run(
        ["kcat", "-b", cluster.bootstrap, "-q", *arguments],
        input=input,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_metadata(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=3)
    listed = json.loads(kcat(cluster, "-L", "-J", "-t", topic))
    (broker,) = listed["brokers"]
    assert broker["name"] == cluster.bootstrap
    assert listed["controllerid"] == broker["id"]
    (described,) = listed["topics"]
    assert described["topic"] == topic
    assert [(p["partition"], p["leader"]) for p in described["partitions"]] == [
        (number, broker["id"]) for number in range(3)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_lines_are_consumed(cluster: Cluster, unique_name: str, codec: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name)
    lines = "".join(f"key-{number}:value {number}\n" for number in range(200))
    # when
    kcat(cluster, "-P", "-t", topic, "-z", codec, "-K:", input=lines.encode())
    # then
    assert kcat(cluster, "-C", "-t", topic, "-e", "-K:", "-o", "beginning") == lines
    assert (
        kcat(cluster, "-C", "-t", topic, "-e", "-o", "-2", "-f", "%o %k\\n") == "198 key-198\n199 key-199\n"
    )


def test_headers_and_nulls(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    kcat(cluster, "-P", "-t", topic, "-H", "trace=abc", "-H", "empty=", "-k", "k", input=b"with headers")
    kcat(cluster, "-P", "-t", topic, "-Z", "-K:", input=b"k:\n")
    first, second = map(json.loads, kcat(cluster, "-C", "-t", topic, "-e", "-J").splitlines())
    assert first["headers"] == ["trace", "abc", "empty", ""]
    assert (first["key"], first["payload"]) == ("k", "with headers")
    assert (second["key"], second["payload"]) == ("k", None)


def test_offsets_by_time(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    kcat(cluster, "-P", "-t", topic, input=b"a\nb\nc\n")
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:-2") == f"{topic} [0] offset 0\n"
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:1") == f"{topic} [0] offset 0\n"
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:-1") == f"{topic} [0] offset 3\n"


def test_idempotent_and_large(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    file = tmp_path / "large"
    file.write_bytes(b"0123456789" * 90_000)
    kcat(cluster, "-P", "-t", topic, "-X", "enable.idempotence=true", str(file))
    assert kcat(cluster, "-C", "-t", topic, "-e", "-f", "%S") == "900000"


def test_group_reads_on_where_it_stopped(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    kcat(cluster, "-P", "-t", topic, "-p", "0", input=b"a\nb\n")
    kcat(cluster, "-P", "-t", topic, "-p", "1", input=b"c\nd\n")
    settings = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-e", "-u")
    # when
    first = kcat(cluster, *settings, "-G", unique_name, topic)
    # then
    assert sorted(first.split()) == ["a", "b", "c", "d"]
    kcat(cluster, "-P", "-t", topic, "-p", "1", input=b"e\n")
    assert kcat(cluster, *settings, "-G", unique_name, topic).split() == ["e"]
