"""What the model is made of: Cruise Control's capacities, counters of metrics, options of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.balance.broker_metrics import counters_in
from ottla.balance.capacities import CapacityError, read_capacities
from ottla.balance.core.model import Capacity

METRICS = """\
# HELP kafka_server_brokertopicmetrics_bytesin_total Bytes.
kafka_server_brokertopicmetrics_bytesin_total 900
kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 500
kafka_server_brokertopicmetrics_bytesin_total{topic="clicks"} 4e2
kafka_server_brokertopicmetrics_bytesout_total{topic="orders"} 1500
process_cpu_seconds_total 12.5
"""


def written(directory: Path, content: object) -> Path:
    path = directory / "capacity.json"
    path.write_text(json.dumps(content))
    return path


def test_counters_are_by_topic() -> None:
    found = counters_in(METRICS)
    assert found.bytes_in == {"orders": 500, "clicks": 400}
    assert found.bytes_out == {"orders": 1500}
    assert found.cpu_seconds == 12.5


def test_counters_of_the_jmx_exporter_without_rules() -> None:
    found = counters_in(
        """\
# TYPE kafka_server_BrokerTopicMetrics_Count untyped
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",} 7.0
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",topic="orders",} 5.0E2
kafka_server_BrokerTopicMetrics_Count{topic="orders",name="BytesOutPerSec"} 1500.0
kafka_server_BrokerTopicMetrics_Count{name="ReplicationBytesInPerSec",topic="orders"} 3.0
kafka_server_BrokerTopicMetrics_MeanRate{name="BytesInPerSec",topic="orders"} 4.0
process_cpu_seconds_total 3.25
"""
    )
    assert found.bytes_in == {"orders": 500}
    assert found.bytes_out == {"orders": 1500}
    assert found.cpu_seconds == 3.25


def test_capacities_are_in_cruise_controls_units(tmp_path: Path) -> None:
    entries = [
        {
            "brokerId": "-1",
            "capacity": {"DISK": "100000", "CPU": "100", "NW_IN": "10000", "NW_OUT": "20000"},
        },
        {"brokerId": "3", "capacity": {"DISK": {"/a": "10", "/b": "20"}, "CPU": {"num.cores": "8"}}},
    ]
    found = read_capacities(written(tmp_path, {"brokerCapacities": entries}))
    assert found == {
        -1: Capacity(100_000 << 20, 10_000 << 10, 20_000 << 10, 100),
        3: Capacity(30 << 20, None, None, 800),
    }


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"brokerCapacities": [{}]},
        {"brokerCapacities": [{"brokerId": "x", "capacity": {}}]},
        {"brokerCapacities": [{"brokerId": "1", "capacity": {"DISK": "-5"}}]},
        {"brokerCapacities": [{"brokerId": "1", "capacity": {"DISK": "much"}}]},
    ],
)
def test_what_is_no_file_of_capacities_is_refused(tmp_path: Path, content: object) -> None:
    path = written(tmp_path, content)
    with pytest.raises(CapacityError, match=r"capacity\.json"):
        read_capacities(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CapacityError, match="can't read it"):
        read_capacities(tmp_path / "none.json")
