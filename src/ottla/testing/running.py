"""Brokers for the length of a block: made, started, ended, their files removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from ottla.testing.broker import RunningBroker, noting_log
from ottla.testing.cluster import RunningCluster
from ottla.testing.directories import kept_or_temporary
from ottla.testing.nodes import cluster_nodes, single_node


@contextmanager
def running_broker(
    config: Mapping[str, object] | None = None,
    *,
    data: Path | None = None,
    port: int = 0,
    log_level: str = "info",
) -> Iterator[RunningBroker]:
    """A broker on 127.0.0.1 for the length of the block.

    config: settings by Kafka's names, over those that make one small node quick. data: its directory, which
    stays and may hold an earlier broker's logs; without it an empty one that is removed afterwards. port: 0
    for any. The broker ends with this process, whatever ends it. An exception that leaves the block gets the
    end of the broker's log as a note. Raises ServerError if it does not start.
    """
    with kept_or_temporary(data) as directory:
        broker = single_node(config or {}, directory, port, log_level)
        try:
            broker.start()
            with noting_log([broker]):
                yield broker
            if data is not None and broker.running:
                broker.stop()
        finally:
            broker.close()


@asynccontextmanager
async def running_broker_async(
    config: Mapping[str, object] | None = None,
    *,
    data: Path | None = None,
    port: int = 0,
    log_level: str = "info",
) -> AsyncIterator[RunningBroker]:
    """`running_broker` that does not hold the event loop while the broker starts and ends.

    The broker's own methods block: `await asyncio.to_thread(broker.stop)` where other tasks have to go on.
    """
    running = running_broker(config, data=data, port=port, log_level=log_level)
    broker = await asyncio.to_thread(running.__enter__)
    try:
        yield broker
    except BaseException as problem:
        if not await asyncio.to_thread(running.__exit__, type(problem), problem, problem.__traceback__):
            raise
    else:
        await asyncio.to_thread(running.__exit__, None, None, None)


@contextmanager
def running_cluster(
    brokers: int = 3,
    config: Mapping[str, object] | None = None,
    *,
    data: Path | None = None,
    log_level: str = "info",
) -> Iterator[RunningCluster]:
    """So many brokers on 127.0.0.1 for the length of the block, ready when all of them serve.

    config, data and the end are those of `running_broker`. Topics have three replicas unless they are made
    with other ones. Raises ServerError if a broker does not start.
    """
    with kept_or_temporary(data) as directory:
        cluster = RunningCluster(cluster_nodes(brokers, config or {}, directory, log_level))
        try:
            cluster.start()
            cluster.heal()
            with noting_log(cluster.brokers):
                yield cluster
            if data is not None:
                cluster.stop()
        finally:
            cluster.close()
