"""`ottla group` on a cluster: what it does, and that it says the same of it as Kafka's own tools."""

from __future__ import annotations

import csv
import random
import string
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from support.clients.confluent import create_topic, eventually, poll_messages, produce
from support.clients.named_states import seed_of_this_run
from support.clients.ottla_command import done, ottla, refused
from support.clients.wire import WireClient
from support.java.java_tools import run_java
from support.servers.cluster import Cluster

CONSUMER_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
STREAMS_TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
NAME = string.ascii_letters + string.digits + "._-"
GROUP_NAME = NAME + "!#$%&'()*+/:;<=>?@[]^`{|}~"
"""Without spaces, so that the tools' tables can be read."""
HOUR_MS = 3_600_000


def tool(cluster: Cluster, main_class: str, *words: str) -> str:
    """What one of Kafka's tools prints."""
    run = run_java(main_class, "--bootstrap-server", cluster.bootstrap, *words)
    assert run.returncode == 0, run
    return run.stdout


def table(text: str) -> list[list[str]]:
    """The rows of the tables in a tool's words, without headings."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    remarks = ("GROUP", "Consumer", "Share", "Streams", "Warning:", "Note:")
    return [row for row in rows if row[0] not in remarks]


def drawn(draw: random.Random, alphabet: str, length: int) -> str:
    return "".join(draw.choices(alphabet, k=draw.randint(3, length)))


@dataclass(frozen=True, slots=True)
class Situation:
    """Topics with records of the last hours, and groups that have read some of them."""

    draw: random.Random
    topics: dict[str, int]
    """Topic -> its partitions."""
    ends: dict[tuple[str, int], int]
    idle: dict[str, dict[tuple[str, int], int]]
    """Group -> its offsets."""
    classic: str
    modern: str
    """Groups in the classic and the consumer protocol, each with a member that reads `live_topic`."""
    live_topic: str


def commit(cluster: Cluster, group: str, offsets: dict[tuple[str, int], int]) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False}
    client = Consumer(settings)
    try:
        client.commit(
            offsets=[TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()],
            asynchronous=False,
        )
    finally:
        client.close()


@pytest.fixture(scope="module")
def situation(cluster: Cluster) -> Iterator[Situation]:
    draw = random.Random(seed_of_this_run())
    at, now_ms = cluster.bootstrap, time.time_ns() // 1_000_000
    # the broker's metrics know a topic with dots as one with underscores, so all names differ in letters
    topics = {f"g{number}{drawn(draw, NAME, 30)}": draw.randint(1, 4) for number in range(3)}
    ends = {}
    for topic, partitions in topics.items():
        create_topic(at, topic, partitions)
        for partition in range(partitions):
            count = draw.randint(5, 40)
            times = sorted(now_ms - draw.randrange(5 * HOUR_MS) for _ in range(count))
            produce(at, topic, [{"value": b"v", "partition": partition, "timestamp": ms} for ms in times])
            ends[topic, partition] = count
    idle = {}
    for number in range(3):
        group = f"{number}{drawn(draw, GROUP_NAME, 60)}"
        some = draw.sample(sorted(ends), draw.randint(1, len(ends)))
        idle[group] = {place: draw.randint(0, ends[place]) for place in some}
        commit(cluster, group, idle[group])
    live_topic = draw.choice(sorted(topics))
    names = [f"live-{drawn(draw, GROUP_NAME, 30)}" for _ in range(2)]
    with ExitStack() as stack:
        for group, protocol in zip(names, ("classic", "consumer"), strict=True):
            client = Consumer(
                {
                    "bootstrap.servers": at,
                    "group.id": group,
                    "group.protocol": protocol,
                    "client.id": f"client-{protocol}",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                }
            )
            stack.callback(client.close)
            client.subscribe([live_topic])
            poll_messages(client, 3)
            client.commit(asynchronous=False)
        yield Situation(draw, topics, ends, idle, names[0], names[1], live_topic)


def shown(value: Any) -> str:
    return "-" if value is None else str(value)


# -- the same words as Kafka's tools -----------------------------------------------------------------------


@pytest.mark.java
@pytest.mark.long
def test_a_listing_is_that_of_the_tools(cluster: Cluster, situation: Situation) -> None:
    said = table(tool(cluster, CONSUMER_TOOL, "--list", "--state", "--type"))
    ours = done(cluster.bootstrap, "group", "list", "--type", "classic", "--type", "consumer")
    mine = {*situation.idle, situation.classic, situation.modern}
    assert mine <= {row["group"] for row in ours}
    # of the groups of classic type the tool lists those of consumers
    listed = [row for row in ours if row["protocol"] in ("consumer", "")]
    assert sorted((row["group"], row["type"].title(), row["state"]) for row in listed) == sorted(
        (row[0], *row[1:]) for row in said
    )
    stable = done(cluster.bootstrap, "group", "list", "--state", "stable", "--type", "consumer")
    assert situation.modern in {row["group"] for row in stable}
    assert situation.classic not in {row["group"] for row in stable}


@pytest.mark.java
def test_offsets_and_lags_are_those_of_the_tool(cluster: Cluster, situation: Situation) -> None:
    for group in (*situation.idle, situation.classic, situation.modern):
        said = table(tool(cluster, CONSUMER_TOOL, "--describe", "--offsets", "--group", group))
        (ours,) = done(cluster.bootstrap, "group", "describe", group)
        rows = [
            [
                group,
                row["topic"],
                *(shown(row[key]) for key in ("partition", "offset", "log_end_offset", "lag")),
                *(shown(row[key]) for key in ("member_id", "host", "client_id")),
            ]
            for row in ours["partitions"]
        ]
        assert sorted(rows) == sorted(said), group


@pytest.mark.java
@pytest.mark.long
def test_members_and_states_are_those_of_the_tool(cluster: Cluster, situation: Situation) -> None:
    for group in (situation.classic, situation.modern):
        ((_, member_id, host, client_id, partitions, *_),) = table(
            tool(cluster, CONSUMER_TOOL, "--describe", "--members", "--group", group)
        )
        (ours,) = done(cluster.bootstrap, "group", "describe", group, "--members")
        (member,) = ours["members"]
        assert (member["member_id"], member["host"], member["client_id"]) == (member_id, host, client_id)
        count = sum(len(numbers) for numbers in member["assignment"].values())
        assert count == int(partitions) == situation.topics[situation.live_topic]

        (state,) = table(tool(cluster, CONSUMER_TOOL, "--describe", "--state", "--group", group))
        assert state[0] == group
        place = f"{ours['coordinator']['host']}:{ours['coordinator']['port']}"
        assert state[1:3] == [place, f"({ours['coordinator']['id']})"]
        assert state[3:6] == [ours["assignor"], ours["state"], str(len(ours["members"]))]


def csv_rows(text: str) -> list[list[str]]:
    """The lines of a CSV file in a tool's words; it quotes names of more than 24 characters."""
    return sorted(row for row in csv.reader(text.splitlines()) if len(row) >= 3)


