"""The controller: nothing is seen before it is durable, everything is there again after a stop or a kill."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.controller.controller import Controller
from ottla.broker.controller.metadata_quorum import MetadataQuorum
from ottla.broker.controller.metadata_snapshots import snapshots
from ottla.broker.peers.peers import PeerConnections
from ottla.broker.system_randomness import SystemRandomness
from ottla.config.errors import ConfigError
from ottla.core.decisions.decision import Decision
from ottla.core.decisions.topics import create_topics, delete_topics
from ottla.core.image.features import INITIAL_FEATURES
from ottla.core.image.image import EndpointImage, MetadataDelta, MetadataImage
from ottla.core.settings import broker_settings
from ottla.protocol.errors import ErrorCode, KafkaStorageError, NotController, UnknownServerError
from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.schema import Message
from ottla.storage.flush import FlushTask
from ottla.storage.log_directory import LogDirectory, LogDirectoryError
from support.core.metadata import DEFAULTS, NOTHING_CONFIGURED, started_broker, topic

NOW_MS = 1_700_000_000_000
METADATA = "__cluster_metadata-0"


@asynccontextmanager
async def running(
    path: Path, *, clean: bool = True, cluster_id: str | None = None, **settings: str
) -> AsyncIterator[Controller]:
    """A controller in `path`; without `clean` it ends as if killed. Underscores stand for dots."""
    values = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig.from_mapping(
        {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", **values}
    )
    directory = LogDirectory.open(path, node_id=config.node_id, cluster_id=cluster_id)
    try:
        peers = PeerConnections("test")
        quorum = MetadataQuorum.open(directory, config, peers, now_ms=lambda: NOW_MS)
        controller = await Controller.open(quorum, config, now_ms=lambda: NOW_MS)
        quorum.start({"PLAINTEXT": 19092})
        assert controller.active
        await controller.submit(lambda image: Decision(broker_start(image, quorum), None))
        yield controller
        if clean:
            await controller.close()
            await quorum.close()
    finally:
        directory.close(clean=clean)


def broker_start(image: MetadataImage, quorum: MetadataQuorum) -> list[Message]:
    """Node 1 registers as a broker, in one change."""
    broker_epoch = image.last_offset + 1
    endpoint = EndpointImage("PLAINTEXT", "127.0.0.1", 19092)
    directory_id = quorum.directory.directory_id
    return started_broker(image, 1, broker_epoch, uuid.uuid4(), [endpoint], None, directory_id)


async def create(controller: Controller, *names: str, partitions: int = 1) -> list[int]:
    request = CreateTopicsRequest(topics=[topic(name, partitions, 1) for name in names])
    answer = await controller.submit(
        lambda image: create_topics(image, request, DEFAULTS, NOTHING_CONFIGURED, SystemRandomness())
    )
    return [result.error_code for result in answer.topics]


async def delete(controller: Controller, *names: str) -> None:
    request = DeleteTopicsRequest(topic_names=list(names))
    await controller.submit(lambda image: delete_topics(image, request, None))


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


# -- start ----------------------------------------------------------------------------------------------


def test_a_new_cluster(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "data") as controller:
            image = controller.image
            assert image.configs == {(4, ""): {"min.insync.replicas": "1"}}
            assert controller.epoch == 1
            assert controller.high_watermark == controller.log_end_offset

    run(test)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_everything_is_there_again(tmp_path: Path, clean: bool) -> None:
    async def test() -> None:
        async with running(tmp_path, clean=clean) as controller:
            assert await create(controller, "orders", "clicks", partitions=3) == [0, 0]
            await delete(controller, "clicks")
            before = controller.image
        async with running(tmp_path) as controller:
            after = controller.image
            assert sorted(after.topics) == ["orders"]
            assert after.topics["orders"].topic_id == before.topics["orders"].topic_id
            assert controller.epoch == 2
            assert after.brokers[1].broker_epoch > before.brokers[1].broker_epoch
            for partition in after.topics["orders"].partitions.values():
                assert (partition.leader, partition.isr) == (1, (1,))
                assert partition.leader_epoch >= 1

    run(test)


def test_a_format_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, clean=False) as controller:
            cluster = controller._quorum.directory.cluster_id
        for file in (tmp_path / METADATA).iterdir():
            file.unlink()
        (tmp_path / "bootstrap.checkpoint").unlink()
        async with running(tmp_path) as controller:
            assert controller._quorum.directory.cluster_id == cluster
            assert controller.image.brokers[1].active

    run(test)


def test_partitions_without_metadata_are_not_formatted_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path):
            pass
        for file in (tmp_path / METADATA).iterdir():
            file.unlink()
        (tmp_path / METADATA).rmdir()
        (tmp_path / "orders-0").mkdir()
        with pytest.raises(LogDirectoryError, match="holds partitions but no __cluster_metadata-0"):
            async with running(tmp_path):
                pass
        assert not (tmp_path / METADATA).exists()

    run(test)


def test_metadata_of_4_3_is_served_as_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            older = FeatureLevelRecord(name="metadata.version", feature_level=30)
            await controller.submit(lambda image: Decision([older], None))
        async with running(tmp_path) as controller:
            assert controller.image.features["metadata.version"] == 30

    run(test)


def test_metadata_of_another_version_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            newer = FeatureLevelRecord(name="metadata.version", feature_level=29)
            await controller.submit(lambda image: Decision([newer], None))
        with pytest.raises(
            ConfigError, match=r"has metadata.version 4.2-IV1, this ottla serves 4.3-IV0 to 4.4-IV2"
        ):
            async with running(tmp_path):
                pass

    run(test)


def test_a_damaged_quorum_state_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path):
            pass
        (tmp_path / METADATA / "quorum-state").write_text('{"leaderEpoch":')
        with pytest.raises(LogDirectoryError, match="quorum-state is damaged"):
            async with running(tmp_path):
                pass

    run(test)


# -- changes --------------------------------------------------------------------------------------------


def test_listeners_hear_of_a_change_before_it_is_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            heard: list[MetadataDelta] = []
            controller.add_listener(heard.append)
            await create(controller, "orders", partitions=2)
            (delta,) = heard
            assert [name for _, name in delta.created_topics] == ["orders"]
            assert len(delta.changed_partitions) == 2

    run(test)


def test_nothing_is_seen_before_it_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that waits: the topic is nowhere, and a second creator waits with the first one."""

    async def test() -> None:
        async with running(tmp_path) as controller:
            started, go_on = threading.Event(), threading.Event()
            sync = FlushTask.run

            def slow_sync(task: FlushTask) -> None:
                started.set()
                assert go_on.wait(30)
                sync(task)

            monkeypatch.setattr(FlushTask, "run", slow_sync)
            first = asyncio.ensure_future(create(controller, "orders"))
            await asyncio.to_thread(started.wait, 30)
            second = asyncio.ensure_future(create(controller, "orders"))
            await asyncio.sleep(0)
            assert "orders" not in controller.image.topics
            assert not first.done()
            assert not second.done()
            go_on.set()
            assert await first == [ErrorCode.NONE]
            assert await second == [ErrorCode.TOPIC_ALREADY_EXISTS]
            assert "orders" in controller.image.topics

    run(test)


