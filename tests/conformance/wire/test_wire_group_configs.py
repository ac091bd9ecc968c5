"""Settings of groups (KIP-848, KIP-932, KIP-1071): bounds, defaults from the broker, groups' own values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs_request import AlterableConfig as ReplacedConfig
from ottla.protocol.messages.alter_configs_request import AlterConfigsRequest
from ottla.protocol.messages.alter_configs_request import AlterConfigsResource as ReplacedResource
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from support.clients.wire import WireClient, wait_for
from support.servers.cluster import CONFORMANCE_SETTINGS, Cluster

GROUP, BROKER = 32, 4
SET, DELETE = 0, 1
OF_GROUP, DYNAMIC_DEFAULT, DEFAULT = 8, 3, 5


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient.connect(cluster.bootstrap) as client:
        yield client


def alter(
    wire: WireClient, name: str, changes: dict[str, str | None], resource_type: int = GROUP
) -> tuple[ErrorCode, str | None]:
    """Set values, or delete those that are None."""
    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    (answer,) = wire.call(IncrementalAlterConfigsRequest(resources=[resource])).responses
    return ErrorCode(answer.error_code), answer.error_message


def described(wire: WireClient, group: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = wire.call(request).results
    assert result.error_code == ErrorCode.NONE
    return {config.name: config for config in result.configs}


def groups_with_settings(wire: WireClient) -> list[str]:
    answer = wire.call(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    return [each.resource_name for each in answer.config_resources]


def test_every_setting_of_a_group_has_a_default(wire: WireClient, unique_name: str) -> None:
    """Also of an unknown group."""
    found = {
        name: (config.value, config.config_source, config.read_only, config.config_type)
        for name, config in described(wire, unique_name).items()
        if f"group.{name}" not in CONFORMANCE_SETTINGS
    }
    integer, text, boolean, text_list = 3, 2, 1, 7
    assert found == {
        "consumer.assignment.interval.ms": ("1000", DEFAULT, False, integer),
        "consumer.session.timeout.ms": ("45000", DEFAULT, False, integer),
        "share.assignment.interval.ms": ("1000", DEFAULT, False, integer),
        "share.auto.offset.reset": ("latest", DEFAULT, False, text),
        "share.delivery.count.limit": ("5", DEFAULT, False, integer),
        "share.heartbeat.interval.ms": ("5000", DEFAULT, False, integer),
        "share.isolation.level": ("read_uncommitted", DEFAULT, False, text),
        "share.partition.max.record.locks": ("2000", DEFAULT, False, integer),
        "share.record.lock.duration.ms": ("30000", DEFAULT, False, integer),
        "share.renew.acknowledge.enable": ("true", DEFAULT, False, boolean),
        "share.session.timeout.ms": ("45000", DEFAULT, False, integer),
        "errors.deadletterqueue.copy.record.enable": ("false", DEFAULT, False, boolean),
        "errors.deadletterqueue.topic.name": ("", DEFAULT, False, text),
        "streams.assignment.interval.ms": ("1000", DEFAULT, False, integer),
        "streams.assignor.name": ("sticky", DEFAULT, False, text),
        "streams.rack.aware.assignment.tags": ("", DEFAULT, False, text_list),
        "streams.heartbeat.interval.ms": ("5000", DEFAULT, False, integer),
        "streams.initial.rebalance.delay.ms": ("3000", DEFAULT, False, integer),
        "streams.num.standby.replicas": ("0", DEFAULT, False, integer),
        "streams.session.timeout.ms": ("45000", DEFAULT, False, integer),
    }


def test_a_value_of_the_group_stands_before_the_brokers(wire: WireClient, unique_name: str) -> None:
    assert alter(wire, unique_name, {"share.heartbeat.interval.ms": "6000"}) == (ErrorCode.NONE, None)
    wait_for(lambda: described(wire, unique_name)["share.heartbeat.interval.ms"].value == "6000")
    config = described(wire, unique_name)["share.heartbeat.interval.ms"]
    assert config.config_source == OF_GROUP
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("share.heartbeat.interval.ms", "6000", OF_GROUP),
        ("group.share.heartbeat.interval.ms", "5000", DEFAULT),
    ]
    assert unique_name in groups_with_settings(wire)
    # when
    assert alter(wire, unique_name, {"share.heartbeat.interval.ms": None})[0] is ErrorCode.NONE
    # then
    wait_for(lambda: unique_name not in groups_with_settings(wire))
    assert described(wire, unique_name)["share.heartbeat.interval.ms"].config_source == DEFAULT


def test_a_dynamic_default_of_the_cluster_is_a_synonym(wire: WireClient, unique_name: str) -> None:
    name = "group.streams.assignment.interval.ms"
    assert alter(wire, "", {name: "2000"}, BROKER)[0] is ErrorCode.NONE
    try:
        wait_for(lambda: described(wire, unique_name)["streams.assignment.interval.ms"].value == "2000")
        config = described(wire, unique_name)["streams.assignment.interval.ms"]
        assert config.config_source == DYNAMIC_DEFAULT
        assert [(each.name, each.value, each.source) for each in config.synonyms] == [
            (name, "2000", DYNAMIC_DEFAULT),
            (name, "1000", DEFAULT),
        ]
    finally:
        assert alter(wire, "", {name: None}, BROKER)[0] is ErrorCode.NONE


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"streams.session.timeout.ms": "44999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": "60000"}, ErrorCode.NONE),
        ({"consumer.session.timeout.ms": "60001"}, ErrorCode.INVALID_CONFIG),
        ({"streams.heartbeat.interval.ms": "4999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.heartbeat.interval.ms": "15001"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.assignment.interval.ms": "15001"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.assignment.interval.ms": "0"}, ErrorCode.NONE),
        ({"share.session.timeout.ms": "44999"}, ErrorCode.INVALID_CONFIG),
        ({"share.record.lock.duration.ms": "14999"}, ErrorCode.INVALID_CONFIG),
        ({"share.record.lock.duration.ms": "60001"}, ErrorCode.INVALID_CONFIG),
        ({"share.delivery.count.limit": "1"}, ErrorCode.INVALID_CONFIG),
        ({"share.delivery.count.limit": "11"}, ErrorCode.INVALID_CONFIG),
        ({"share.partition.max.record.locks": "4001"}, ErrorCode.INVALID_CONFIG),
        ({"share.auto.offset.reset": "earliest"}, ErrorCode.NONE),
        ({"share.auto.offset.reset": "by_duration:PT1H"}, ErrorCode.NONE),
        ({"share.auto.offset.reset": "none"}, ErrorCode.INVALID_CONFIG),
        ({"share.isolation.level": "read_committed"}, ErrorCode.NONE),
        ({"share.isolation.level": "serializable"}, ErrorCode.INVALID_CONFIG),
        ({"streams.num.standby.replicas": "2"}, ErrorCode.NONE),
        ({"streams.num.standby.replicas": "3"}, ErrorCode.INVALID_CONFIG),
        ({"streams.session.timeout.ms": "60001"}, ErrorCode.INVALID_CONFIG),
        ({"streams.assignor.name": "sticky"}, ErrorCode.NONE),
        ({"streams.assignor.name": "magnetic"}, ErrorCode.INVALID_CONFIG),
        ({"streams.rack.aware.assignment.tags": "zone,rack"}, ErrorCode.NONE),
        ({"streams.rack.aware.assignment.tags": "zone, zone"}, ErrorCode.INVALID_CONFIG),
        ({"streams.num.warmup.replicas": "20"}, ErrorCode.NONE),
        ({"streams.num.warmup.replicas": "21"}, ErrorCode.INVALID_CONFIG),
        ({"streams.task.offset.interval.ms": "14999"}, ErrorCode.INVALID_CONFIG),
        ({"streams.acceptable.recovery.lag": "-1"}, ErrorCode.INVALID_CONFIG),
        ({"streams.initial.rebalance.delay.ms": "-1"}, ErrorCode.INVALID_CONFIG),
        ({"streams.heartbeat.interval.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"no.such.setting": "1"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": "50000", "no.such.setting": "1"}, ErrorCode.INVALID_CONFIG),
    ],
    ids=lambda value: "-".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else None,
)
def test_the_brokers_settings_are_the_bounds(
    wire: WireClient, unique_name: str, changes: dict[str, str | None], error: ErrorCode
) -> None:
    found, message = alter(wire, unique_name, changes)
    assert found is error
    assert (message is None) == (error is ErrorCode.NONE)
    if error is ErrorCode.NONE:
        wait_for(lambda: unique_name in groups_with_settings(wire))
    else:
        assert unique_name not in groups_with_settings(wire)


def test_a_group_has_a_name(wire: WireClient) -> None:
    assert alter(wire, "", {"consumer.session.timeout.ms": "50000"})[0] is ErrorCode.INVALID_REQUEST
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name="", configuration_keys=None)
    (result,) = wire.call(DescribeConfigsRequest(resources=[resource])).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_all_of_a_groups_settings_are_replaced_at_once(wire: WireClient, unique_name: str) -> None:
    alter(wire, unique_name, {"consumer.session.timeout.ms": "50000", "share.session.timeout.ms": "50000"})
    # when
    configs = [ReplacedConfig(name="share.session.timeout.ms", value="55000")]
    resource = ReplacedResource(resource_type=GROUP, resource_name=unique_name, configs=configs)
    (answer,) = wire.call(AlterConfigsRequest(resources=[resource])).responses
    # then
    assert answer.error_code == ErrorCode.NONE
    wait_for(lambda: described(wire, unique_name)["share.session.timeout.ms"].value == "55000")
    assert described(wire, unique_name)["consumer.session.timeout.ms"].config_source == DEFAULT
