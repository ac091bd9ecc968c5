"""Clients of each caller: made once, ended when idle, bounded, and never another caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.rest import caller_proxies
from ottla.rest.caller_proxies import CallerProxies, caller_settings
from ottla.rest.consumers.consumer_settings import InstanceSettings, client_properties
from ottla.rest.service import RestService
from ottla.rest.settings import CLIENT_PREFIX, TABLE
from ottla.web.authentication import Unauthenticated
from ottla.web.callers import BasicCredentials
from ottla.web.errors import ApiError, ServiceError

PROPAGATES = {
    "confluent.rest.auth.propagate.method": "JETTY_AUTH",
    "authentication.method": "BASIC",
    "client.security.protocol": "SASL_SSL",
    "client.sasl.mechanism": "SCRAM-SHA-512",
}


class FakeProxy:
    """Tells when it starts and stops; `instances.any`: as if it had consumer instances."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told
        self.instances = SimpleNamespace(any=False)
        self.broken = asyncio.Event()
        self.refuses = False

    async def start(self) -> None:
        if self.refuses:
            raise ServiceError("no such setting")
        self.told.append(f"start {self.name}")

    async def failed(self) -> str:
        await self.broken.wait()
        return "the producer has failed"

    def end_requests(self) -> None:
        self.told.append(f"end requests of {self.name}")

    async def stop(self) -> None:
        self.told.append(f"stop {self.name}")


class World:
    """Callers' proxies over fakes. The cluster takes the password `good`."""

    def __init__(self, most: int = 3, idle_seconds: float = 1_000.0) -> None:
        self.told: list[str] = []
        self.made: list[FakeProxy] = []
        self.logins = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.refuses_start = False
        self.proxies = CallerProxies(self._make, self._login, most, idle_seconds)  # type: ignore[arg-type]

    def _make(self, credentials: BasicCredentials) -> FakeProxy:
        made = FakeProxy(credentials.name, self.told)
        made.refuses = self.refuses_start
        self.made.append(made)
        return made

    async def _login(self, credentials: BasicCredentials) -> None:
        self.logins += 1
        await self.gate.wait()
        if credentials.password != "good":
            raise Unauthenticated("The cluster does not take the name or the password")

    async def ask(self, name: str, password: str = "good") -> FakeProxy:
        async with self.proxies.of(BasicCredentials(name, password)) as proxy:
            return proxy  # type: ignore[return-value]


def story(run: Callable[[World], Awaitable[None]], **options: Any) -> World:
    async def whole() -> World:
        world = World(**options)
        running = asyncio.create_task(world.proxies.failed())
        try:
            async with asyncio.timeout(20):
                await run(world)
        finally:
            running.cancel()
            await world.proxies.stop()
        started = [line for line in world.told if line.startswith("start ")]
        stopped = [line for line in world.told if line.startswith("stop ")]
        assert len(started) <= len(stopped)
        return world

    return asyncio.run(whole())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_proxies, "LOOK_SECONDS", 0.01)


def test_a_caller_has_one_proxy_and_another_caller_another() -> None:
    async def run(world: World) -> None:
        first = await asyncio.gather(*(world.ask("alice") for _ in range(20)))
        assert len(set(first)) == 1 and world.logins == 1
        assert await world.ask("bob") is not first[0]
        assert await world.ask("alice") is first[0] and world.logins == 2

    story(run)


def test_a_wrong_password_gets_no_proxy_of_the_name() -> None:
    async def run(world: World) -> None:
        await world.ask("alice")
        for password in ("bad", "", "good "):
            with pytest.raises(Unauthenticated):
                await world.ask("alice", password)
        assert [proxy.name for proxy in world.made] == ["alice"]
        # the name and the password are not just put together
        with pytest.raises(Unauthenticated):
            await world.ask("alice\0good"[:5], "\0good")

    story(run)


def test_the_longest_idle_one_makes_room_and_busy_ones_do_not() -> None:
    async def run(world: World) -> None:
        await world.ask("a")
        async with world.proxies.of(BasicCredentials("b", "good")):
            (await world.ask("c")).instances.any = True
            await world.ask("d")
            assert len(world.made) == 4
            await asyncio.sleep(0.1)
            assert "stop a" in world.told
            async with world.proxies.of(BasicCredentials("d", "good")):
                with pytest.raises(ApiError) as refused:
                    await world.ask("e")
                assert refused.value.status == 503
            await world.ask("e")

    story(run)


def test_wrong_passwords_end_nobody_s_clients() -> None:
    async def run(world: World) -> None:
        for name in "abc":
            await world.ask(name)
        for number in range(20):
            with pytest.raises(Unauthenticated):
                await world.ask("d", f"guess {number}")
        await asyncio.sleep(0.05)
        assert not [line for line in world.told if line.startswith("stop")]

    story(run)


