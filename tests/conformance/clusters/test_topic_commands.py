"""`ottla topic` on a cluster: what it does, and that it says the same of it as kafka-topics.sh."""

from __future__ import annotations

import random
import re
import string
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.clients.confluent import produce
from support.clients.ottla_command import done, ottla, refused
from support.java.java_tools import run_java
from support.servers.cluster import Cluster
from support.servers.clusters import NodeCluster

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
CONFIGS = {
    "cleanup.policy": ["delete", "compact", "compact,delete"],
    "compression.type": ["zstd", "lz4", "uncompressed", "producer"],
    "retention.ms": ["-1", "1", "9223372036854775807"],
    "segment.bytes": ["1048576", "536870912"],
    "max.message.bytes": ["0", "2097164"],
    "min.insync.replicas": ["1", "2", "3"],
    "message.timestamp.type": ["CreateTime", "LogAppendTime"],
    "unclean.leader.election.enable": ["true", "false"],
    "min.cleanable.dirty.ratio": ["0.0", "0.5", "1.0"],
}


def names(rows: list[dict[str, Any]], key: str = "name") -> list[str]:
    return [row[key] for row in rows]


# -- what it does --------------------------------------------------------------------------------------------


def test_a_topic_from_its_creation_to_its_end(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    shape = ("--partitions", "3", "--config", "retention.ms=5000")
    (created,) = done(at, "topic", "create", unique_name, *shape)
    assert created["created"] is True
    assert (created["partitions"], created["replication_factor"]) == (3, 1)
    (listed,) = done(at, "topic", "list", unique_name)
    assert listed["topic_id"] == created["topic_id"]
    assert (listed["partitions"], listed["under_replicated"], listed["unavailable"]) == (3, 0, 0)

    assert f"topic {unique_name} exists already" in refused(at, "topic", "create", unique_name)
    (there,) = done(at, "topic", "create", unique_name, "--if-not-exists")
    assert there == {"name": unique_name, "created": False}

    done(at, "topic", "alter", unique_name, "--partitions", "5", "--delete-config", "retention.ms")
    assert "INVALID_PARTITIONS" in refused(at, "topic", "alter", unique_name, "--partitions", "5")
    (described,) = done(at, "topic", "describe", unique_name, "--offsets")
    assert described["partition_count"] == len(described["partitions"]) == 5
    assert "retention.ms" not in described["configs"]
    offsets = [(row["partition"], row["start_offset"], row["end_offset"]) for row in described["partitions"]]
    assert offsets == [(number, 0, 0) for number in range(5)]

    assert done(at, "topic", "delete", unique_name) == [{"name": unique_name, "deleted": True}]
    assert f"topic {unique_name} does not exist" in refused(at, "topic", "describe", unique_name)
    assert done(at, "topic", "delete", unique_name, "--if-exists") == []
    assert done(at, "topic", "describe", unique_name, "--if-exists") == []


def test_several_topics_of_which_some_fail(cluster: Cluster, unique_name: str) -> None:
    at, good, bad = cluster.bootstrap, f"{unique_name}-good", f"{unique_name}-bad?"
    run = ottla(at, "topic", "create", good, bad, "--json")
    assert (run.code, names(run.rows)) == (1, [good])
    (line,) = run.err.splitlines()
    assert line.startswith(f"ottla topic create: topic {bad}: ")
    assert line.endswith("(INVALID_TOPIC_EXCEPTION)")
    run = ottla(at, "topic", "delete", good, f"{good}er", "--json")
    assert (run.code, names(run.rows)) == (1, [good])
    assert run.err == f"ottla topic delete: topic {good}er does not exist; did you mean {good}?\n"


def test_validation_changes_nothing(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    (valid,) = done(at, "topic", "create", unique_name, "--partitions", "2", "--validate-only")
    assert (valid["created"], valid["partitions"]) == (False, 2)
    assert "does not exist" in refused(at, "topic", "describe", unique_name)
    problem = refused(at, "topic", "create", unique_name, "--validate-only", "--config", "retention.ms=x")
    assert "INVALID_CONFIG" in problem
    done(at, "topic", "create", unique_name, "--partitions", "1")
    (altered,) = done(
        at, "topic", "alter", unique_name, "--partitions", "4", "--config", "segment.ms=9", "--validate-only"
    )
    assert altered["altered"] is False
    (described,) = done(at, "topic", "describe", unique_name)
    assert described["partition_count"] == 1
    assert "segment.ms" not in described["configs"]


def test_patterns_mean_all_that_match_and_never_internal_topics(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    topics = [f"{unique_name}-{letter}" for letter in "abc"]
    done(at, "topic", "create", *topics, f"{unique_name}.other")
    assert names(done(at, "topic", "list", f"{unique_name}-[ab]")) == topics[:2]
    assert names(done(at, "topic", "list", "--regex", f"{unique_name}-(a|c)")) == [topics[0], topics[2]]
    asked = refused(at, "topic", "delete", f"{unique_name}-*")
    assert f"to delete 3 topics with 3 partitions ({', '.join(topics)}) needs a yes" in asked
    assert names(done(at, "topic", "list", f"{unique_name}*")) == [*topics, f"{unique_name}.other"]
    done(at, "topic", "alter", f"{unique_name}-*", "--config", "segment.ms=77000")
    overridden = done(at, "topic", "list", f"{unique_name}*", "--overrides")
    assert names(overridden) == topics
    assert names(done(at, "topic", "delete", f"{unique_name}-*", "--yes")) == topics
    assert "no topic matches" in refused(at, "topic", "delete", f"{unique_name}-*", "--yes")
    assert refused(at, "topic", "delete", "__consumer_offset*", "--yes").endswith("no topic matches")


def test_a_purge_leaves_what_is_later(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    done(at, "topic", "create", unique_name, "--partitions", "2")
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    times = [int((long_ago + timedelta(minutes=minute)).timestamp() * 1_000) for minute in range(10)]
    produce(at, unique_name, [{"value": b"v", "partition": 0, "timestamp": time_ms} for time_ms in times])
    purge = ("topic", "purge", unique_name, "--partition", "0")
    assert done(at, *purge, "--before", "2") == [
        {"name": unique_name, "partition": 0, "start_offset": 2, "deleted": 2}
    ]
    (by_time,) = done(at, *purge, "--before", "@2020-01-01T00:05")
    assert (by_time["start_offset"], by_time["deleted"]) == (5, 3)
    assert "OFFSET_OUT_OF_RANGE" in refused(at, *purge, "--before", "999")
    everything = done(at, "topic", "purge", unique_name, "--before", "@-1h")
    assert [(row["start_offset"], row["deleted"]) for row in everything] == [(10, 5), (0, 0)]
    problem = refused(at, "topic", "purge", unique_name, "--partition", "7")
    assert f"{unique_name} has no partition 7" in problem


def test_an_assignment_places_replicas(three_nodes: NodeCluster, unique_name: str) -> None:
    at = three_nodes.bootstrap
    done(at, "topic", "create", unique_name, "--replica-assignment", "3:1,1:2")
    (described,) = done(at, "topic", "describe", unique_name)
    assert [row["replicas"] for row in described["partitions"]] == [[3, 1], [1, 2]]
    done(at, "topic", "alter", unique_name, "--replica-assignment", "3:1,1:2,2:3,3:2")
    (described,) = done(at, "topic", "describe", unique_name)
    assert [row["replicas"] for row in described["partitions"]] == [[3, 1], [1, 2], [2, 3], [3, 2]]
    assert "INVALID_REPLICA_ASSIGNMENT" in refused(
        at, "topic", "create", f"{unique_name}-2", "--replica-assignment", "1:9"
    )


def test_partitions_in_trouble_are_found(three_nodes: NodeCluster, unique_name: str) -> None:
    at = three_nodes.bootstrap
    done(at, "topic", "create", f"{unique_name}-whole", "--replica-assignment", "1:2")
    done(
        at,
        "topic",
        "create",
        f"{unique_name}-lame",
        "--replica-assignment",
        "1:3,2:1",
        "--config",
        "min.insync.replicas=2",
    )
    done(at, "topic", "create", f"{unique_name}-lost", "--replica-assignment", "3")
    three_nodes.stop(3)
    mine = f"{unique_name}*"
    found = {
        option: [
            (row["topic"].rpartition("-")[2], row["partition"])
            for row in done(at, "topic", "describe", mine, f"--{option}")
        ]
        for option in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr")
    }
    assert found["under-replicated"] == [("lame", 0), ("lost", 0)]
    assert found["unavailable"] == [("lost", 0)]
    assert found["under-min-isr"] == [("lame", 0), ("lost", 0)]
    assert ("lame", 1) in found["at-min-isr"]
    assert names(done(at, "topic", "list", mine, "--unavailable")) == [f"{unique_name}-lost"]
    lost, lame = done(at, "topic", "describe", f"{unique_name}-l*", "--offsets")[::-1]
    if lost["name"].endswith("lame"):
        lost, lame = lame, lost
    assert lost["partitions"][0]["leader"] is None
    assert lost["partitions"][0]["start_offset"] is None
    assert lame["partitions"][0]["offline"] == [3]


# -- what kafka-topics.sh says -------------------------------------------------------------------------------


def kafka_topics(bootstrap: str, *words: str) -> str:
    ran = run_java(TOPIC_COMMAND, "--bootstrap-server", bootstrap, *words)
    assert ran.returncode == 0, ran
    return ran.stdout


def described_by_kafka(text: str) -> dict[str, dict[str, Any]]:
    """Topics as kafka-topics.sh describes them, with ottla's keys."""
    topics: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        parts = (part.partition(":") for part in line.strip().split("\t"))
        fields = {name: value.strip() for name, _, value in parts}
        if "PartitionCount" in fields:
            topics[fields["Topic"]] = {
                "topic_id": fields["TopicId"],
                "partition_count": int(fields["PartitionCount"]),
                "replication_factor": int(fields["ReplicationFactor"]),
                "configs": config_pairs(fields["Configs"]),
                "partitions": [],
            }
        elif "Partition" in fields:
            topics.setdefault(fields["Topic"], {"partitions": []})["partitions"].append(
                {
                    "partition": int(fields["Partition"]),
                    "leader": None if fields["Leader"] == "none" else int(fields["Leader"]),
                    "replicas": ids(fields["Replicas"]),
                    "isr": ids(fields["Isr"]),
                    "elr": ids(fields["Elr"]),
                    "last_known_elr": ids(fields["LastKnownElr"]),
                }
            )
    return topics


def ids(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word not in ("", "N/A")]


def config_pairs(text: str) -> dict[str, str]:
    """Values may have commas, names don't: a name is followed by its sign of equality."""
    return dict(re.findall(r"([a-z.]+)=(.*?)(?=,[a-z.]+=|$)", text))


def as_kafka_says(row: dict[str, Any]) -> dict[str, Any]:
    """A description of ottla's without what kafka-topics.sh does not tell."""
    keys = ("topic_id", "partition_count", "replication_factor", "configs")
    return {key: row[key] for key in keys} | {"partitions": [partition_of(one) for one in row["partitions"]]}


def partition_of(row: dict[str, Any]) -> dict[str, Any]:
    found = {key: row[key] for key in ("partition", "leader", "replicas", "isr")}
    return found | {"elr": row["elr"] or [], "last_known_elr": row["last_known_elr"] or []}


def random_name() -> str:
    return "".join(random.choices(string.ascii_letters + string.digits + "._-", k=random.randrange(3, 60)))


def random_topics(bootstrap: str, prefix: str, count: int) -> list[str]:
    """Create topics with names, shapes and settings drawn at random."""
    drawn = [f"{prefix}-{random_name()}" for _ in range(count)]
    for name in drawn:
        configs = random.sample(sorted(CONFIGS), random.randrange(4))
        words = [word for one in configs for word in ("--config", f"{one}={random.choice(CONFIGS[one])}")]
        partitions, replicas = random.randrange(1, 6), random.randrange(1, 4)
        done(
            bootstrap, "topic", "create", name, *words,
            "--partitions", str(partitions), "--replication-factor", str(replicas),
        )  # fmt: skip
    return drawn


@pytest.mark.java
@pytest.mark.long
def test_descriptions_are_those_of_kafka_topics(three_nodes: NodeCluster, unique_name: str) -> None:
    at = three_nodes.bootstrap
    drawn = random_topics(at, unique_name, 12)
    pattern = f"{re.escape(unique_name)}-.*"
    for gone in ((), (random.choice((1, 2, 3)),)):
        three_nodes.stop(*gone)
        theirs = described_by_kafka(kafka_topics(at, "--describe", "--topic", pattern))
        ours = {row["name"]: as_kafka_says(row) for row in done(at, "topic", "describe", "--regex", pattern)}
        assert sorted(theirs) == sorted(drawn)
        assert ours == theirs


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("--under-replicated", "--under-replicated-partitions"),
        ("--unavailable", "--unavailable-partitions"),
        ("--under-min-isr", "--under-min-isr-partitions"),
        ("--at-min-isr", "--at-min-isr-partitions"),
    ],
)
def test_troubles_are_those_of_kafka_topics(
    three_nodes: NodeCluster, unique_name: str, ours: str, theirs: str
) -> None:
    at = three_nodes.bootstrap
    random_topics(at, unique_name, 8)
    three_nodes.stop(random.choice((1, 2, 3)))
    pattern = f"{re.escape(unique_name)}-.*"
    told = described_by_kafka(kafka_topics(at, "--describe", theirs, "--topic", pattern))
    expected = [
        {"topic": name, **partition} for name in sorted(told) for partition in told[name]["partitions"]
    ]
    found = [
        {"topic": row["topic"], **partition_of(row)}
        for row in done(at, "topic", "describe", "--regex", pattern, ours)
    ]
    assert found == expected
    listed = names(done(at, "topic", "list", "--regex", pattern, ours))
    assert listed == sorted(told)


@pytest.mark.java
@pytest.mark.long
def test_lists_are_those_of_kafka_topics(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    done(at, "topic", "create", *(f"{unique_name}{random_name()}" for _ in range(5)))
    assert ottla(at, "topic", "list", "-q").out == kafka_topics(at, "--list")
    theirs = kafka_topics(at, "--list", "--exclude-internal")
    assert ottla(at, "topic", "list", "-q", "--exclude-internal").out == theirs


# -- any words -----------------------------------------------------------------------------------------------


def random_word() -> str:
    pools = (
        string.printable,
        string.ascii_lowercase + "*?[]!-",
        "äß日本\u202e\x00\x1b\udc80=,:@",
        string.digits + ":,.-@",
    )
    return "".join(random.choices(random.choice(pools), k=random.randrange(12)))


def test_no_words_end_in_a_traceback(cluster: Cluster) -> None:
    """Only ottla's own errors are told; any other exception would come out of the command."""
    at = cluster.bootstrap
    before = set(names(done(at, "topic", "list")))
    heads = [
        ("list",), ("describe",), ("create",), ("alter",), ("purge", "--before"), ("list", "--regex"),
        ("create", "--config"), ("create", "--replica-assignment"), ("alter", "x", "--partitions"),
        ("purge", "x", "--partition"), ("delete", "--if-exists", "zz?"), ("describe", "--offsets"),
    ]  # fmt: skip
    for _ in range(150):
        head, *options = random.choice(heads)
        words = [random_word() for _ in range(random.randrange(1, 3))]
        if head in ("alter", "delete", "purge"):  # topics of other tests stay as they are
            words = [word for word in words if word not in before and not set(word) & set("*?[")]
        dashes = ("--",) if random.random() < 0.5 else ()
        run = ottla(at, "topic", head, *options, *dashes, *words)
        assert run.code in (0, 1, 2), run
        assert run.code == 0 or run.err.endswith("\n"), run
        assert "Traceback" not in run.err, run
    made = set(names(done(at, "topic", "list", "--exclude-internal"))) - before
    for name in made:
        done(at, "topic", "delete", "--", name)
