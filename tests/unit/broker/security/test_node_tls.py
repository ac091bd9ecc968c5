"""Keys and certificates of a running node change: by files and by settings, and what is refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.security import node_tls
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs_request import (
    AlterableConfig as ReplacedConfig,
)
from ottla.protocol.messages.alter_configs_request import (
    AlterConfigsRequest,
)
from ottla.protocol.messages.alter_configs_request import (
    AlterConfigsResource as ReplacedResource,
)
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata_request import MetadataRequest
from support.nodes.in_process import RawClient, running_broker, until
from support.servers.tls_trial import Trial

BROKER_RESOURCE = 4
LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"
KEYSTORE = "listener.name.ssl.ssl.keystore.location"
Story = Callable[[Broker, Trial], Awaitable[None]]


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tls, "LOOK_SECONDS", 0.01)


def play(path: Path, story: Story, settings: dict[str, str] | None = None) -> None:
    trial = Trial.create(path / "certs")

    async def run() -> None:
        values = {"listeners": LISTENERS, **trial.settings(), **(settings or {})}
        async with running_broker(path / "data", values) as broker:
            await story(broker, trial)

    asyncio.run(asyncio.wait_for(run(), 60))


async def connect(broker: Broker, context: ssl.SSLContext | None = None) -> RawClient:
    port = broker.ports["PLAINTEXT" if context is None else "SSL"]
    return RawClient(*await asyncio.open_connection("127.0.0.1", port, ssl=context))


async def shown_certificate(broker: Broker, trial: Trial) -> bytes:
    _, writer = await asyncio.open_connection("127.0.0.1", broker.ports["SSL"], ssl=trial.context())
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


async def shows_another(broker: Broker, trial: Trial, than: bytes) -> None:
    async def shows() -> bool:
        return await shown_certificate(broker, trial) != than

    await eventually(shows)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds that takes a connection to find out."""
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def is_served(client: RawClient) -> bool:
    answer: Any = await client.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    return len(answer.brokers) == 1


async def alter(broker: Broker, values: dict[str, str | None]) -> tuple[int, str | None]:
    client = await connect(broker)
    changes = [
        AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(broker.node_id), configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer: Any = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    client.close()
    return answer.responses[0].error_code, answer.responses[0].error_message


# -- files ---------------------------------------------------------------------------------------------------


def test_a_changed_file_is_used_for_new_connections_and_open_ones_stay(tmp_path: Path) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        open_one = await connect(broker, trial.context())
        before = await shown_certificate(broker, trial)
        trial.write("node", trial.node())
        await shows_another(broker, trial, before)
        assert await is_served(open_one)

    play(tmp_path, story)


def test_an_authority_that_is_taken_away_lets_no_client_in_any_more(tmp_path: Path) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        other = Trial.create(tmp_path / "other", "other CA")
        shown = trial.context(trial.client("alice"))
        assert await is_served(await connect(broker, shown))
        trial.ca.write_bytes(trial.ca.read_bytes() + other.ca.read_bytes())
        bob = foreign(trial, other)
        await eventually(lambda: is_let_in(broker, bob))
        trial.ca.write_bytes(other.ca.read_bytes())

        async def alice_is_out() -> bool:
            return not await is_let_in(broker, shown)

        await eventually(alice_is_out)
        assert await is_let_in(broker, bob)

    play(tmp_path, story, {"ssl.client.auth": "required"})


def foreign(trial: Trial, other: Trial) -> ssl.SSLContext:
    """The context of a client of another authority that trusts the node's."""
    context = ssl.create_default_context(cadata=trial.authority.certificate_pem().decode())
    context.load_cert_chain(other.write("foreign", other.client("bob")))
    return context


async def is_let_in(broker: Broker, context: ssl.SSLContext) -> bool:
    try:
        return await is_served(await connect(broker, context))
    except (OSError, asyncio.IncompleteReadError):
        return False


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda trial: (trial.directory / "node.pem").write_text("no PEM"), "neither PEM nor a PKCS12"),
        (lambda trial: (trial.directory / "node.pem").unlink(), "can't read"),
        (lambda trial: trial.write("node", trial.node("other")), "another subject: CN=other, not CN=broker"),
        (
            lambda trial: trial.write("node", trial.node(hosts=("localhost",))),
            "lacks alternative names of the former: IPAddress: 127.0.0.1",
        ),
        (
            lambda trial: (trial.directory / "node.pem").write_bytes(
                trial.node().key_pem() + trial.node().chain_pem()
            ),
            "can't be used with its certificate",
        ),
    ],
)
def test_new_material_that_cant_be_used_is_told_and_the_former_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Trial], object], words: str
) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        before = await shown_certificate(broker, trial)
        change(trial)
        await until(lambda: words in caplog.text)
        assert await shown_certificate(broker, trial) == before
        trial.write("node", trial.node())
        await shows_another(broker, trial, before)
        assert caplog.text.count(words) == 1

    play(tmp_path, story)


