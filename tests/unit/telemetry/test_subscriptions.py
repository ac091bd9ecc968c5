"""Subscriptions: which clients match, which metrics they are asked for, and by which id."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.telemetry.subscriptions import (
    ClientProperties,
    InvalidPattern,
    RequestedMetrics,
    Subscription,
    java_set_order,
    parse_match,
    read_subscriptions,
    requested_metrics,
)

CLIENT = ClientProperties("id", "app-1", "librdkafka", "2.16.0", "127.0.0.1", "5000")
EVERYBODY: dict[str, str] = {"metrics": "a.,b."}


def subscriptions(**resources: dict[str, str]) -> dict[str, Subscription]:
    found, unusable = read_subscriptions(resources)
    assert not unusable
    return found


def test_a_client_gets_the_metrics_of_all_that_match_at_the_shortest_interval() -> None:
    found = subscriptions(
        one={"metrics": "a.,b.", "interval.ms": "60000"},
        two={"metrics": "b.,c.", "interval.ms": "5000", "match": "client_id=app-.*"},
        other={"metrics": "d.", "interval.ms": "100", "match": "client_id=batch"},
    )
    requested = requested_metrics(found, CLIENT)
    assert set(requested.metrics) == {"a.", "b.", "c."}
    assert requested.push_interval_ms == 5000


def test_all_metrics_stand_for_the_others() -> None:
    found = subscriptions(one={"metrics": "a."}, two={"metrics": "*"})
    assert requested_metrics(found, CLIENT).metrics == ("*",)


def test_without_a_subscription_a_client_asks_again_after_five_minutes() -> None:
    assert requested_metrics({}, CLIENT) == ((), 300_000)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("", True),
        ("client_id=app-1", True),
        ("client_id=app", False),
        ("client_id=app.*,client_source_port=5000", True),
        ("client_id=app.*,client_source_port=6000", False),
        (r" client_software_version = 2\..* ", True),
        ("client_source_address=127[.]0[.]0[.]1", True),
    ],
)
def test_every_pattern_has_to_match_the_whole_of_its_property(match: str, matches: bool) -> None:
    found = Subscription.read({"match": match})
    assert found.matches(CLIENT) is matches


def test_a_property_that_a_client_lacks_matches_nothing() -> None:
    assert not Subscription.read({"match": "client_id=.*"}).matches(CLIENT._replace(client_id=None))


@pytest.mark.parametrize(
    "pattern", ["client_id", "client_id=", "=x", "client_id=a=b", "colour=red", "client_id=("]
)
def test_a_pattern_that_kafka_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match=r".+"):
        parse_match([pattern])


def test_a_resource_that_is_not_understood_matches_nobody_and_is_named() -> None:
    found, unusable = read_subscriptions(
        {"java": {"metrics": "a.", "match": "client_id=(?=a)a"}, "fine": {"metrics": "b."}}
    )
    assert unusable == ["java"]
    assert requested_metrics(found, CLIENT).metrics == ("b.",)


def test_a_slow_expression_does_not_hold_the_loop() -> None:
    subscription = Subscription.read({"match": "client_id=(a+)+b"})
    assert not subscription.matches(CLIENT._replace(client_id="a" * 5_000))


def test_ids_and_orders_are_those_of_apache_kafka() -> None:
    # From Kafka's own manager; the longer comparison is in tests/conformance/classes.
    metrics = ("org.apache.kafka.consumer.", "org.apache.kafka.producer.")
    assert sorted(java_set_order(metrics)) == sorted(metrics)
    instance_id = uuid.UUID("f0000000-0000-4000-8000-00000000000a")
    first = RequestedMetrics(("*",), 300_000).subscription_id(instance_id)
    assert first != RequestedMetrics(("*",), 300_001).subscription_id(instance_id)
    assert first != RequestedMetrics(("*",), 300_000).subscription_id(uuid.UUID(int=1))
    assert RequestedMetrics((), 300_000).subscription_id(uuid.UUID(int=1)) == -725132321
