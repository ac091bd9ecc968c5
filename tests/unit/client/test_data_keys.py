"""Data encryption keys as writers and readers get them from a registry, which is in this process here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.data_keys import DataKeys, Encryption, NoKey
from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.wire import RegistryAccess, RegistryRefusal, UnusableAnswer
from ottla.encryption.algorithms import DekAlgorithm
from ottla.encryption.key_services import KeyServices
from ottla.registry.app import registry_application
from ottla.schemas.formats import format_of
from ottla.schemas.model import Metadata, Rule, SchemaType
from support.registry.registry_core import FIRST_TIMESTAMP_MS, InMemoryRegistry

WANTED = Encryption("k", "local-kms", "id", DekAlgorithm.AES256_GCM, 0)
EXPIRING = Encryption("k", "local-kms", "id", DekAlgorithm.AES256_SIV, 2)
DAY_S = 86_400
FIRST_S = FIRST_TIMESTAMP_MS / 1_000

Story = Callable[[Callable[..., DataKeys]], Awaitable[None]]


def play(story: Story, registry: InMemoryRegistry | None = None) -> None:
    """The story gets a way to make the keys of a client, with a secret and a clock of its own."""
    served = registry_application(registry or InMemoryRegistry({"ottla.local.kms.secret": "shared"}))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = scope["raw_path"].partition(b"?")[0]
        await served({**scope, "raw_path": raw_path}, receive, send)

    async def played() -> None:
        access = RegistryAccess("http://registry", attempts=1)
        client = RegistryClient(access, httpx.ASGITransport(app))
        await story(lambda secret="a", now_s=FIRST_S: DataKeys(client, KeyServices(secret), lambda: now_s))
        await client.close()

    asyncio.run(played())


def test_the_first_writer_makes_the_keys_and_all_others_get_them() -> None:
    async def story(keys: Callable[..., DataKeys]) -> None:
        made = await keys().to_write(WANTED, "s")
        assert made.version == 1
        assert await keys().to_write(WANTED, "s") == await keys().to_read(WANTED, "s", 1) == made
        assert await keys().to_write(WANTED, "a/b:c") != made
        at_once = await asyncio.gather(*(keys().to_write(WANTED, "t") for _ in range(8)))
        assert len(set(at_once)) == 1
        for secret in ("another", None):
            with pytest.raises(NoKey, match="secret"):
                await keys(secret).to_write(WANTED, "s")
            with pytest.raises(NoKey, match="secret"):
                await keys(secret).to_read(WANTED, "s", 1)

    play(story)


def test_a_key_that_has_expired_gets_a_next_version() -> None:
    async def story(keys: Callable[..., DataKeys]) -> None:
        first = await keys().to_write(EXPIRING, "s")
        assert await keys(now_s=FIRST_S + 1.9 * DAY_S).to_write(EXPIRING, "s") == first
        second = await keys(now_s=FIRST_S + 2.1 * DAY_S).to_write(EXPIRING, "s")
        assert (second.version, second.key == first.key) == (2, False)
        assert await keys().to_write(EXPIRING, "s") == second
        assert await keys().to_read(EXPIRING, "s", 1) == first
        assert await keys(now_s=FIRST_S + 9 * DAY_S).to_write(WANTED, "s") != second

    play(story)


def test_deleted_keys_are_read_and_not_written_with() -> None:
    async def story(keys: Callable[..., DataKeys]) -> None:
        made = await keys().to_write(WANTED, "s")
        registry.keys.apply(registry.keys.writes.delete_dek("k", "s", None, None, False))
        assert await keys().to_read(WANTED, "s", 1) == made
        with pytest.raises(NoKey, match="deleted"):
            await keys().to_write(WANTED, "s")
        with pytest.raises(NoKey, match="no version 7"):
            await keys().to_read(WANTED, "s", 7)

    registry = InMemoryRegistry()
    play(story, registry)


def test_a_shared_key_is_wrapped_and_told_by_the_registry() -> None:
    async def story(keys: Callable[..., DataKeys]) -> None:
        await keys()._registry.ask(
            "POST",
            "/dek-registry/v1/keks",
            {"name": "k", "kmsType": "local-kms", "kmsKeyId": "id", "shared": True},
        )
        made = await keys(None).to_write(WANTED, "s")
        assert await keys(None).to_read(WANTED, "s", 1) == made
        other = Encryption("k", "local-kms", "another id", DekAlgorithm.AES256_GCM, 0)
        with pytest.raises(NoKey, match="kmsKeyId"):
            await keys(None).to_write(other, "s")

    play(story)


def test_a_reader_makes_no_keys_and_a_rule_may_not_say_which_to_make() -> None:
    async def story(keys: Callable[..., DataKeys]) -> None:
        with pytest.raises(NoKey):
            await keys().to_read(WANTED, "s", 1)
        with pytest.raises(NoKey, match="does not say"):
            await keys().to_write(Encryption("k", None, None, DekAlgorithm.AES256_GCM, 0), "s")
        with pytest.raises(RegistryRefusal):
            await keys().to_write(Encryption("no name", "local-kms", "id", DekAlgorithm.AES256_GCM, 0), "s")
        assert (registry.keys.image.kek_count, registry.keys.image.dek_count) == (0, 0)

    registry = InMemoryRegistry()
    play(story, registry)


@pytest.mark.parametrize("answer", [{}, {"version": "1"}, {"version": 1, "ts": "x"}])
def test_an_answer_that_is_no_key_is_refused(answer: dict[str, Any]) -> None:
    def answered(request: httpx.Request) -> httpx.Response:
        kek = {"name": "k", "kmsType": "local-kms", "kmsKeyId": "id"}
        return httpx.Response(200, json=answer if "/deks/" in request.url.path else kek)

    async def story() -> None:
        client = RegistryClient(RegistryAccess("http://a", attempts=1), httpx.MockTransport(answered))
        with pytest.raises(UnusableAnswer):
            await DataKeys(client, KeyServices("a")).to_write(EXPIRING, "s")
        await client.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "no encrypt.kek.name"),
        ({"encrypt.kek.name": ""}, "no encrypt.kek.name"),
        ({"encrypt.kek.name": "k", "encrypt.dek.algorithm": "ROT13"}, "ROT13"),
        ({"encrypt.kek.name": "k", "encrypt.dek.expiry.days": "-1"}, "number of days"),
        ({"encrypt.kek.name": "k", "encrypt.dek.expiry.days": "x"}, "number of days"),
    ],
)
def test_parameters_that_can_t_be_used(params: dict[str, str], problem: str) -> None:
    schema = RegisteredSchema(1, format_of(SchemaType.AVRO).parse('"string"', {}))
    with pytest.raises(NoKey, match=problem):
        Encryption.of(Rule("r", params=params), schema)


def test_parameters_come_from_the_metadata_where_the_rule_has_none() -> None:
    properties = {"encrypt.kek.name": "m", "encrypt.dek.algorithm": "AES128_GCM"}
    parsed = format_of(SchemaType.AVRO).parse('"string"', {})
    schema = RegisteredSchema(1, parsed, metadata=Metadata.from_json({"properties": properties}))
    found = Encryption.of(Rule("r", params={"encrypt.dek.expiry.days": "3"}), schema)
    assert found == Encryption("m", None, None, DekAlgorithm.AES128_GCM, 3)
    assert Encryption.of(Rule("r", params={"encrypt.kek.name": "own"}), schema).kek_name == "own"
