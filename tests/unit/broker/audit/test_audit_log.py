"""The audit log of running nodes: its records, over restarts and failures, and that it is off by default."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from ottla.broker.broker import Broker
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from support.broker.audit import AUDIT_ON, records_of, verified
from support.nodes.in_process import connect, running_broker


async def create(broker: Broker, *names: str) -> list[int]:
    client = await connect(broker)
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    answer: Any = await client.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
    client.close()
    return [each.error_code for each in answer.topics]


def test_a_change_is_in_the_log_before_it_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path, AUDIT_ON) as broker:
            assert await create(broker, "orders", "payments") == [0, 0]
            changes = [each for each in records_of(broker) if each["event"] == "administration"]
            assert [each["resource_name"] for each in changes if each["client_id"] == "test"] == [
                "orders",
                "payments",
            ]
        async with running_broker(tmp_path, AUDIT_ON) as broker:
            assert await create(broker, "orders", "more") == [36, 0]
            found = verified(broker)
            assert (found.broken.first, found.gaps.first) == ([], [])
            events = [each["event"] for each in records_of(broker)]
            assert events[0] == "chain-started"
            assert events.count("chain-ended") == events.count("chain-resumed") == 1
            print(json.dumps(records_of(broker), indent=1))

    asyncio.run(main())