def test_a_file_that_changes_while_it_is_read_gives_no_mixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The context is made of one certificate, and the names are checked of the next one."""
    monkeypatch.setattr(node_tls, "LOOK_SECONDS", 3_600)

    async def story(broker: Broker, trial: Trial) -> None:
        before, good, read = await shown_certificate(broker, trial), trial.node(), node_tls.read_identity
        assert broker.tls is not None

        def replaced_first(identity: Any) -> Any:
            monkeypatch.setattr(node_tls, "read_identity", read)
            trial.write("node", good)
            return read(identity)

        monkeypatch.setattr(node_tls, "read_identity", replaced_first)
        trial.write("node", trial.node(hosts=("localhost",)))
        broker.tls.refresh()
        assert await shown_certificate(broker, trial) == before
        broker.tls.refresh()
        assert await shown_certificate(broker, trial) != before

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("setting", "new"),
    [
        ("ssl.allow.dn.changes", lambda trial: trial.node("other")),
        ("ssl.allow.san.changes", lambda trial: trial.node(hosts=("127.0.0.1",))),
    ],
)
def test_other_names_are_taken_where_they_are_allowed(
    tmp_path: Path, setting: str, new: Callable[[Trial], Any]
) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        before = await shown_certificate(broker, trial)
        trial.write("node", new(trial))
        await shows_another(broker, trial, before)

    play(tmp_path, story, {setting: "true"})


# -- settings ------------------------------------------------------------------------------------------------


def test_a_key_store_is_exchanged_by_a_setting_and_lasts_over_a_restart(tmp_path: Path) -> None:
    trial = Trial.create(tmp_path / "certs")
    settings = {"listeners": LISTENERS, **trial.settings()}
    store = trial.directory / "new.p12"
    store.write_bytes(trial.node().pkcs12("node", "secret"))

    async def first() -> bytes:
        async with running_broker(tmp_path / "data", settings) as broker:
            before = await shown_certificate(broker, trial)
            password = {"listener.name.ssl.ssl.keystore.password": "secret"}
            assert await alter(broker, {KEYSTORE: str(store), **password}) == (0, None)
            await shows_another(broker, trial, before)
            return await shown_certificate(broker, trial)

    async def second() -> bytes:
        async with running_broker(tmp_path / "data", settings) as broker:
            return await shown_certificate(broker, trial)

    assert asyncio.run(first()) == asyncio.run(second())


def test_pem_is_exchanged_by_settings_and_never_shown(tmp_path: Path) -> None:
    trial = Trial.create(tmp_path / "certs")
    prefix = "listener.name.ssl.ssl.keystore."

    def pem() -> dict[str, str | None]:
        new = trial.node()
        return {
            f"{prefix}key": new.key_pem().decode(),
            f"{prefix}certificate.chain": new.chain_pem().decode(),
        }

    async def run() -> None:
        values = {"listeners": LISTENERS, **{name: each or "" for name, each in pem().items()}}
        async with running_broker(tmp_path / "data", values) as broker:
            before = await shown_certificate(broker, trial)
            assert await alter(broker, pem()) == (0, None)
            await shows_another(broker, trial, before)
            code, message = await alter(broker, {KEYSTORE: str(trial.write("node", trial.node()))})
            assert (code, "are both given" in (message or "")) == (ErrorCode.INVALID_REQUEST, True)
            client = await connect(broker)
            resource = DescribeConfigsResource(
                resource_type=BROKER_RESOURCE, resource_name=str(broker.node_id), configuration_keys=None
            )
            request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
            answer: Any = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)
            described = {each.name: each for each in answer.results[0].configs}
            assert described[f"{prefix}key"].value is None
            assert described[f"{prefix}key"].is_sensitive
            assert "PRIVATE KEY" not in str(answer)

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda trial: "/nowhere.p12", "can't read /nowhere.p12"),
        (lambda trial: str(trial.write("other", trial.node("other"))), "another subject: CN=other"),
        (lambda trial: str(trial.ca), "has certificates and no private key"),
    ],
)
def test_a_setting_that_cant_be_used_is_refused_and_changes_nothing(
    tmp_path: Path, make: Callable[[Trial], str], words: str
) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        before = await shown_certificate(broker, trial)
        code, message = await alter(broker, {KEYSTORE: make(trial)})
        assert (code, words in (message or "")) == (ErrorCode.INVALID_REQUEST, True), message
        assert KEYSTORE not in broker.image.configs.get((BROKER_RESOURCE, str(broker.node_id)), {})
        assert await shown_certificate(broker, trial) == before
        client = await connect(broker)
        replaced = ReplacedResource(
            resource_type=BROKER_RESOURCE,
            resource_name=str(broker.node_id),
            configs=[ReplacedConfig(name=KEYSTORE, value=make(trial))],
        )
        answer: Any = await client.call(ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=[replaced]))
        assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST
        assert words in answer.responses[0].error_message

    play(tmp_path, story)


def test_settings_of_all_listeners_cant_change_while_a_broker_runs(tmp_path: Path) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        code, message = await alter(broker, {"ssl.keystore.location": "/new"})
        assert code == ErrorCode.INVALID_REQUEST
        assert "only per-listener using the listener prefix" in (message or "")

    play(tmp_path, story)