@pytest.mark.java
@pytest.mark.long
def test_planned_offsets_are_those_of_the_tool(cluster: Cluster, situation: Situation) -> None:
    draw = situation.draw
    group = draw.choice(sorted(situation.idle))
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - draw.randrange(5 * 3_600)))
    offset, shift = draw.randint(0, 50), draw.choice([-1, 1]) * draw.randint(1, 50)
    topic = draw.choice(sorted(situation.topics))
    partitions = sorted(draw.sample(range(situation.topics[topic]), draw.randint(1, situation.topics[topic])))
    chosen = f"{topic}:{','.join(map(str, partitions))}"
    for theirs, mine in (
        (["--to-earliest"], ["--to", "earliest"]),
        (["--to-latest"], ["--to", "latest"]),
        (["--to-current"], ["--to", "current"]),
        (["--to-offset", str(offset)], ["--to", str(offset)]),
        (["--shift-by", str(shift)], ["--shift-by", str(shift)]),
        (["--to-datetime", f"{moment}.000"], ["--to", f"@{moment}"]),
    ):
        for scope in (["--all-topics"], ["--topic", chosen]):
            if "--shift-by" in theirs and scope[0] == "--topic":
                continue  # the group may have no offset to shift there
            words = ("--reset-offsets", "--dry-run", "--export", "--group", group)
            said = tool(cluster, CONSUMER_TOOL, *words, *theirs, *scope)
            run = ottla(cluster.bootstrap, "group", "reset", group, *mine, *scope, "--export", "-")
            assert run.code == 0, run
            assert csv_rows(run.out) == csv_rows(said), (theirs, scope)
    # nothing of it was done
    (ours,) = done(cluster.bootstrap, "group", "describe", group)
    offsets = {(row["topic"], row["partition"]): row["offset"] for row in ours["partitions"]}
    assert offsets == situation.idle[group]


