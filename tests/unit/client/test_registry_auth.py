"""Who we are is said to a Schema Registry by every transport, and shown to nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.broker.replication.schema_lookup import fetch_schema
from ottla.client.registry import async_client, sync_client
from ottla.client.registry.wire import RegistryAccess, RegistryUnreachable
from support.registry.fake_registry import FakeRegistry

ADA = "Basic YWRhOnBhc3M6d8O2cmQ="  # ada:pass:wörd


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """It has one schema."""
    running = FakeRegistry()
    running.answer = lambda path: (200, ["s"] if path.endswith("/subjects") else {"schema": '"int"'})
    yield running
    running.close()


def asked_on_a_loop(access: RegistryAccess) -> None:
    async def ask() -> None:
        client = async_client.RegistryClient(access)
        try:
            await client.by_id(1)
        finally:
            await client.close()

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("user_info", "token", "expected"),
    [(None, None, None), ("ada:pass:wörd", None, ADA), (None, "t0ken", "Bearer t0ken")],
)
def test_by_settings(
    registry: FakeRegistry,
    user_info: str | None,
    token: str | None,
    expected: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if expected is not None:
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login another password another\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    access = RegistryAccess(registry.url, user_info, token, attempts=1)
    sync_client.RegistryClient(access).by_id(1)
    asked_on_a_loop(access)
    assert registry.authorizations == [expected, expected]
    assert "pass" not in repr(access) and "t0ken" not in repr(access)


def test_by_the_address(registry: FakeRegistry) -> None:
    url = f"http://ada:pass%3Aw%C3%B6rd@{registry.address}"
    access = RegistryAccess(url, attempts=1)
    asked_on_a_loop(access)
    fetch_schema([url], 1, False)
    assert registry.authorizations == [ADA, ADA]
    assert "pass" not in access.shown


def test_a_password_in_an_address_is_in_no_message() -> None:
    access = RegistryAccess("http://ada:secret@127.0.0.1:9", attempts=1)
    with pytest.raises(RegistryUnreachable, match=r"http://127\.0\.0\.1:9 does not answer") as told:
        asked_on_a_loop(access)
    assert "secret" not in str(told.value)
    with pytest.raises(RegistryUnreachable, match=r"http://127\.0\.0\.1:9 does not answer") as told:
        sync_client.RegistryClient(access).by_id(1)
    assert "secret" not in str(told.value)


def test_threads_that_ask_for_the_same_share_an_answer(registry: FakeRegistry) -> None:
    client = sync_client.RegistryClient(RegistryAccess(registry.url, attempts=1))
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda _: client.by_id(1), range(64)))
    assert len({id(one) for one in found}) == 1
    assert registry.asked == ["/schemas/ids/1"]
