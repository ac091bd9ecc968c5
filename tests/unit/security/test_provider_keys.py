"""Tokens checked by an identity provider's keys: good and wrong ones, new keys, providers that fail."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.security import provider_keys
from ottla.security.bearer_tokens import BadToken, TokenRules, UnknownKey
from ottla.security.key_set_source import KeySetSource, KeysUnreachable
from ottla.security.provider_keys import UNKNOWN_KEY_SECONDS, ProviderKeys
from ottla.security.token_source import (
    ClientCredentials,
    TokenFile,
    TokenUnavailable,
    expiry_seconds,
    token_file,
)
from support.identity_provider import AUDIENCE, ISSUER, IdentityProvider, served
from support.nodes.in_process import until
from support.servers.certificates import Authority

PROVIDER = IdentityProvider()
RULES = TokenRules(ISSUER, frozenset({AUDIENCE}), 10, requires_issued_at=True)


@pytest.fixture(scope="module")
def wrong() -> dict[str, str]:
    return PROVIDER.wrong()


def keys_in_file(directory: Path, provider: IdentityProvider = PROVIDER) -> ProviderKeys:
    file = directory / "keys.json"
    file.write_text(provider.key_set())
    return ProviderKeys(KeySetSource(file.as_uri()), RULES, 3600)


def test_a_good_token_names_its_holder_and_end(tmp_path: Path) -> None:
    token = PROVIDER.token(exp=int(time.time()) + 60)
    holder = asyncio.run(keys_in_file(tmp_path).check(token))
    assert holder.name == "alice"
    assert 55 < holder.expires_at - time.time() <= 60


def test_one_audience_of_several_is_enough(tmp_path: Path) -> None:
    token = PROVIDER.token(aud=["another", AUDIENCE])
    assert asyncio.run(keys_in_file(tmp_path).check(token)).name == "alice"


def test_an_elliptic_key_is_one_too(tmp_path: Path) -> None:
    provider = IdentityProvider()
    provider.rotate("curve", "EC")
    assert asyncio.run(keys_in_file(tmp_path, provider).check(provider.token())).name == "alice"


def test_wrong_tokens_are_refused_without_being_repeated(tmp_path: Path, wrong: dict[str, str]) -> None:
    keys = keys_in_file(tmp_path)

    async def main() -> None:
        for name, token in wrong.items():
            with pytest.raises(BadToken) as refused:
                await keys.check(token)
            assert token not in str(refused.value), name
            assert not any(len(part) > 8 and part in str(refused.value) for part in token.split(".")), name

    asyncio.run(main())


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fetched(provider: IdentityProvider, url: str, clock: Callable[[], float]) -> ProviderKeys:
    return ProviderKeys(KeySetSource(url), RULES, 3600, clock=clock)


def test_a_new_key_is_found_when_a_token_names_it() -> None:
    provider, clock = IdentityProvider(), Clock()

    async def main() -> None:
        with served(provider) as server:
            keys = fetched(provider, server.key_set_url, clock)
            assert (await keys.check(provider.token())).name == "alice"
            provider.rotate("second")
            clock.now += UNKNOWN_KEY_SECONDS
            assert (await keys.check(provider.token())).name == "alice"
            assert len(server.asked) == 2

    asyncio.run(main())


def test_a_flood_of_unknown_keys_asks_the_provider_once() -> None:
    provider, clock = IdentityProvider(), Clock()
    known = provider.token()
    stranger = IdentityProvider()
    for number in range(2):
        stranger.rotate(f"unknown-{number}", "EC")
    tokens = [stranger.token(kid=f"unknown-{number % 2}") for number in range(200)]

    async def main() -> None:
        with served(provider) as server:
            keys = fetched(provider, server.key_set_url, clock)
            assert (await keys.check(known)).name == "alice"
            clock.now += UNKNOWN_KEY_SECONDS
            results = await asyncio.gather(*(keys.check(each) for each in tokens), return_exceptions=True)
            assert all(isinstance(each, UnknownKey) for each in results)
            assert len(server.asked) == 2
            # known keys are not held up meanwhile
            assert (await keys.check(known)).name == "alice"

    asyncio.run(main())


def test_a_provider_that_is_down_costs_nothing_that_is_known() -> None:
    provider, clock = IdentityProvider(), Clock()

    async def main() -> None:
        with served(provider) as server:
            server.is_down = True
            keys = fetched(provider, server.key_set_url, clock)
            with pytest.raises(KeysUnreachable):
                await keys.check(provider.token())
            server.is_down = False
            clock.now += UNKNOWN_KEY_SECONDS
            assert (await keys.check(provider.token())).name == "alice"
            server.is_down = True
            stranger = IdentityProvider()
            stranger.rotate("unknown", "EC")
            clock.now += UNKNOWN_KEY_SECONDS
            with pytest.raises(UnknownKey):
                await keys.check(stranger.token())
            assert (await keys.check(provider.token())).name == "alice"

    asyncio.run(main())


def test_keys_are_read_again_and_again() -> None:
    provider = IdentityProvider()

    async def main() -> None:
        with served(provider) as server:
            server.is_down = True
            source = KeySetSource(server.key_set_url)
            keys = ProviderKeys(source, RULES, 0.01, first_retry_seconds=0.001, longest_retry_seconds=0.01)
            running = asyncio.create_task(keys.run())
            await until(lambda: len(server.asked) >= 3)
            server.is_down = False
            before = len(server.asked)
            await until(lambda: len(server.asked) >= before + 3)
            running.cancel()
            assert (await keys.check(provider.token())).name == "alice"

    asyncio.run(asyncio.wait_for(main(), 30))


def test_keys_in_a_file_are_read_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_keys, "WATCH_SECONDS", 0.001)
    former, newer = IdentityProvider(), IdentityProvider()
    newer.rotate("second")
    del newer.keys["first"]
    file = tmp_path / "keys.json"
    file.write_text(former.key_set())
    # This clock stands still: no unknown key has the file read.
    keys = ProviderKeys(KeySetSource(file.as_uri()), RULES, 3600, clock=Clock())

    async def takes(token: str) -> bool:
        try:
            return (await keys.check(token)).name == "alice"
        except UnknownKey:
            return False

    async def main() -> None:
        running = asyncio.create_task(keys.run())
        old, new = former.token(), newer.token()
        assert (await takes(old), await takes(new)) == (True, False)
        file.write_text(newer.key_set())
        while not await takes(new):  # noqa: ASYNC110 - no event tells that the file was read
            await asyncio.sleep(0.001)
        assert not await takes(old)
        running.cancel()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_redirect_is_not_followed() -> None:
    with served(IdentityProvider()) as server:
        url = server.key_set_url.replace("/keys", "/elsewhere")
        with pytest.raises(KeysUnreachable, match="Found"):
            KeySetSource(url).fetch()
        assert server.asked == ["/elsewhere"]


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """The TLS of a server whose authority's certificate is in `ca.pem`."""
    authority = Authority(tmp_path, "authority")
    identity = authority.identity("idp")
    (tmp_path / "ca.pem").write_text(authority.pem)
    (tmp_path / "idp.pem").write_text(identity.key + identity.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "idp.pem")
    return context


