"""Fences the producers of a connector's former tasks: one that was left behind writes no more (KIP-618)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from confluent_kafka import KafkaException, Producer

from ottla.config.errors import UserError
from ottla.connect.core.config_records import Properties
from ottla.connect.host.clients import access

TIMEOUT_SECONDS: Final = 20.0
AT_ONCE: Final = 8


TakeOver = Callable[[str, int, Properties, Mapping[str, str]], Awaitable[None]]
"""Of a connector, a task, its configuration and the worker's properties: see `fence_task`."""


class FencingFailed(UserError):
    """The cluster did not take the place of a former task's producer."""


async def fence_tasks(connector: str, config: Properties, worker: Mapping[str, str], count: int) -> None:
    """Take the transactional ids of so many tasks. Raises FencingFailed, ConfigError."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def fence(task: int) -> None:
        async with gate:
            await fence_task(connector, task, config, worker)

    await asyncio.gather(*(fence(task) for task in range(count)))


async def fence_task(connector: str, task: int, config: Properties, worker: Mapping[str, str]) -> None:
    """Take the transactional id of one task, which ends its open transaction. Raises as fence_tasks."""
    await asyncio.to_thread(_fence, f"{worker['group.id']}-{connector}-{task}", config, worker)


def _fence(transactional_id: str, config: Properties, worker: Mapping[str, str]) -> None:
    where = access(worker, config, "producer")
    try:
        producer = Producer(where.librdkafka({"transactional.id": transactional_id, "log_level": 0}))
        producer.init_transactions(TIMEOUT_SECONDS)
    except (KafkaException, TypeError, ValueError) as problem:
        text = problem.args[0].str() if isinstance(problem, KafkaException) else str(problem)
        raise FencingFailed(f"the producers of former tasks can't be fenced: {text}") from None
