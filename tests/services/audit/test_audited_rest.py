"""The REST Proxy's producer reports what it sends, where the settings name its tier."""

from __future__ import annotations

import random
from pathlib import Path

import httpx

from support.audit.reported import marked, reported
from support.clients.confluent import create_topic
from support.clients.whole_topics import read_everything
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess


def test_what_goes_through_the_proxy_is_reported(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    create_topic(broker.bootstrap, unique_name, 3)
    records = [
        {"key": f"{number % 7}", "value": {"n": number}} for number in range(random.randrange(50, 200))
    ]
    settings = {"ottla.audit.tier": unique_name}
    with ServiceProcess.start("rest", broker.bootstrap, tmp_path, settings) as rest:
        for start in range(0, len(records), 30):
            answer = httpx.post(
                f"{rest.url}/topics/{unique_name}",
                json={"records": records[start : start + 30]},
                headers={"content-type": "application/vnd.kafka.json.v2+json"},
                timeout=60,
            )
            assert answer.status_code == 200, answer.text
    sent = marked(read_everything(broker.bootstrap, unique_name))
    told = reported(broker.bootstrap, unique_name)
    assert {of: report.sent for of, report in told.items()} == sent
    assert sum(sent.values()) == len(records) and all(report.is_final for report in told.values())
