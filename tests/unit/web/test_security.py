"""Services behind the real server: passwords, tokens, certificates, asked for before a body is read."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from joserfc.jwk import ECKey

from ottla.config.errors import UserError
from ottla.security import provider_keys
from ottla.security.password_hashes import hashed
from ottla.web import authentication
from support.web.identity_provider import IdentityProvider
from support.web.secured_service import Files, Running, client, options, running

CN = "User:CN=client"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "keys")


@pytest.fixture
def tls(files: Files) -> dict[str, str]:
    return {"ssl.keystore.location": files.identity("server")}


@pytest.fixture
def users(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "users.properties"
    path.write_text("alice: MD5:5ebe2294ecd0e0f08eab7690d2a6ee69,developer\nbob: b,c:d\n")
    return {"authentication.method": "BASIC", "ottla.authentication.users.file": str(path)}


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    yield made
    made.close()


def story(run: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(run())  # type: ignore[arg-type]


def rewrite(path: Path, text: str) -> None:
    path.write_text(text)


PLAIN = "http://127.0.0.1:0"


# -- passwords ----------------------------------------------------------------------------------------


def test_a_password_names_the_caller(users: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        given = {**users, "authentication.realm": 'the "realm"'}
        async with running(given, PLAIN) as one, httpx.AsyncClient(base_url=one.url) as http:
            answer = await http.get("/x", auth=("alice", "secret"))
            assert answer.json() == {"principal": "User:alice", "roles": ["developer"], "name": "alice"}
            for auth in (("alice", "Secret"), ("alice", ""), ("carol", "secret"), ("", "")):
                refused = await http.get("/x", auth=auth)
                assert (refused.status_code, refused.json()["error_code"]) == (401, 401)
                assert refused.headers["www-authenticate"] == 'Basic realm="the \'realm\'", charset="UTF-8"'
            for header in (
                "Basic",
                "Basic !",
                "Basic " + base64.b64encode(b"alice").decode(),
                "Bearer x",
                "x",
            ):
                assert (await http.get("/x", headers={"authorization": header})).status_code == 401

    story(run)
    assert "secret" not in caplog.text.lower().replace("authentication failed", "")


def test_a_slow_hash_is_checked_once_for_many_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "users.properties"
    path.write_text(f"alice: {hashed('secret')},a\n")
    given = {"authentication.method": "BASIC", "ottla.authentication.users.file": str(path)}
    monkeypatch.setattr(authentication, "MAX_WAITING_CHECKS", 2)

    async def run() -> None:
        async with running(given, PLAIN) as one, httpx.AsyncClient(base_url=one.url, timeout=30) as http:
            asked = [http.get("/", auth=("alice", "secret")) for _ in range(50)]
            assert {each.status_code for each in await asyncio.gather(*asked)} == {200}
            guesses = [http.get("/", auth=("alice", f"guess {n}")) for n in range(12)]
            known = [http.get("/", auth=("alice", "secret")) for _ in range(10)]
            found = await asyncio.gather(*guesses, *known)
            refused = [each.status_code for each in found[:12]]
            assert set(refused) == {401, 503} and refused.count(401) >= 2
            # who is known is served beside those who guess
            assert {each.status_code for each in found[12:]} == {200}
            path.write_text(f"alice: {hashed('other')},b\n")
            one.refresh()
            assert (await http.get("/", auth=("alice", "secret"))).status_code == 401
            assert (await http.get("/", auth=("alice", "other"))).json()["roles"] == ["b"]
            path.write_text("alice: MD5:broken\n")
            one.refresh()
            assert (await http.get("/", auth=("alice", "other"))).status_code == 200

    story(run)


def test_a_role_may_be_needed(users: dict[str, str]) -> None:
    async def run() -> None:
        given = {**users, "authentication.roles": "developer,admin"}
        async with running(given, PLAIN) as one, httpx.AsyncClient(base_url=one.url) as http:
            assert (await http.get("/", auth=("alice", "secret"))).status_code == 200
            refused = await http.get("/", auth=("bob", "b"))
            assert (refused.status_code, refused.json()) == (403, {"error_code": 403, "message": "Forbidden"})

    story(run)


def test_paths_may_need_no_authentication(users: dict[str, str]) -> None:
    async def run() -> None:
        given = {**users, "authentication.skip.paths": "/,/docs/*"}
        async with running(given, PLAIN) as one, httpx.AsyncClient(base_url=one.url) as http:
            statuses = [
                (await http.request(method, path)).status_code
                for method, path in (
                    *(("GET", path) for path in ("/", "/docs/a", "/docs", "/other", "/docsx/a")),
                    ("POST", "/"),
                )
            ]
            assert statuses == [200, 200, 401, 401, 401, 401]

    story(run)


def test_nobody_unknown_has_his_body_read(users: dict[str, str]) -> None:
    async def run() -> None:
        async with running(users, PLAIN) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
            writer.write(
                b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\nExpect: 100-continue\r\n\r\n"
            )
            # the refusal comes while the whole body is still to be sent
            assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
            writer.close()
            assert one.service.read_bytes == 0

    story(run)


def test_preflight_requests_need_no_password_unless_it_is_said(users: dict[str, str]) -> None:
    asked = {"origin": "https://a.example", "access-control-request-method": "POST"}

    async def run() -> None:
        for skips, status in (("true", 200), ("false", 401)):
            cors = {"access.control.allow.origin": "https://a.example", "access.control.skip.options": skips}
            async with running({**users, **cors}, PLAIN) as one, httpx.AsyncClient(base_url=one.url) as http:
                assert (await http.options("/", headers=asked)).status_code == status
                known = await http.options("/", headers=asked, auth=("bob", "b"))
                assert known.headers.get_list("access-control-allow-origin") == ["https://a.example"]
                refused = await http.get("/", headers={"origin": "https://a.example"})
                assert refused.status_code == 401
                assert refused.headers["access-control-allow-origin"] == "https://a.example"

    story(run)


# -- tokens -------------------------------------------------------------------------------------------


def test_a_token_names_the_caller(provider: IdentityProvider) -> None:
    async def run() -> None:
        async with running(provider.settings(), PLAIN) as one, httpx.AsyncClient(base_url=one.url) as http:

            async def ask(token: str) -> httpx.Response:
                return await http.get("/", headers={"authorization": f"Bearer {token}"})

            for algorithm in ("RS256", "ES256", "EdDSA"):
                answer = await ask(provider.token(algorithm))
                assert answer.json() == {"principal": "User:alice", "roles": ["developer"]}
            expired = await ask(provider.token(exp=1))
            assert expired.status_code == 401
            assert 'error="invalid_token"' in expired.headers["www-authenticate"]
            assert (await http.get("/")).headers["www-authenticate"] == 'Bearer realm=""'

    story(run)


def test_unknown_keys_have_the_keys_read_again_but_no_flood_does(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = IdentityProvider()
    monkeypatch.setattr(provider_keys, "UNKNOWN_KEY_SECONDS", 0.5)

    async def run() -> None:
        async with running(provider.settings(), PLAIN) as one, httpx.AsyncClient(base_url=one.url) as http:

            async def ask(token: str) -> int:
                answer = await http.get("/", headers={"authorization": f"Bearer {token}"})
                return answer.status_code

            assert await ask(provider.token()) == 200
            asked = provider.asked
            foreign = IdentityProvider()
            foreign.close()
            begun = time.monotonic()
            for number in range(50):
                foreign.keys["ES256"] = ECKey.generate_key("P-256", {"kid": f"unknown {number}"})
                assert await ask(foreign.token("ES256")) == 401
            windows = (time.monotonic() - begun) / 0.5
            assert provider.asked - asked <= windows + 2
            # The provider changes its key: the first token with it has the keys read.
            provider.keys["ES256"] = foreign.keys["ES256"]
            await asyncio.sleep(0.6)
            assert await ask(provider.token("ES256")) == 200

    try:
        story(run)
    finally:
        provider.close()


def test_a_provider_that_is_away_is_no_reason_to_let_anybody_in(provider: IdentityProvider) -> None:
    async def run() -> None:
        provider.status = 500
        async with running(provider.settings(), PLAIN) as one, httpx.AsyncClient(base_url=one.url) as http:
            answer = await http.get("/", headers={"authorization": f"Bearer {provider.token()}"})
            assert answer.status_code == 503
            provider.status = 200

    story(run)


def test_keys_in_a_file_are_taken_away_when_it_changes(
    provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_keys, "WATCH_SECONDS", 0.01)
    path = tmp_path / "keys.json"
    provider.write(path)
    given = {**provider.settings(), "oauthbearer.jwks.endpoint.url": path.as_uri()}

    async def run() -> None:
        async with running(given, PLAIN) as one, httpx.AsyncClient(base_url=one.url) as http:
            header = {"authorization": f"Bearer {provider.token('ES256')}"}
            assert (await http.get("/", headers=header)).status_code == 200
            rewrite(path, "half a file")
            await asyncio.sleep(0.05)
            assert (await http.get("/", headers=header)).status_code == 200
            without = [key for name, key in provider.keys.items() if name != "ES256"]
            rewrite(path, json.dumps({"keys": [key.as_dict(private=False) for key in without]}))
            while (await http.get("/", headers=header)).status_code == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    story(run)


# -- certificates -------------------------------------------------------------------------------------


def test_a_certificate_names_the_caller_by_the_mapping_rules(files: Files, tls: dict[str, str]) -> None:
    async def run() -> None:
        for rules, principal in (
            ({}, CN),
            ({"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}, "User:CLIENT"),
        ):
            asked = {"ssl.client.authentication": "REQUIRED", "ssl.truststore.location": files.ca}
            async with running({**tls, **asked, **rules}) as one:
                async with client(files.ca, files.identity("client")) as http:
                    assert (await http.get(one.url)).json()["principal"] == principal
                async with client(files.ca) as http:
                    with pytest.raises(httpx.TransportError):
                        await http.get(one.url)

    story(run)


def test_a_foreign_certificate_gets_nowhere(files: Files, tls: dict[str, str], tmp_path: Path) -> None:
    foreign = Files(tmp_path / "foreign", "authority").identity("client")

    async def run() -> None:
        for mode in ("REQUIRED", "REQUESTED"):
            asked = {"ssl.client.authentication": mode, "ssl.truststore.location": files.ca}
            async with running({**tls, **asked}) as one:
                async with client(files.ca, foreign) as http:
                    with pytest.raises(httpx.TransportError):
                        await http.get(one.url)
                if mode == "REQUESTED":
                    async with client(files.ca) as http:
                        assert (await http.get(one.url)).json()["principal"] == "User:ANONYMOUS"

    story(run)


def test_keys_and_authorities_change_without_a_restart(
    files: Files, tls: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(files.authority.pem)
    other = Files(tmp_path / "other", "another")
    asked = {"ssl.client.authentication": "REQUIRED", "ssl.truststore.location": str(trusted)}

    async def subject(one: Running, ca: str, identity: str) -> tuple[str, str]:
        """The principal that the service tells, and the issuer of the certificate that it shows."""
        context = ssl.create_default_context(cafile=ca)
        context.load_cert_chain(identity)
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port, ssl=context)
        try:
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            issuer = writer.get_extra_info("peercert")["issuer"][0][0][1]
            return answer.rpartition(b"\r\n")[2].decode(), issuer
        finally:
            writer.close()

    keystore = Path(tls["ssl.keystore.location"])
    half_changed = files.authority.identity("x").key + keystore.read_text()
    theirs_text = Path(other.identity("server")).read_text()

    async def run() -> None:
        mine, theirs = files.identity("client"), other.identity("client")
        async with running({**tls, **asked}) as one:
            kept = client(files.ca, mine)
            assert (await kept.get(one.url)).status_code == 200
            assert (await subject(one, files.ca, mine))[1] == "authority"
            # A key without its certificate, as amid a change: the former ones stay.
            rewrite(keystore, half_changed)
            one.refresh()
            assert (await subject(one, files.ca, mine))[1] == "authority"
            # Another authority, for the service and its clients.
            rewrite(keystore, theirs_text)
            trusted.write_text(other.authority.pem)
            one.refresh()
            assert (await subject(one, other.ca, theirs))[1] == "another"
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                told, _ = await subject(one, other.ca, mine)
                raise ConnectionError(told)
            # a connection that was made stays
            assert (await kept.get(one.url)).status_code == 200
            await kept.aclose()

    with caplog.at_level(logging.INFO):
        story(run)
    assert "has changed and can't be used, the former one stays" in caplog.text
    assert "PRIVATE" not in caplog.text


def test_files_are_looked_at_by_themselves(
    files: Files, tls: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ottla.web.security.WATCH_SECONDS", 0.01)
    other = Files(tmp_path / "other", "another")

    async def run() -> None:
        async with running(tls) as one:
            # As Kubernetes does it: the file itself is another one from now on.
            target = Path(tls["ssl.keystore.location"])
            os.replace(other.identity("server"), target)
            for _ in range(1_000):
                with_other = client(other.ca)
                try:
                    assert (await with_other.get(one.url)).status_code == 200
                    return
                except httpx.ConnectError:
                    await asyncio.sleep(0.01)
                finally:
                    await with_other.aclose()
            raise AssertionError("the new certificate was never shown")

    story(run)


def test_a_listener_has_settings_of_its_own(files: Files, tls: dict[str, str]) -> None:
    given = {
        "ssl.keystore.location": "/none",
        "listener.name.inner.ssl.keystore.location": tls["ssl.keystore.location"],
        "listener.name.inner.ssl.client.authentication": "required",
        "listener.name.inner.ssl.truststore.location": files.ca,
    }
    security = options(given).security
    assert security is not None
    context = security.tls_context("inner").value
    assert context.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(UserError, match=r"ssl\.keystore\.location=/none: can't read /none"):
        security.tls_context("https")


# -- what is refused at the start ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"authentication.method": "BASIC"},
            "authentication.method=BASIC: it needs ottla.authentication.users",
        ),
        ({"authentication.method": "BEARER"}, "it needs oauthbearer.jwks.endpoint.url"),
        ({"ottla.authentication.users.file": "/x"}, "it needs authentication.method=BASIC"),
        ({"oauthbearer.jwks.endpoint.url": "https://x/y"}, "it needs authentication.method=BEARER"),
        ({"authentication.roles": "admin"}, "clients have roles with authentication.method=BASIC or BEARER"),
        ({"ssl.principal.mapping.rules": "RULE:(/x/"}, "ssl.principal.mapping.rules"),
        ({"ottla.access.rules": "alice may everything"}, "ottla.access.rules"),
        ({"ottla.access.rules.file": "/none"}, "can't read /none"),
        (
            {"authentication.method": "BASIC", "ottla.authentication.users.file": "/none"},
            "/none: can't read it",
        ),
        (
            {"authentication.method": "BEARER", "oauthbearer.jwks.endpoint.url": "http://idp/keys"},
            "it must be https",
        ),
        (
            {"authentication.method": "BEARER", "oauthbearer.jwks.endpoint.url": "file:///none"},
            "No such file",
        ),
    ],
)
def test_settings_that_protect_nothing_stop_the_start(given: dict[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        options(given)


def open_at(given: dict[str, str], *places: tuple[str, int, str | None]) -> str | None:
    """The refusal of a service that listens there."""
    security = options(given).security
    assert security is not None
    try:
        security.require_known_clients("who", places)
    except UserError as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "", "service.example"])
def test_nobody_is_served_beyond_this_machine_unless_that_is_said(
    host: str, users: dict[str, str], files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    for own in ("127.0.0.1", "::1", "localhost", "127.0.0.9"):
        assert open_at({}, (own, 1, None)) is None
    refusal = open_at({}, ("127.0.0.1", 1, None), (host, 8081, None))
    assert refusal is not None and f"{host}:8081" in refusal and "--allow-anonymous" in refusal
    assert open_at(users, (host, 1, None)) is None
    asked = {"ssl.client.authentication": "REQUIRED", "ssl.truststore.location": files.ca}
    assert open_at(asked, (host, 1, "https")) is None
    assert open_at({}, (host, 1, "https")) is not None
    assert open_at(asked, (host, 1, "https"), (host, 2, None)) is not None
    requested = {**asked, "ssl.client.authentication": "REQUESTED"}
    assert open_at(requested, (host, 1, "https")) is not None
    caplog.clear()
    assert open_at({"ottla.http.allow.anonymous": "true"}, (host, 8081, None)) is None
    (warning,) = caplog.records
    assert f"{host}:8081 to any machine" in warning.getMessage()


def test_certificates_that_no_listener_can_ask_for_stop_the_start(files: Files) -> None:
    asked = {"ssl.client.authentication": "REQUIRED", "ssl.truststore.location": files.ca}
    refusal = open_at(asked, ("127.0.0.1", 1, None))
    assert refusal is not None and "none of its listeners is https" in refusal
