"""Who gets a connection: slots, addresses, rates, descriptors; and how many lines a flood costs."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.network import acceptor, flood_log
from ottla.broker.network.acceptor import Acceptor
from ottla.broker.network.connection_limits import ConnectionLimits, CreationRate, descriptor_share
from ottla.broker.network.flood_log import FloodLog
from ottla.config.errors import ConfigError
from ottla.core.quotas.address_rates import AddressRates
from support.nodes.in_process import until

SHARE = 1000


def limits(share: int = SHARE, **settings: str) -> ConnectionLimits:
    values = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:1",
        "inter.broker.listener.name": "INSIDE",
    }
    values["listener.security.protocol.map"] = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    values |= {name.replace("__", "-").replace("_", "."): value for name, value in settings.items()}
    return ConnectionLimits(BrokerConfig.from_mapping(values), ("INSIDE", "OUTSIDE"), share)


def test_descriptors_bound_the_connections_of_clients() -> None:
    made = limits(share=2)
    assert made.max_connections == 2
    assert made.add("OUTSIDE", "10.0.0.1") and made.add("OUTSIDE", "10.0.0.1")
    assert not made.has_slot("OUTSIDE") and made.has_slot("INSIDE")
    assert made.add("INSIDE", "10.0.0.2") and made.excess == 1


@pytest.mark.parametrize(("limit", "share"), [(100, 50), (1024, 512), (1400, 760), (20_000, 19_360)])
def test_logs_keep_descriptors_of_their_own(limit: int, share: int) -> None:
    assert descriptor_share(limit) == share


def test_an_address_is_the_same_however_it_is_written() -> None:
    made = limits(max_connections_per_ip="1", max_connections_per_ip_overrides="10.0.0.2:2, [2001:db8::1]:3")
    assert made.add("OUTSIDE", "10.0.0.1") and not made.add("OUTSIDE", "::ffff:10.0.0.1")
    assert made.limit_of_address("::ffff:10.0.0.2") == 2
    assert made.limit_of_address("2001:db8:0::1") == 3
    made.remove("OUTSIDE", "::ffff:10.0.0.1")
    assert made.add("OUTSIDE", "10.0.0.1") and made.total == 1


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", ":5", "10.0.0.1:-1", "10.0.0.1:many"])
def test_overrides_that_nobody_can_read_stop_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match="address:limit"):
        limits(max_connections_per_ip_overrides=text)


def test_a_rate_allows_its_average_over_the_window_then_delays() -> None:
    # Given 2 a second over 10 seconds
    rate = CreationRate(span_seconds=10, longest_wait=1)
    # When 20 come at once, nobody waits; then each waits for its half second
    assert [rate.count(2, 100.0) for _ in range(20)] == [0.0] * 20
    assert rate.count(2, 100.0) == 0.5
    assert rate.count(2, 100.5) == 0.5
    # A window is the longest that one waits
    for _ in range(50):
        longest = rate.count(2, 100.5)
    assert longest == 1
    assert rate.count(0, 100.5) == 1
    # Rested, all may come again
    assert rate.count(2, 200.0) == 0.0


def test_a_listener_has_its_own_rate_and_brokers_only_that() -> None:
    made = limits(
        max_connection_creation_rate="1",
        quota_window_num="2",
        listener_name_inside_max_connection_creation_rate="2",
    )
    assert [made.delay("OUTSIDE", 5.0) > 0 for _ in range(2)] == [False, True]
    assert [made.delay("INSIDE", 5.0) > 0 for _ in range(3)] == [False, False, True]


# -- accepting ------------------------------------------------------------------------------------------


class FullListener(socket.socket):
    """A socket whose accept fails as the system says, `failures` times."""

    def __init__(self, failures: int, number: int) -> None:
        super().__init__()
        self.failures = failures
        self.number = number
        self.accepted = 0

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        raise BlockingIOError

    async def sock_accept(self, _: object) -> tuple[socket.socket, tuple[str, int]]:
        if self.failures:
            self.failures -= 1
            raise OSError(self.number, "Too many open files")
        if self.accepted:
            await asyncio.sleep(3600)
        self.accepted += 1
        return socket.socket(), ("127.0.0.1", 1)


def test_without_descriptors_accepting_pauses_with_one_line_and_resumes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "RETRY_SECONDS", 0.001)
    listener = FullListener(20, errno.EMFILE)
    done = asyncio.Event()

    async def adopt(accepted: socket.socket, address: str) -> None:
        accepted.close()
        done.set()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "sock_accept", listener.sock_accept)
        running = Acceptor("OUTSIDE", listener, limits(), asyncio.Event(), adopt, lambda _: None)
        task = asyncio.ensure_future(running.run())
        await asyncio.wait_for(done.wait(), 20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "accepting paused listener=OUTSIDE reason=Too many open files connections=0",
        "accepting resumed listener=OUTSIDE connections=0",
    ]


def test_a_flood_is_accepted_in_batches_between_which_others_are_served() -> None:
    # Given more connections waiting than a batch
    waiting = 3 * acceptor.ACCEPT_BATCH
    accepted: list[int] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0), backlog=waiting) as bound:
            bound.setblocking(False)
            clients = [socket.create_connection(bound.getsockname()) for _ in range(waiting)]
            turns = 0

            async def adopt(each: socket.socket, address: str) -> None:
                accepted.append(turns)
                each.close()

            running = Acceptor("OUTSIDE", bound, limits(), asyncio.Event(), adopt, lambda _: None)
            task = asyncio.ensure_future(running.run())
            while len(accepted) < waiting:
                await asyncio.sleep(0)
                turns += 1
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            loop.remove_reader(bound)
            for client in clients:
                client.close()

    asyncio.run(scenario())
    # Then the loop turned in between
    assert max(accepted.count(turn) for turn in accepted) <= acceptor.ACCEPT_BATCH


def test_a_slot_that_another_listener_took_meanwhile_is_not_taken_twice() -> None:
    # Given a listener that waits for its first connection, while another one takes the last slot
    made = limits(max_connections="1")
    taken: list[str] = []

    async def adopt(accepted: socket.socket, address: str) -> None:
        taken.append(address)
        accepted.close()

    async def scenario() -> None:
        freed = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as bound:
            bound.setblocking(False)
            task = asyncio.ensure_future(Acceptor("OUTSIDE", bound, made, freed, adopt, lambda _: None).run())
            await asyncio.sleep(0.001)
            assert made.add("INSIDE", "10.0.0.1")
            # When a client connects
            client = socket.create_connection(bound.getsockname())
            for _ in range(20):
                await asyncio.sleep(0.001)
            # Then it waits until the slot is free again
            assert not taken
            made.remove("INSIDE", "10.0.0.1")
            freed.set()
            await until(lambda: bool(taken))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            client.close()

    asyncio.run(scenario())


def test_a_connection_over_the_rate_waits_and_those_before_it_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a rate that the second of three connections is over
    delays = iter([0.0, 3600.0])
    made = limits()
    monkeypatch.setattr(made, "delay", lambda listener, now: next(delays))
    taken: list[str] = []

    async def adopt(accepted: socket.socket, address: str) -> None:
        taken.append(address)
        accepted.close()

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as bound:
            bound.setblocking(False)
            clients = [socket.create_connection(bound.getsockname()) for _ in range(3)]
            running = Acceptor("OUTSIDE", bound, made, asyncio.Event(), adopt, lambda _: None)
            task = asyncio.ensure_future(running.run())
            await until(lambda: bool(taken))
            for _ in range(20):
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for client in clients:
                client.close()

    # When they come
    asyncio.run(scenario())
    # Then one is there, and the others wait
    assert len(taken) == 1


# -- logging --------------------------------------------------------------------------------------------


def test_a_flood_of_events_costs_a_line_a_second_and_kind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(flood_log, "WINDOW_SECONDS", 0.02)

    async def scenario() -> None:
        flood = FloodLog(asyncio.get_running_loop(), logging.getLogger("ottla.broker"))
        for number in range(1000):
            flood.warn("refused", f"refused client={number}")
        flood.warn("closed", "closed client=7")
        await until(lambda: not flood.counting)
        flood.warn("refused", "refused client=after")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "refused client=0",
        "closed client=7",
        "999 more within a second kind=refused latest: refused client=999",
        "refused client=after",
    ]


def test_a_connection_that_is_too_early_for_its_address_counts_nowhere() -> None:
    made = limits(max_connection_creation_rate="1", quota_window_num="2")
    made.address_rates = AddressRates(2, 1000)
    made.address_rates.set_limits({"10.0.0.1": 1.0}, default=None)
    assert made.delay("OUTSIDE", 100.0) == 0 and not made.too_early_ms("OUTSIDE", "10.0.0.1", 100.0)
    for _ in range(5):
        made.delay("OUTSIDE", 101.0)
        assert made.too_early_ms("OUTSIDE", "::ffff:10.0.0.1", 100.0) > 0
    assert made.delay("OUTSIDE", 101.0) == 0  # the five have not used the listener's rate up
    assert not made.too_early_ms("OUTSIDE", "10.0.0.2", 100.0)


def test_early_connections_are_kept_waiting_a_bounded_number_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptor, "MOST_EARLY", 2)

    async def scenario() -> None:
        made = limits()
        made.address_rates = AddressRates(11, 1000)
        made.address_rates.set_limits({}, default=0.001)
        adopted: list[socket.socket] = []

        async def adopt(accepted: socket.socket, address: str) -> None:
            adopted.append(accepted)

        with socket.create_server(("127.0.0.1", 0)) as bound:
            bound.setblocking(False)
            running = asyncio.ensure_future(
                Acceptor("OUTSIDE", bound, made, asyncio.Event(), adopt, lambda _: None).run()
            )
            clients = [await asyncio.open_connection(*bound.getsockname()) for _ in range(3)]
            # the first of them has to go for the third
            assert await clients[0][0].read() == b""
            assert not clients[2][0].at_eof()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            # and the others go with the listener
            for reader, writer in clients[1:]:
                assert await reader.read() == b""
                writer.close()
            clients[0][1].close()
        assert adopted == [] and made.total == 0

    asyncio.run(scenario())
