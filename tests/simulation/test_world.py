"""Tests of the simulated world itself: time, kills, networks and disks."""

from __future__ import annotations

from ottla.protocol.record_batch import NewRecord, encode_batch
from simulation.world.disk import Disk, SimulatedLog
from simulation.world.host import Host
from simulation.world.network import Network
from simulation.world.scheduler import MILLISECOND, Scheduler


def batch(offset: int, epoch: int = 1, count: int = 1) -> bytes:
    records = [NewRecord(None, b"v", 0)] * count
    return encode_batch(records, base_offset=offset, leader_epoch=epoch)


def test_events_come_in_the_order_of_their_time() -> None:
    scheduler = Scheduler(0)
    seen: list[str] = []
    scheduler.after_ms(2, seen.append, "late")
    scheduler.after_ms(1, seen.append, "early")
    scheduler.after_ms(1, seen.append, "as early, made later")
    cancelled = scheduler.after_ms(1, seen.append, "never")
    cancelled.cancel()
    scheduler.run(10 * MILLISECOND)
    assert seen == ["early", "as early, made later", "late"]
    assert scheduler.now == 10 * MILLISECOND


def test_operations_of_a_dead_host_never_end() -> None:
    scheduler = Scheduler(0)
    host = Host(scheduler, "a")
    seen: list[str] = []

    async def work() -> None:
        await host.sleep(5)
        seen.append("work")

    host.spawn("work", work())
    host.after_ms(5, seen.append, "timer")
    scheduler.after_ms(1, host.stop)
    scheduler.after_ms(2, host.start)
    scheduler.run(20 * MILLISECOND)
    assert seen == []


def test_a_kill_strikes_between_two_steps() -> None:
    scheduler = Scheduler(0)
    host = Host(scheduler, "a")
    host.on_killed = host.stop
    seen: list[int] = []

    async def work() -> None:
        for number in range(5):
            host.step()
            seen.append(number)

    host.arm_kill(3)
    host.spawn("work", work())
    scheduler.run(MILLISECOND)
    assert seen == [0, 1]
    assert not host.alive


def test_a_host_that_stands_still_goes_on_later() -> None:
    scheduler = Scheduler(0)
    host = Host(scheduler, "a")
    seen: list[int] = []
    host.after_ms(1, lambda: seen.append(scheduler.now))
    host.stand_still(50)
    scheduler.run(100 * MILLISECOND)
    assert seen == [50 * MILLISECOND]


def asked(scheduler: Scheduler, network: Network, source: Host, to: str) -> list[object]:
    answers: list[object] = []
    network.ask(source, to, "echo", "word", 100).observe(answers.append)
    scheduler.run(scheduler.now + 200 * MILLISECOND)
    return answers


def test_requests_are_answered_unless_the_network_drops_them() -> None:
    scheduler = Scheduler(0)
    network = Network(scheduler)
    a, b = Host(scheduler, "a"), Host(scheduler, "b")
    handled: list[str] = []

    def echo(request: str, source: str, answer: object) -> None:
        handled.append(source)
        answer(request + "!")  # type: ignore[operator]

    network.listen(b, "echo", echo)
    assert asked(scheduler, network, a, "b") == ["word!"]
    network.isolate(["b"], ["a"], one_way=True)  # the answer is lost, the request is not
    assert asked(scheduler, network, a, "b") == [None]
    assert handled == ["a", "a"]
    network.reconnect()
    network.faults.duplication = 1.0
    assert asked(scheduler, network, a, "b") == ["word!"]
    assert len(handled) == 4
    network.heal()
    b.stop()
    assert asked(scheduler, network, a, "b") == [None]


def test_a_power_loss_takes_unsynced_data() -> None:
    kept = set()
    for seed in range(40):
        scheduler = Scheduler(seed)
        disk = Disk(Host(scheduler, "a"))
        log = disk.logs["log"] = SimulatedLog()
        log.append(batch(0) + batch(1))
        log.end_sync(log.begin_sync())
        log.append(batch(2, epoch=2, count=3) + batch(5, epoch=3))
        disk.write("file", "old", sync=True)
        disk.write("file", "new", sync=False)
        disk.on_killed()
        assert (log.log_end_offset, disk.read("file")) == (6, "new")
        disk.on_power_loss()
        kept.add(log.log_end_offset)
        assert disk.read("file") in ("old", "new")
        assert log.latest_epoch == {2: 1, 5: 2, 6: 3}[log.log_end_offset]
    assert kept == {2, 5, 6}


def test_a_sync_does_not_cover_batches_that_were_cut_and_written_anew() -> None:
    log = SimulatedLog()
    log.append(batch(0) + batch(1))
    sync = log.begin_sync()
    log.truncate(1)
    log.append(batch(1, epoch=2))
    assert log.end_sync(sync) == 1


def test_a_log_reads_whole_batches_below_a_limit() -> None:
    log = SimulatedLog()
    log.append(batch(0, count=2) + batch(2) + batch(3))
    assert log.read(1, 1) == batch(0, count=2)
    assert log.read(0, 10_000, 3) == batch(0, count=2) + batch(2)
    assert log.read(4, 10_000) == b""
    log.advance_start(2)
    assert [header.base_offset for header, _ in log.batches(0)] == [2, 3]
