"""Kafka Streams 4.3.1 applications with the classic and the streams protocol, and the tools around them.

The smoke test is Kafka's own: it feeds an application of some twenty operators for a minute and a half, then
verifies every result. `make conformance` runs it in all forms, on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from support.clients.confluent import consumer, create_topic, eventually, topic_exists
from support.clients.wire import WireClient
from support.java.java_tools import run_java
from support.java.streams_apps import SMOKE_PARTITIONS, SMOKE_TOPICS, counting_app, smoke_test
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

StartOwn = Callable[..., AbstractContextManager[OttlaBroker | ApacheKafka]]

GROUP_COMMAND = "org.apache.kafka.tools.streams.StreamsGroupCommand"
RESETTER = "org.apache.kafka.tools.StreamsResetter"
PROTOCOLS = ("classic", "streams")
GUARANTEES = ("at_least_once", "exactly_once_v2")
TOPIC_RESOURCE = 2
STARTS_WITHIN_S = 120
ENDS_WITHIN_S = 120
DELIVERED_WITHIN_S = 400
COUNTED_WITHIN_S = 60


def in_all_forms(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--oracle") or request.config.getoption("--oracle-only"))


def say_words(bootstrap: str, topic: str, words: int, times: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(words * times):
        producer.produce(topic, value=f"word{number % words}")
    assert producer.flush(30) == 0


def wait_for_counts(bootstrap: str, topic: str, words: int, times: int) -> None:
    """Read the topic from its start until each word was counted `times`, in committed transactions."""
    expected = {f"word{number}".encode(): times for number in range(words)}
    counts: dict[bytes, int] = {}
    with consumer(bootstrap, f"reader-of-{topic}", isolation_level="read_committed") as client:
        client.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + COUNTED_WITHIN_S
        while counts != expected:
            assert time.monotonic() < deadline, f"not {times} each: {counts}"
            message = client.poll(0.1)
            if message is not None and message.error() is None:
                counts[message.key()] = int.from_bytes(message.value(), "big")


def tool(cluster: Cluster, main_class: str, *arguments: str) -> str:
    """Run a tool against the cluster and return what it printed; it must succeed."""
    done = run_java(main_class, "--bootstrap-server", cluster.bootstrap, *arguments)
    assert done.returncode == 0, f"{main_class} {arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_counting_with_a_repartition(
    cluster: Cluster,
    request: pytest.FixtureRequest,
    unique_name: str,
    tmp_path: Path,
    protocol: str,
    guarantee: str,
) -> None:
    if guarantee == "at_least_once" and not in_all_forms(request):
        pytest.skip("this form of the application runs with --oracle")
    app_id, words_topic, counts_topic = unique_name, f"{unique_name}-words", f"{unique_name}-counts"
    create_topic(cluster.bootstrap, words_topic, partitions=3)
    create_topic(cluster.bootstrap, counts_topic, partitions=1)
    settings = {
        "application_id": app_id,
        "input": words_topic,
        "output": counts_topic,
        "group_protocol": protocol,
        "processing_guarantee": guarantee,
    }
    # when
    with counting_app(cluster.bootstrap, tmp_path / "one", **settings) as app:
        app.wait_for("state RUNNING", STARTS_WITHIN_S)
        say_words(cluster.bootstrap, words_topic, words=10, times=30)
        wait_for_counts(cluster.bootstrap, counts_topic, words=10, times=30)
        app.say("close")
        assert app.wait_for("closed", ENDS_WITHIN_S) == "closed true"
    # then
    changelog, repartition = f"{app_id}-counts-changelog", f"{app_id}-counts-repartition"
    assert topic_exists(cluster.bootstrap, repartition)
    assert _config(cluster, changelog, "cleanup.policy") == "compact"
    # when it comes back, elsewhere: its state is read from the changelog
    with counting_app(cluster.bootstrap, tmp_path / "two", **settings) as app:
        app.wait_for("state RUNNING", STARTS_WITHIN_S)
        say_words(cluster.bootstrap, words_topic, words=10, times=5)
        wait_for_counts(cluster.bootstrap, counts_topic, words=10, times=35)
        app.say("close")
        assert app.wait_for("closed", ENDS_WITHIN_S) == "closed true"


def _config(cluster: Cluster, topic: str, name: str) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
    )
    with WireClient.connect(cluster.bootstrap) as wire:
        configs = wire.call(DescribeConfigsRequest(resources=[resource])).results[0].configs
    return configs[0].value if configs else None


def test_the_tools_of_streams_groups(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    app_id, words_topic, counts_topic = unique_name, f"{unique_name}-words", f"{unique_name}-counts"
    create_topic(cluster.bootstrap, words_topic, partitions=2)
    create_topic(cluster.bootstrap, counts_topic, partitions=1)
    settings = {"application_id": app_id, "input": words_topic, "output": counts_topic}
    # given
    with counting_app(cluster.bootstrap, tmp_path / "app", group_protocol="streams", **settings) as app:
        app.wait_for("state RUNNING", STARTS_WITHIN_S)
        say_words(cluster.bootstrap, words_topic, words=4, times=5)
        wait_for_counts(cluster.bootstrap, counts_topic, words=4, times=5)
        # then, while it runs
        assert app_id in tool(cluster, GROUP_COMMAND, "--list").split()
        described = tool(cluster, GROUP_COMMAND, "--describe", "--group", app_id, "--state")
        assert app_id in described and "Stable" in described, described
        members = tool(cluster, GROUP_COMMAND, "--describe", "--group", app_id, "--members")
        assert "ACTIVE" in members.upper(), members
        offsets = tool(cluster, GROUP_COMMAND, "--describe", "--group", app_id, "--offsets")
        assert words_topic in offsets, offsets
        refused = run_java(
            GROUP_COMMAND, "--bootstrap-server", cluster.bootstrap, "--delete", "--group", app_id
        )
        assert "not empty" in (refused.stdout + refused.stderr).lower(), refused
        app.say("close")
        assert app.wait_for("closed", ENDS_WITHIN_S) == "closed true"
    # when it has stopped
    eventually(
        lambda: "Empty" in tool(cluster, GROUP_COMMAND, "--describe", "--group", app_id, "--state"),
        "the group is empty",
        60,
    )
    reset = tool(
        cluster, GROUP_COMMAND, "--reset-offsets", "--group", app_id, "--to-earliest", "--execute",
        "--input-topic", words_topic,
    )  # fmt: skip
    assert words_topic in reset, reset
    deleted = tool(cluster, GROUP_COMMAND, "--delete", "--group", app_id)
    # then
    assert "successful" in deleted, deleted
    with WireClient.connect(cluster.bootstrap) as wire:
        group = wire.call(StreamsGroupDescribeRequest(group_ids=[app_id])).groups[0]
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_application_is_reset(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    app_id, words_topic, counts_topic = unique_name, f"{unique_name}-words", f"{unique_name}-counts"
    create_topic(cluster.bootstrap, words_topic, partitions=2)
    create_topic(cluster.bootstrap, counts_topic, partitions=1)
    settings = {"application_id": app_id, "input": words_topic, "output": counts_topic}
    say_words(cluster.bootstrap, words_topic, words=4, times=5)
    with counting_app(cluster.bootstrap, tmp_path / "app", **settings) as app:
        app.wait_for("state RUNNING", STARTS_WITHIN_S)
        wait_for_counts(cluster.bootstrap, counts_topic, words=4, times=5)
        app.say("close")
        app.wait_for("closed", ENDS_WITHIN_S)
    # when
    tool(cluster, RESETTER, "--application-id", app_id, "--input-topics", words_topic, "--force")
    # then
    eventually(lambda: not topic_exists(cluster.bootstrap, f"{app_id}-counts-changelog"), "the store is gone")
    say_words(cluster.bootstrap, words_topic, words=4, times=1)
    with counting_app(cluster.bootstrap, tmp_path / "again", **settings) as app:
        app.wait_for("state RUNNING", STARTS_WITHIN_S)
        wait_for_counts(cluster.bootstrap, counts_topic, words=4, times=6)
        app.say("close")
        app.wait_for("closed", ENDS_WITHIN_S)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "killed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_streams_smoke_test(
    start_own: StartOwn,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    protocol: str,
    guarantee: str,
    killed: bool,
) -> None:
    hardest = (protocol, guarantee, killed) == ("streams", "exactly_once_v2", True)
    if not hardest and not in_all_forms(request):
        pytest.skip("this form of the smoke test runs with --oracle")
    settings = {"group_protocol": protocol, "processing_guarantee": guarantee}
    with start_own(settings={"group.streams.initial.rebalance.delay.ms": "500"}) as own:
        for name in SMOKE_TOPICS:
            create_topic(own.bootstrap, name, partitions=SMOKE_PARTITIONS)
        with smoke_test(own.bootstrap, tmp_path, "process", **settings) as app:
            app.wait_for("SMOKE-TEST-CLIENT-STARTED", STARTS_WITHIN_S)
            with smoke_test(own.bootstrap, tmp_path, "run", **settings) as driver:
                if killed:
                    driver.wait_for(" 5000 records produced", DELIVERED_WITHIN_S)
                    own.kill()
                    own.restart()
                driver.wait_for("ALL-RECORDS-DELIVERED", DELIVERED_WITHIN_S)
                driver.wait_for("SUCCESS", ENDS_WITHIN_S)
            # Not closed in peace: its minute for that is the disk's, which syncs a hundred stores.
            app.process.kill()
            assert not any("SMOKE-TEST-CLIENT-EXCEPTION" in line for line in app.rest()), app.tail()
