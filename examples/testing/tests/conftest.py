"""The broker that all tests share, as the service's own cluster is set."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import pytest

from order_service.billing import Billing


@pytest.fixture(scope="session")
def kafka_config() -> Mapping[str, object]:
    """Settings of the session's broker, by Kafka's names."""
    return {"num.partitions": 3, "auto.create.topics.enable": False}


@pytest.fixture
def billing() -> Callable[[Billing], AbstractContextManager[Billing]]:
    """Runs a `Billing` beside the test for the length of a block."""

    @contextmanager
    def running(billing: Billing) -> Iterator[Billing]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        task = asyncio.run_coroutine_threadsafe(billing.run(), loop)
        try:
            yield billing
        finally:
            task.cancel()
            loop.call_soon_threadsafe(lambda: loop.create_task(_stop_when_done(loop)))
            thread.join(30)
            loop.close()

    return running


async def _stop_when_done(loop: asyncio.AbstractEventLoop) -> None:
    """Let the cancelled tasks leave their groups, then stop the loop."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    await asyncio.wait(others, timeout=20) if others else None
    loop.stop()