def test_changes_that_come_together_share_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            syncs: list[int] = []
            sync = FlushTask.run

            def counted(task: FlushTask) -> None:
                syncs.append(task.end_offset)
                sync(task)

            monkeypatch.setattr(FlushTask, "run", counted)
            results = await asyncio.gather(*(create(controller, f"topic-{number}") for number in range(50)))
            assert results == [[ErrorCode.NONE]] * 50
            assert len(controller.image.topics) == 50
            assert len(syncs) <= 3

    run(test)


def test_a_client_that_goes_away_does_not_stop_the_others(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            impatient = asyncio.ensure_future(create(controller, "orders"))
            patient = asyncio.ensure_future(create(controller, "clicks"))
            await asyncio.sleep(0)
            impatient.cancel()
            with suppress(asyncio.CancelledError):
                await impatient
            assert await patient == [ErrorCode.NONE]
            assert sorted(controller.image.topics) == ["clicks", "orders"]

    run(test)


def test_a_decision_that_fails_changes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            end = controller.log_end_offset
            with pytest.raises(ZeroDivisionError):
                await controller.submit(lambda image: 1 / 0)
            assert controller.log_end_offset == end

    run(test)


def test_a_full_disk_is_told_and_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            with monkeypatch.context() as patched:
                patched.setattr("ottla.storage.segment.Segment.append", _no_space)
                with pytest.raises(KafkaStorageError, match="No space"):
                    await create(controller, "orders")
            assert "orders" not in controller.image.topics
            assert await create(controller, "orders") == [ErrorCode.NONE]

    run(test)


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_failed_sync_ends_the_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on the disk is not known any more: nothing is applied, answered or tried again."""

    async def test() -> None:
        async with running(tmp_path, clean=False) as controller:
            died: asyncio.Queue[BaseException] = asyncio.Queue()

            def ended(task: asyncio.Task[Any]) -> None:
                failure = task.exception()
                if failure is not None:
                    died.put_nowait(failure)

            def spawn(name: str, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
                task = asyncio.get_running_loop().create_task(coroutine, name=name)
                task.add_done_callback(ended)
                return task

            controller._quorum._spawn = spawn
            monkeypatch.setattr(FlushTask, "run", _no_space)
            with pytest.raises(NotController):
                await create(controller, "orders")
            with pytest.raises(NotController):
                await create(controller, "clicks")
            assert "orders" not in controller.image.topics
            assert isinstance(await died.get(), OSError)

    run(test)


def test_a_closed_controller_takes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            pass
        with pytest.raises(NotController):
            await create(controller, "orders")

    run(test)


def test_dynamic_settings_reach_the_configuration(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as controller:
            record = ConfigRecord(resource_type=4, resource_name="1", name="fetch.max.bytes", value="4096")
            seen: list[int] = []
            config = controller._config
            controller.add_listener(lambda _: seen.append(config[broker_settings.FETCH_MAX_BYTES]))
            await controller.submit(lambda image: Decision([record], None))
            assert seen == [4096]
        async with running(tmp_path) as controller:
            assert controller._config[broker_settings.FETCH_MAX_BYTES] == 4096

    run(test)


# -- snapshots ------------------------------------------------------------------------------------------


async def snapshot_written(controller: Controller) -> None:
    while controller._snapshotting is not None:
        await asyncio.wait([controller._snapshotting])


SMALL = {
    "metadata_log_max_record_bytes_between_snapshots": "2000",
    "metadata_max_retention_bytes": "1",
    "internal_metadata_delete_delay_millis": "0",
}


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_snapshot_replaces_the_log_before_it(tmp_path: Path, clean: bool) -> None:
    async def test() -> None:
        async with running(tmp_path, clean=clean, **SMALL) as controller:
            for number in range(60):
                await create(controller, f"topic-{number}")
            await snapshot_written(controller)
            kept = snapshots(tmp_path / METADATA)
            assert len(kept) == 1
            assert kept[0].end_offset > 100
            await create(controller, "after-the-snapshot")
        async with running(tmp_path, **SMALL) as controller:
            assert len(controller.image.topics) == 61
            assert controller.image.features == dict(INITIAL_FEATURES)
            assert controller.image.brokers[1].active

    run(test)


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **SMALL) as controller:
            for number in range(60):
                await create(controller, f"topic-{number}")
            await snapshot_written(controller)
        (kept,) = snapshots(tmp_path / METADATA)
        file = tmp_path / METADATA / kept.file_name
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        with pytest.raises(LogDirectoryError, match=r"snapshot .* is damaged"):
            async with running(tmp_path):
                pass
        file.write_bytes(data[:200])
        with pytest.raises(LogDirectoryError, match=r"snapshot .* (is damaged|ends before its footer)"):
            async with running(tmp_path):
                pass

    run(test)


def test_metadata_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, clean=False) as controller:
            known = ConfigRecord(resource_type=2, resource_name="x", name="a", value="1")
            controller._log.append(1, [known], 0)
            controller._log.append(1, [RemoveTopicRecord()], 0)
            controller._log.flush()
        with pytest.raises(LogDirectoryError, match="makes no sense at offset"):
            async with running(tmp_path):
                pass

    run(test)


def test_a_decision_that_makes_no_sense_stays_out_of_the_log(tmp_path: Path) -> None:
    """Its records would stop every node, and every start."""

    async def test() -> None:
        async with running(tmp_path) as controller:
            waiting = asyncio.ensure_future(create(controller, "orders"))
            await asyncio.sleep(0)
            end = controller.log_end_offset
            known = ConfigRecord(resource_type=2, resource_name="orders", name="a", value="1")
            with pytest.raises(UnknownServerError):
                await controller.submit(lambda image: Decision([known, RemoveTopicRecord()], None))
            assert controller.log_end_offset == end
            assert await waiting == [ErrorCode.NONE]
            await create(controller, "clicks")
            assert sorted(controller.image.topics) == ["clicks", "orders"]
            assert (2, "orders") not in controller.image.configs

    run(test)