def test_idle_proxies_are_ended_unless_they_have_consumer_instances() -> None:
    async def run(world: World) -> None:
        (await world.ask("kept")).instances.any = True
        await world.ask("idle")
        await until(lambda: "stop idle" in world.told)
        assert "stop kept" not in world.told
        world.made[0].instances.any = False
        await until(lambda: "stop kept" in world.told)

    story(run, idle_seconds=0.02)


def test_a_proxy_that_fails_is_made_again() -> None:
    async def run(world: World) -> None:
        first = await world.ask("alice")
        first.broken.set()
        await until(lambda: "stop alice" in world.told)
        assert await world.ask("alice") is not first

    story(run)


def test_a_proxy_that_can_t_start_is_stopped_and_tried_again() -> None:
    async def run(world: World) -> None:
        world.refuses_start = True
        with pytest.raises(ApiError) as refused:
            await world.ask("alice")
        assert refused.value.status == 500 and world.told == ["stop alice"]
        world.refuses_start = False
        await world.ask("alice")

    story(run)


def test_logins_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_proxies, "MAX_WAITING_LOGINS", 10)

    async def run(world: World) -> None:
        world.gate.clear()
        asking = [asyncio.create_task(world.ask("a", f"guess {n}")) for n in range(30)]
        await until(lambda: sum(task.done() for task in asking) == 20)
        world.gate.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert sum(isinstance(each, Unauthenticated) for each in found) == 10
        assert sum(isinstance(each, ApiError) and each.status == 503 for each in found) == 20

    story(run, most=1_000)


def test_a_client_that_goes_away_does_not_end_the_start_that_others_wait_for() -> None:
    async def run(world: World) -> None:
        world.gate.clear()
        first, second = (asyncio.create_task(world.ask("alice")) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        world.gate.set()
        assert (await second).name == "alice" and world.logins == 1

    story(run)


def test_a_start_that_is_under_way_ends_at_a_stop() -> None:
    async def run(world: World) -> None:
        world.gate.clear()
        asking = asyncio.create_task(world.ask("alice"))
        await until(lambda: world.logins == 1)
        await world.proxies.stop()
        with pytest.raises(asyncio.CancelledError):
            await asking

    assert story(run).made == []


def test_requests_end_at_a_stop() -> None:
    async def run(world: World) -> None:
        await world.ask("alice")
        world.proxies.end_requests()
        assert "end requests of alice" in world.told

    assert "stop alice" in story(run).told


# -- settings -----------------------------------------------------------------------------------------


def test_all_clients_of_a_caller_have_its_name_and_password() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="own" password="own";'
    given = {**PROPAGATES, "client.sasl.jaas.config": jaas, "client.sasl.username": "own"}
    own = caller_settings(Settings(TABLE, from_mapping(given)), BasicCredentials("alice", 'p"w;'))
    properties = own.with_prefix(CLIENT_PREFIX)
    assert (properties["sasl.username"], properties["sasl.password"]) == ("alice", 'p"w;')
    assert "own" not in str(properties)
    from ottla.client.access import ClusterAccess

    access = ClusterAccess("127.0.0.1:1", properties)
    credentials = access.connection().credentials
    assert credentials is not None and (credentials.user, credentials.password) == ("alice", 'p"w;')
    consumer = client_properties(own, access, "g", InstanceSettings.parse({}, own))
    assert (consumer["sasl.username"], consumer["sasl.password"]) == ("alice", 'p"w;')


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"authentication.method": "NONE"}, "it needs authentication.method=BASIC"),
        ({"client.security.protocol": "SSL"}, "it needs client.security.protocol=SASL_SSL"),
        ({"client.sasl.mechanism": "GSSAPI"}, "go with a sasl.mechanism of PLAIN"),
        ({"producer.sasl.username": "other"}, "callers act as themselves"),
        ({"consumer.sasl.jaas.config": "other"}, "callers act as themselves"),
        (
            {
                "client.sasl.mechanism": "OAUTHBEARER",
                "client.sasl.oauthbearer.token.endpoint.url": "file:///token",
            },
            "client.sasl.mechanism=PLAIN or SCRAM, by which passwords go",
        ),
        ({"admin.security.protocol": "PLAINTEXT"}, "callers act as themselves"),
        ({"authentication.roles": "admin"}, "the cluster checks passwords, and knows no roles"),
        ({"confluent.rest.auth.propagate.method": "SSL"}, "the private key of a caller is not known"),
    ],
)
def test_settings_by_which_callers_could_not_act_as_themselves_stop_the_start(
    change: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        RestService(Settings(TABLE, from_mapping({**PROPAGATES, **change})))


def test_no_file_of_users_is_needed_where_the_cluster_checks_passwords() -> None:
    service = RestService(Settings(TABLE, from_mapping(PROPAGATES)))
    assert service.proxy is None
