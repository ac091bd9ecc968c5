"""The cleaner of a running broker: its process, its checkpoint, what it leaves alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.broker.replication.log_cleaner import DEATHS, CleaningProcess, LogCleaner
from ottla.broker.replication.partition import Partition
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.record_batch import NewRecord, encode_batch, parse_batch_header
from ottla.storage.checkpoints import read_offsets
from support.nodes.in_process import connect, create_topic, running_broker
from support.storage.compaction import contents, files

QUICK = {"log.cleaner.backoff.ms": "20", "log.segment.delete.delay.ms": "0"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "1048576"}


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, at most 30 seconds."""
    try:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"waited in vain for {what}")


def put(broker: Broker, partition: Partition, *records: tuple[bytes, bytes | None]) -> None:
    """Append records as one batch."""
    batch = memoryview(bytearray(encode_batch([NewRecord(*record, broker.now_ms()) for record in records])))
    partition.append(batch, [parse_batch_header(batch)], broker.now_ms())


async def set_policy(broker: Broker, topic: str, policy: str) -> None:
    """Alter cleanup.policy as a client does."""
    change = AlterableConfig(name="cleanup.policy", config_operation=0, value=policy)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[change])
    client = await connect(broker)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await client.call(44, 1, request)
    assert response.responses[0].error_code == 0  # type: ignore[attr-defined]
    client.close()


def cleaner_of(broker: Broker) -> LogCleaner:
    return broker.replication.cleaner


async def made_dirty(
    broker: Broker, topic: str, *, generations: int = 5, policy: str = "compact"
) -> Partition:
    """A topic with `generations` values of 100 keys in closed segments."""
    await create_topic(broker, topic, configs={**COMPACTED, "cleanup.policy": policy})
    partition = broker.partitions.partition(topic, 0)
    for generation in range(generations):
        for number in range(100):
            put(broker, partition, (b"%d" % number, b"%d" % generation))
        partition.log.roll(broker.now_ms())
    return partition


def test_a_dirty_log_is_cleaned_and_the_checkpoint_says_how_far(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path / "data", QUICK) as broker:
            partition = await made_dirty(broker, "t")

            await until(lambda: len(contents(partition.log)) == 100, "the last values alone")

            assert set(contents(partition.log).values()) == {(b"%d" % n, b"4") for n in range(100)}
            checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
            await until(lambda: read_offsets(checkpoint).get(("t", 0)) == 500, "the checkpoint")
            await until(lambda: cleaner_of(broker).cleanings > 0, "the counters")
            assert cleaner_of(broker).bytes_read > cleaner_of(broker).bytes_written > 0

            # and again, from there on
            put(broker, partition, (b"7", b"new"))
            partition.log.roll(broker.now_ms())
            await until(lambda: (b"7", b"4") not in contents(partition.log).values(), "the second cleaning")
            assert len(contents(partition.log)) == 100

    asyncio.run(scenario())


def test_appends_and_fetches_go_on_while_logs_are_cleaned(tmp_path: Path) -> None:
    """No gap but for what is replaced, no record out of order, whatever is swapped in meanwhile."""

    async def scenario() -> None:
        async with running_broker(tmp_path / "data", QUICK) as broker:
            await create_topic(broker, "t", configs=COMPACTED)
            partition = broker.partitions.partition("t", 0)
            log = partition.log
            last: dict[bytes, int] = {}
            next_read = 0
            rounds = 0
            while cleaner_of(broker).cleanings < 6:
                rounds += 1
                assert rounds < 20_000, "no cleaning came"
                key = b"%d" % (log.log_end_offset % 37)
                last[key] = log.log_end_offset
                put(broker, partition, (key, b"%d" % log.log_end_offset))
                if log.log_end_offset % 100 == 0:
                    log.roll(broker.now_ms())
                # a reader behind the cleaner, and one that keeps up
                seen = list(contents(log))
                assert seen == sorted(seen)
                assert set(last.values()) <= set(seen)
                piece = log.read(next_read, 1 << 16, upper_offset=log.log_end_offset, at_least_one_batch=True)
                assert piece.first_batch_offset >= next_read or piece.size_bytes == 0
                next_read = log.log_end_offset
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_a_topic_deleted_while_it_is_cleaned_is_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        slow = {**QUICK, "log.cleaner.io.max.bytes.per.second": "20000"}
        async with running_broker(tmp_path / "data", slow) as broker:
            partition = await made_dirty(broker, "t", generations=60)
            await until(lambda: partition.log.being_cleaned, "the cleaning")

            await broker.controller_channel.ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
            )

            await until(lambda: not partition.log.being_cleaned, "its end")
            assert cleaner_of(broker).uncleanable == set()

    asyncio.run(scenario())


