"""Changes of settings: single ones, all of a resource's, and refusals."""

from __future__ import annotations

import pytest

from ottla.core.decisions.config_changes import Operation, change_configs, check_dynamic, replace_configs
from ottla.core.image.image import MetadataImage
from ottla.core.settings.config_layers import BrokerLayers
from ottla.protocol.errors import (
    BrokerIdNotRegistered,
    InvalidConfig,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    UnknownTopicOrPartition,
)
from ottla.protocol.records.clear_elr_record import ClearElrRecord
from support.core.metadata import NOTHING_CONFIGURED, apply, create, image_with_brokers, topic

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT


@pytest.fixture
def image() -> MetadataImage:
    made = image_with_brokers([1])
    create(made, topic("orders", configs={"retention.ms": "1"}))
    return made


def change(
    image: MetadataImage,
    resource: tuple[int, str],
    *changes: tuple[str, Operation, str | None],
    layers: BrokerLayers = NOTHING_CONFIGURED,
) -> dict[str, str]:
    """Make the changes; return the resource's values after them."""
    apply(image, change_configs(image, layers, *resource, changes))
    return image.configs.get(resource, {})


def test_values_are_set_and_deleted(image: MetadataImage) -> None:
    orders = (TOPIC, "orders")
    assert change(image, orders, ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == {
        "retention.ms": "5",
        "segment.ms": "6",
    }
    assert change(image, orders, ("retention.ms", DELETE, None)) == {"segment.ms": "6"}


def test_lists_grow_from_their_default_and_shrink(image: MetadataImage) -> None:
    orders = (TOPIC, "orders")
    assert change(image, orders, ("cleanup.policy", APPEND, "compact"))["cleanup.policy"] == "delete,compact"
    assert change(image, orders, ("cleanup.policy", APPEND, "compact"))["cleanup.policy"] == "delete,compact"
    assert change(image, orders, ("cleanup.policy", SUBTRACT, "delete"))["cleanup.policy"] == "compact"
    assert change(image, orders, ("cleanup.policy", SUBTRACT, "delete"))["cleanup.policy"] == "compact"


def test_a_change_without_effect_writes_no_records(image: MetadataImage) -> None:
    changes = [("retention.ms", SET, "1")]
    assert change_configs(image, NOTHING_CONFIGURED, TOPIC, "orders", changes) == []


def test_a_brokers_values_are_written_again(image: MetadataImage) -> None:
    """The repeated record makes a broker re-read its key stores."""
    changes = [("listener.name.internal.ssl.keystore.location", SET, "keys")]
    for _ in range(2):
        records = change_configs(image, NOTHING_CONFIGURED, BROKER, "1", changes)
        assert len(records) == 1
        apply(image, records)


def test_replacing_drops_settings_that_are_not_named(image: MetadataImage) -> None:
    apply(image, replace_configs(image, NOTHING_CONFIGURED, TOPIC, "orders", {"segment.ms": "9"}))
    assert image.configs[(TOPIC, "orders")] == {"segment.ms": "9"}
    apply(image, replace_configs(image, NOTHING_CONFIGURED, TOPIC, "orders", {}))
    assert (TOPIC, "orders") not in image.configs


def test_another_number_of_in_sync_replicas_clears_the_eligible_ones(image: MetadataImage) -> None:
    changes = [("min.insync.replicas", SET, "2")]
    records = change_configs(image, NOTHING_CONFIGURED, TOPIC, "orders", changes)
    assert records[-1] == ClearElrRecord(topic_name="orders")
    records = change_configs(image, NOTHING_CONFIGURED, BROKER, "", changes)
    assert records[-1] == ClearElrRecord(topic_name="")


@pytest.mark.parametrize(
    ("resource", "changed", "error"),
    [
        ((TOPIC, "orders"), ("nonsense", SET, "1"), InvalidConfig),
        ((TOPIC, "orders"), ("retention.ms", SET, "soon"), InvalidConfig),
        ((TOPIC, "orders"), ("retention.ms", APPEND, "1"), InvalidConfig),
        ((TOPIC, "orders"), ("nonsense", APPEND, "1"), InvalidConfig),
        ((TOPIC, "nope"), ("retention.ms", SET, "1"), UnknownTopicOrPartition),
        ((TOPIC, "not good"), ("retention.ms", SET, "1"), InvalidTopicException),
        ((TOPIC, ""), ("retention.ms", SET, "1"), InvalidRequest),
        ((BROKER, "7"), ("log.retention.ms", SET, "1"), BrokerIdNotRegistered),
        ((BROKER, "x"), ("log.retention.ms", SET, "1"), InvalidRequest),
        ((BROKER, "1"), ("log.retention.ms", SET, "x"), InvalidRequest),
        ((BROKER, "1"), ("min.insync.replicas", SET, "2"), InvalidConfig),
        ((BROKER, ""), ("min.insync.replicas", DELETE, None), InvalidConfig),
        ((GROUP, ""), ("consumer.session.timeout.ms", SET, "46000"), InvalidRequest),
        ((GROUP, "g"), ("nonsense", SET, "1"), InvalidConfig),
        ((GROUP, "g"), ("consumer.session.timeout.ms", SET, "1"), InvalidConfig),
        ((GROUP, "g"), ("consumer.heartbeat.interval.ms", SET, "99999"), InvalidConfig),
        ((GROUP, "g"), ("streams.num.standby.replicas", SET, "3"), InvalidConfig),
        ((METRICS, ""), ("interval.ms", SET, "1000"), InvalidRequest),
        ((METRICS, "m"), ("interval.ms", SET, "1"), InvalidRequest),
        ((METRICS, "m"), ("nonsense", SET, "1"), InvalidRequest),
        ((METRICS, "m"), ("match", SET, "colour=red"), InvalidConfig),
        ((99, "x"), ("a", SET, "1"), InvalidRequest),
    ],
    ids=str,
)
def test_invalid_changes_are_refused(
    image: MetadataImage,
    resource: tuple[int, str],
    changed: tuple[str, Operation, str | None],
    error: type[KafkaError],
) -> None:
    with pytest.raises(error):
        change_configs(image, NOTHING_CONFIGURED, *resource, [changed])


def test_a_sessions_timeout_is_longer_than_its_heartbeats(image: MetadataImage) -> None:
    layers = BrokerLayers(
        {"group.consumer.min.session.timeout.ms": "1", "group.consumer.max.heartbeat.interval.ms": "99999"}
    )
    with pytest.raises(InvalidConfig, match=r"must be greater than consumer\.heartbeat"):
        change(image, (GROUP, "g"), ("consumer.session.timeout.ms", SET, "5000"), layers=layers)


@pytest.mark.parametrize(
    ("name", "per_broker", "problem"),
    [
        ("process.roles", True, "Cannot update these configs dynamically: [process.roles]"),
        ("log.retention.hours", False, "Cannot update these configs dynamically: [log.retention.hours]"),
        ("ssl.keystore.type", True, "only per-listener using the listener prefix: [ssl.keystore.type]"),
        ("principal.builder.class", False, "at default cluster level, broker id must be specified"),
        ("listeners", True, "can't be updated while the broker runs: [listeners]"),
    ],
)
def test_static_settings_may_not_change(name: str, per_broker: bool, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_dynamic([name], per_broker)
    assert problem in refused.value.message


def test_dynamic_settings_may_change() -> None:
    check_dynamic(["log.retention.ms", "nobody.knows.this"], per_broker=False)
    check_dynamic(["listener.name.internal.ssl.keystore.type", "principal.builder.class"], per_broker=True)
