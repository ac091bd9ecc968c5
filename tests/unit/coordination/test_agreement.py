"""The condition under which all brokers use Kafka's partitions."""

from __future__ import annotations

import pytest

from ottla.core.coordination.agreement import BrokerKind, all_agree

KNOWS, KAFKA, OLDER, UNKNOWN = BrokerKind


@pytest.mark.parametrize(
    ("kinds", "agree"),
    [
        ([], True),
        ([KNOWS, KNOWS], True),
        ([KNOWS, KAFKA], True),
        ([KNOWS, OLDER], False),
        ([KAFKA, OLDER], False),
        ([KNOWS, UNKNOWN], False),
        ([KAFKA, UNKNOWN], True),
        ([OLDER, UNKNOWN], False),
    ],
)
def test_brokers_agree_once_all_know_kafkas_partitions(kinds: list[BrokerKind], agree: bool) -> None:
    assert all_agree(kinds) is agree
