"""A broker with an offsets topic, a Python runner, and topics with names of their own."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from support.clients.confluent import create_topic, topic_exists
from support.connect.runs import OFFSETS_TOPIC, Host, python_host
from support.servers.ottla_broker import OttlaBroker


@pytest.fixture(scope="module")
def bootstrap(broker: OttlaBroker) -> str:
    """The address of a broker whose offsets topic is there."""
    if not topic_exists(broker.bootstrap, OFFSETS_TOPIC):
        create_topic(broker.bootstrap, OFFSETS_TOPIC, 3, {"cleanup.policy": "compact"})
    return broker.bootstrap


@pytest.fixture
def host() -> Iterator[Host]:
    with python_host() as running:
        yield running


@pytest.fixture
def name() -> str:
    """The name of a connector, and a beginning for those of topics."""
    return f"c{random.getrandbits(48):x}"