@pytest.mark.java
@pytest.mark.long
def test_either_tool_reads_the_offsets_that_the_other_exports(
    cluster: Cluster, unique_name: str, situation: Situation, tmp_path: Path
) -> None:
    at, group, file = cluster.bootstrap, f"{unique_name}-g", tmp_path / "offsets.csv"
    first = {place: situation.draw.randint(0, end) for place, end in situation.ends.items()}
    second = {place: situation.draw.randint(0, end) for place, end in situation.ends.items()}
    commit(cluster, group, first)

    def offsets() -> dict[tuple[str, int], int]:
        (found,) = done(at, "group", "describe", group, "--no-times")
        return {(row["topic"], row["partition"]): row["offset"] for row in found["partitions"]}

    # theirs, read by ours
    export = ("--reset-offsets", "--to-current", "--all-topics", "--export", "--dry-run")
    said = tool(cluster, CONSUMER_TOOL, *export, "--group", group)
    file.write_text("\n".join(line for line in said.splitlines() if line.count(",") >= 2))
    commit(cluster, group, second)
    assert offsets() == second
    done(at, "group", "reset", group, "--from-file", str(file), "--execute")
    assert offsets() == first
    # ours, read by theirs; with several groups each line names its own
    commit(cluster, f"{group}2", second)
    both = (group, f"{group}2")
    done(at, "group", "reset", *both, "--to", "current", "--all-topics", "--export", str(file))
    commit(cluster, group, second)
    commit(cluster, f"{group}2", first)
    words = ("--reset-offsets", "--from-file", str(file), "--execute")
    tool(cluster, CONSUMER_TOOL, *words, "--group", group, "--group", f"{group}2")
    assert offsets() == first


# -- share and streams groups --------------------------------------------------------------------------------


def join_share(wire: WireClient, group: str, member: str, topic: str) -> None:
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[topic]
    )
    eventually(lambda: wire.call(request).error_code == 0, "the member has joined")


@pytest.mark.java
@pytest.mark.long
def test_share_groups_are_as_their_tool_says(
    cluster: Cluster, situation: Situation, unique_name: str
) -> None:
    at, group, topic = cluster.bootstrap, f"{unique_name}-s", situation.live_topic
    moved = ("group", "reset", group, "--type", "share", "--topic", topic)
    planned = done(at, *moved, "--to", "latest")
    assert not [row for row in planned if row["executed"]]
    done(at, *moved, "--to", "latest", "--execute")
    assert [group] in table(tool(cluster, SHARE_TOOL, "--list"))
    some = situation.draw.randrange(situation.topics[topic])
    offset = situation.draw.randint(0, situation.ends[topic, some])
    done(at, "group", "reset", group, "--topic", f"{topic}:{some}", "--to", str(offset), "--execute")

    said = table(tool(cluster, SHARE_TOOL, "--describe", "--offsets", "--group", group))
    (ours,) = done(at, "group", "describe", group)
    rows = [
        [group, row["topic"], str(row["partition"]), shown(row["offset"]), shown(row["lag"])]
        for row in ours["partitions"]
    ]
    assert sorted(rows) == sorted(said)
    assert {row["partition"]: row["offset"] for row in ours["partitions"]}[some] == offset
    assert (ours["type"], ours["state"], ours["members"]) == ("share", "Empty", [])

    tool(
        cluster,
        SHARE_TOOL,
        "--reset-offsets",
        "--to-earliest",
        "--topic",
        topic,
        "--group",
        group,
        "--execute",
    )
    (ours,) = done(at, "group", "describe", group)
    assert {row["offset"] for row in ours["partitions"]} == {0}
    assert done(at, "group", "delete-offsets", group, "--topic", topic)[0]["deleted"] is True
    assert table(tool(cluster, SHARE_TOOL, "--describe", "--offsets", "--group", group)) == []

    with WireClient.connect(at, "a-client") as wire:
        join_share(wire, group, "AAAAAAAAAAAAAAAAAAAAAQ", topic)
        (row,) = table(tool(cluster, SHARE_TOOL, "--describe", "--members", "--group", group))
        (ours,) = done(at, "group", "describe", group, "--members")
        (member,) = ours["members"]
        assert [group, member["member_id"], member["host"], member["client_id"]] == row[:4]
        assert "has members" in refused(at, *moved, "--to", "latest", "--execute")
        done(at, "group", "remove-member", group, member["member_id"], "--yes")
    (ours,) = done(at, "group", "describe", group)
    assert ours["members"] == []
    assert done(at, "group", "delete", group, "--yes") == [{"group": group, "deleted": True}]
    assert [group] not in table(tool(cluster, SHARE_TOOL, "--list"))


