"""Which APIs the two kinds of listeners serve, beside Kafka's own lists."""

from __future__ import annotations

import pytest

from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES
from ottla.broker.handlers.cluster.envelopes import PASSED_ON
from ottla.broker.handlers.table import broker_table, controller_table
from ottla.protocol.apis import APIS, ApiKey, Listeners

#: What a broker passes on to the active controller, as Kafka's forwardable APIs.
FORWARDABLE = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UNREGISTER_CONTROLLER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}


def kafkas(listeners: Listeners) -> set[ApiKey]:
    return {key for key, api in APIS.items() if listeners in api.listeners}


def test_controllers_serve_what_kafkas_do() -> None:
    assert set(CONTROLLER_FAMILIES) == kafkas(Listeners.CONTROLLER)


def test_brokers_serve_nothing_that_kafkas_do_not() -> None:
    assert set(FAMILIES) <= kafkas(Listeners.BROKER)


def test_envelopes_carry_what_kafka_forwards() -> None:
    assert PASSED_ON == FORWARDABLE


@pytest.mark.parametrize("key", sorted(FAMILIES))
def test_brokers_have_a_handler(key: ApiKey) -> None:
    broker_table().load(key)


@pytest.mark.parametrize("key", sorted(CONTROLLER_FAMILIES))
def test_controllers_have_a_handler(key: ApiKey) -> None:
    controller_table().load(key)