def test_a_corrupt_log_is_left_alone_and_others_are_cleaned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path / "data", QUICK) as broker:
            broken = await made_dirty(broker, "broken", policy="delete")
            other = await made_dirty(broker, "other", generations=4, policy="delete")
            path = broken.log.segments[1].path
            content = bytearray(path.read_bytes())
            content[-3] ^= 0xFF
            path.write_bytes(content)

            await set_policy(broker, "broken", "compact")
            await set_policy(broker, "other", "compact")

            await until(lambda: len(contents(other.log)) == 100, "the other log")
            assert cleaner_of(broker).uncleanable == {("broken", 0)}
            assert len([each for each in caplog.messages if "cannot be cleaned" in each]) == 1
            assert path.read_bytes() == content
            assert not [name for name in files(broken.log.directory) if name.endswith(".cleaned")]

    asyncio.run(scenario())


def test_the_process_ends_with_the_work_and_with_the_broker(tmp_path: Path) -> None:
    def children() -> list[int]:
        found = []
        for task in os.listdir(f"/proc/{os.getpid()}/task"):
            # A thread of another test's may end meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                content = Path(f"/proc/{os.getpid()}/task/{task}/children").read_text()
                found += [int(pid) for pid in content.split()]
        return found

    if not os.path.exists("/proc/self/task"):
        pytest.skip("needs /proc")

    async def scenario() -> None:
        before = set(children())
        async with running_broker(tmp_path / "data", QUICK) as broker:
            assert set(children()) == before, "it starts with the first dirty log"
            await made_dirty(broker, "t")
            await until(lambda: cleaner_of(broker).cleanings == 1, "the cleaning")
            await until(lambda: set(children()) == before, "its end")
        slow = {**QUICK, "log.cleaner.io.max.bytes.per.second": "1000"}
        async with running_broker(tmp_path / "slow", slow) as broker:
            await made_dirty(broker, "t")
            await until(lambda: set(children()) != before, "a cleaning")
        assert set(children()) == before

    asyncio.run(scenario())


def test_a_topic_made_again_is_not_taken_for_clean(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path / "data", QUICK) as broker:
            await made_dirty(broker, "t")
            checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
            await until(lambda: ("t", 0) in read_offsets(checkpoint), "the checkpoint")
            await broker.controller_channel.ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
            )
            partition = await made_dirty(broker, "t", generations=6)
            await until(lambda: len(contents(partition.log)) == 100, "the last values alone")

    asyncio.run(scenario())


def test_a_topic_that_becomes_compacted_is_cleaned(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path / "data", QUICK) as broker:
            partition = await made_dirty(broker, "t", policy="delete")
            assert cleaner_of(broker).cleanings == 0

            await set_policy(broker, "t", "compact,delete")

            await until(lambda: len(contents(partition.log)) == 100, "the cleaning")

    asyncio.run(scenario())


def test_a_stop_waits_for_the_end_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off, the end of its pipes is an error that nobody expects: a traceback at SIGTERM."""
    ends: list[str] = []
    end = CleaningProcess.end

    async def noted(process: CleaningProcess) -> None:
        try:
            await end(process)
            ends.append("complete")
        except asyncio.CancelledError:
            ends.append("cut off")
            raise

    monkeypatch.setattr(CleaningProcess, "end", noted)

    async def scenario(number: int) -> None:
        slow = {**QUICK, "log.cleaner.io.max.bytes.per.second": "1000"}
        async with running_broker(tmp_path / str(number), slow) as broker:
            await made_dirty(broker, "t")
            await until(lambda: any(cleaner_of(broker)._busy.values()), "the process")

    stops = 6  # which of the two tasks hears first of the stop is chance
    for number in range(stops):
        asyncio.run(scenario(number))
    assert ends == ["complete"] * stops


def test_a_process_that_is_killed_is_no_end_of_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody's kill, a machine short of memory: the log is tried again, then left alone."""

    async def scenario() -> None:
        slow = {**QUICK, "log.cleaner.io.max.bytes.per.second": "1000"}
        async with running_broker(tmp_path / "data", slow) as broker:
            await made_dirty(broker, "t")
            killed: set[int] = set()

            def process() -> CleaningProcess | None:
                return next((each for each in cleaner_of(broker)._busy.values() if each), None)

            while len(killed) < DEATHS:
                await until(lambda: process() is not None and process().pid not in killed, "a process")  # type: ignore[union-attr]
                running = process()
                assert running is not None and cleaner_of(broker).uncleanable == set()
                killed.add(running.pid)
                running.kill()
            await until(lambda: cleaner_of(broker).uncleanable == {("t", 0)}, "the cleaner's giving up")

            other = await made_dirty(broker, "other")
            await until(lambda: other.log.being_cleaned, "the other log's turn")

    asyncio.run(scenario())
    assert len([each for each in caplog.messages if "cannot be cleaned" in each]) == 1