@pytest.mark.java
@pytest.mark.long
def test_streams_groups_are_as_their_tool_says(
    cluster: Cluster, situation: Situation, unique_name: str
) -> None:
    at, group, topic = cluster.bootstrap, f"{unique_name}-a", situation.live_topic
    changelog = f"{group}-changelog"
    create_topic(at, changelog, situation.topics[topic])
    subtopology = Subtopology(
        subtopology_id="0", source_topics=[topic], state_changelog_topics=[TopicInfo(name=changelog)]
    )
    member = "AAAAAAAAAAAAAAAAAAAAAQ"
    request = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        process_id="a-process",
        rebalance_timeout_ms=60_000,
        topology=Topology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    with WireClient.connect(at, "a-client") as wire:
        eventually(lambda: wire.call(request).error_code == 0, "the member has joined")
        said = table(tool(cluster, STREAMS_TOOL, "--list"))
        assert [group] in said
        (ours,) = done(at, "group", "describe", group, "--topology")
        assert ours["topology"]["subtopologies"][0]["sourceTopics"] == [topic]
        assert (ours["type"], len(ours["members"])) == ("streams", 1)
        (state,) = table(tool(cluster, STREAMS_TOOL, "--describe", "--state", "--group", group))
        assert state[-2:] == [ours["state"], "1"]
        (row, *_) = table(tool(cluster, STREAMS_TOOL, "--describe", "--members", "--group", group))
        assert row[:2] == [group, ours["members"][0]["member_id"]]
        refusal = refused(at, "group", "delete", group, "--yes")
        assert "has members" in refusal
        done(at, "group", "remove-member", group, "--all", "--yes")
    words = ("group", "reset", group, "--to", "1", "--topic", topic, "--internal-topics")
    assert {row["offset"] for row in done(at, *words)} == {1}
    deleted, *moved = done(at, *words, "--execute")
    assert deleted == {"topic": changelog, "deleted": True}
    assert {row["offset"] for row in moved} == {1}
    create_topic(at, changelog, situation.topics[topic])
    # of a group without members their tool tells only where a reset would go
    plan = ("--reset-offsets", "--to-current", "--input-topic", topic, "--dry-run", "--export")
    said = tool(cluster, STREAMS_TOOL, *plan, "--group", group)
    ours = ottla(at, "group", "reset", group, "--to", "current", "--topic", topic, "--export", "-")
    assert csv_rows(ours.out) == csv_rows(said)
    assert len(csv_rows(said)) == situation.topics[topic]
    deleted = done(at, "group", "delete", group, "--internal-topics", "--yes")
    assert deleted == [{"group": group, "deleted": True}, {"topic": changelog, "deleted": True}]


# -- what the commands do ------------------------------------------------------------------------------------


def test_times_that_groups_are_behind_are_those_of_the_records(cluster: Cluster, unique_name: str) -> None:
    at, group = cluster.bootstrap, f"{unique_name}-g"
    create_topic(at, unique_name, 3)
    now_ms = time.time_ns() // 1_000_000
    ages_ms = [9_000_000, 8_000_000, 7_000_000, 60_000]
    produce(at, unique_name, [{"value": b"v", "partition": 0, "timestamp": now_ms - age} for age in ages_ms])
    large = [{"value": bytes(700_000), "partition": 1, "timestamp": now_ms - age} for age in ages_ms]
    produce(at, unique_name, large, compression_type="none")
    commit(cluster, group, {(unique_name, 0): 2, (unique_name, 1): 1, (unique_name, 2): 0})
    (found,) = done(at, "group", "describe", group)
    lags = [(row["lag"], row["lag_seconds"]) for row in found["partitions"]]
    taken_seconds = time.time() - now_ms / 1_000
    assert [lag for lag, _ in lags] == [2, 3, 0]
    assert lags[2][1] == 0
    for (_, seconds), age_ms in zip(lags, (7_000_000, 8_000_000), strict=False):
        assert age_ms / 1_000 <= seconds <= age_ms / 1_000 + taken_seconds
    assert found["lag_seconds"] == max(seconds for _, seconds in lags)
    # records that were deleted before they were read count, but only those that are left have an age
    done(at, "topic", "purge", unique_name, "--partition", "0", "--before", "3")
    (found,) = done(at, "group", "describe", group)
    first = found["partitions"][0]
    assert (first["offset"], first["lag"]) == (2, 2)
    assert 60 <= first["lag_seconds"] <= 60 + time.time() - now_ms / 1_000
    (brief,) = done(at, "group", "describe", group, "--no-times")
    assert [row["lag_seconds"] for row in brief["partitions"]] == [None, None, 0.0]