def test_keys_and_tokens_come_over_tls_from_the_authority_that_is_named(
    tmp_path: Path, tls: ssl.SSLContext
) -> None:
    provider, ca = IdentityProvider(), str(tmp_path / "ca.pem")
    with served(provider, tls) as server:
        assert len(KeySetSource(server.key_set_url, ca).fetch()) == 1
        assert ClientCredentials(server.token_url, "node", "secret", ca_location=ca).fetch()
        # anybody can make a certificate: without the authority's it is worth nothing
        with pytest.raises(KeysUnreachable, match="certificate"):
            KeySetSource(server.key_set_url).fetch()
        with pytest.raises(TokenUnavailable, match="certificate"):
            ClientCredentials(server.token_url, "node", "secret").fetch()
        assert server.forms == ["grant_type=client_credentials"]


# -- tokens of one's own ------------------------------------------------------------------------------------


def test_client_credentials_give_a_token() -> None:
    provider = IdentityProvider()
    with served(provider, sub="node") as server:
        source = ClientCredentials(server.token_url, "node", "s:e/cret", "kafka")
        token = source.fetch()
        assert expiry_seconds(token) is not None
        assert server.forms == ["grant_type=client_credentials&scope=kafka"]
        assert server.authorizations == ["Basic bm9kZTpzOmUvY3JldA=="]
        assert "s:e/cret" not in repr(source)
        server.is_down = True
        with pytest.raises(TokenUnavailable) as refused:
            source.fetch()
        assert "s:e/cret" not in str(refused.value)


@pytest.mark.parametrize("content", ["", "two words", "x" * 20_000, "head.body\nadmin"])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(TokenUnavailable):
        TokenFile(file).fetch()


def test_a_token_in_a_file_may_end_with_a_line(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.write_text("head.body.tail\n")
    path = token_file(file.as_uri())
    assert path is not None
    assert TokenFile(path).fetch() == "head.body.tail"