def test_a_live_group_is_left_alone(cluster: Cluster, situation: Situation) -> None:
    at = cluster.bootstrap
    for group in (situation.classic, situation.modern):
        words = ("group", "reset", group, "--to", "earliest", "--topic", situation.live_topic, "--execute")
        line = refused(at, *words)
        assert line.startswith(
            f"ottla group reset: group {group} has members (Stable): its offsets can be moved"
        )
        assert f"group {group} has members" in refused(at, "group", "delete", group, "--yes")
        run = ottla(at, "group", "delete-offsets", group, "--topic", situation.live_topic)
        assert run.code == 1 and "GROUP_SUBSCRIBED_TO_TOPIC" in run.err


def test_some_groups_of_several_fail(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    create_topic(at, unique_name)
    commit(cluster, f"{unique_name}-g", {(unique_name, 0): 0})
    run = ottla(at, "group", "describe", f"{unique_name}-g", f"{unique_name}-h", "--json")
    assert (run.code, [row["group"] for row in run.rows]) == (1, [f"{unique_name}-g"])
    assert (
        run.err
        == f"ottla group describe: group {unique_name}-h does not exist; did you mean {unique_name}-g?\n"
    )
    assert "needs a yes" in refused(at, "group", "delete", f"{unique_name}-*")
    assert len(done(at, "group", "delete", f"{unique_name}-*", "--yes")) == 1
    assert done(at, "group", "list", f"{unique_name}*") == []


def test_offsets_of_a_group_that_is_not_there_yet(cluster: Cluster, unique_name: str) -> None:
    at, group = cluster.bootstrap, f"{unique_name}-new"
    create_topic(at, unique_name, 2)
    produce(at, unique_name, [{"value": b"v", "partition": 1}] * 4)
    assert "does not exist" in refused(at, "group", "reset", group, "--to", "latest", "--all-topics")
    rows = done(at, "group", "reset", group, "--to", "3", "--topic", unique_name, "--execute")
    assert [(row["before"], row["offset"], bool(row["note"])) for row in rows] == [
        (None, 0, True),
        (None, 3, False),
    ]
    gone = refused(at, "group", "reset", group, "--to", "3", "--topic", f"{unique_name}x")
    # Other tests may have topics with such names, which are told behind it.
    assert f"topic {unique_name}x does not exist; did you mean {unique_name}" in gone
    assert "has no partition 2; it has 2" in refused(
        at, "group", "reset", group, "--to", "3", "--topic", f"{unique_name}:2", code=2
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "earliest"],
        ["--topic", "t"],
        ["--to", "earliest", "--shift-by", "3", "--topic", "t"],
        ["--to", "soon", "--topic", "t"],
        ["--to", "@yesterday", "--topic", "t"],
        ["--by-duration", "2h", "--topic", "t"],
        ["--to", "earliest", "--topic", "t:x"],
        ["--to", "earliest", "--topic", "t:3-1"],
        ["--to", "earliest", "--topic", "t:0-99999999"],
        ["--from-file", "f.csv", "--all-topics"],
    ],
)
def test_words_that_make_no_sense_are_refused_before_anything_is_asked(words: list[str]) -> None:
    refused("127.0.0.1:1", "group", "reset", "g", *words, code=2)


def test_any_name_of_a_group_is_handled(cluster: Cluster, unique_name: str) -> None:
    """Names with spaces, quotes, line ends, control characters, other scripts, and very long ones."""
    at, draw = cluster.bootstrap, random.Random(seed_of_this_run())
    create_topic(at, unique_name, 1)
    alphabet = " \t\n\r\x07\x1b\"'`,;:*?[]{}()<>|&$#!~%^=+@\\/.-_aZ0\u00e9\u4f60\u202e\U0001f600\x7f"
    groups = {
        "".join(draw.choices(alphabet, k=draw.choice([1, 5, 30, 200]))) + unique_name for _ in range(12)
    }
    for group in groups:
        # librdkafka leaves out spaces around a group's name
        done(at, "group", "reset", "--to", "0", "--topic", unique_name, "--execute", "--", group)
    listed = {row["group"] for row in done(at, "group", "list")}
    assert groups <= listed
    for group in sorted(groups):
        (found,) = done(at, "group", "describe", "--", group)
        assert found["group"] == group
        for words in (["describe"], ["describe", "--members"], ["describe", "--summary"]):
            run = ottla(at, "group", *words, "--", group)
            assert run.code == 0 and "\x1b" not in run.out and "\x07" not in run.out
        done(at, "group", "reset", "--to", "0", "--all-topics", "--execute", "--", group)
        done(at, "group", "delete-offsets", "--topic", unique_name, "--", group)
    remaining = sorted(groups & {row["group"] for row in done(at, "group", "list")})
    if remaining:
        done(at, "group", "delete", "--yes", "--", *remaining)
