"""The HTTP endpoint: its answers, who may read it, and the bounds on what a client can make it hold."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.config.errors import ConfigError
from ottla.metrics import endpoint as module
from ottla.metrics.endpoint import MOST_CONNECTIONS, MOST_HEAD_BYTES, EndpointError, MetricsEndpoint
from ottla.metrics.exposition import OPEN_METRICS, TEXT, Exposition, Family, single
from ottla.metrics.health import Check, Health, Verdict
from ottla.metrics.metric import Kind, Metric
from ottla.metrics.process import process_source
from ottla.metrics.settings import Address, EndpointOptions, parse_address
from ottla.metrics.thread import EndpointThread
from ottla.security.key_stores import Store
from ottla.security.making_certificates import Authority
from ottla.security.password_hashes import hashed
from ottla.security.server_tls import ClientAuthentication, ServerTls
from ottla.security.watched_files import WatchedFiles

LOOPBACK = EndpointOptions(Address("127.0.0.1", 0))
ANSWERS = Metric("answers", Kind.GAUGE, "Of everything.")


@asynccontextmanager
async def serving(
    options: EndpointOptions = LOOPBACK, exposition: Exposition | None = None, health: Health | None = None
) -> AsyncIterator[int]:
    made = MetricsEndpoint(
        "ottla test", options, exposition or Exposition([process_source("ottla test")]), health or Health()
    )
    port = made.bind().port
    await made.start()
    try:
        yield port
    finally:
        await made.stop()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def ask(self, path: str, *headers: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        lines = "".join(f"{each}\r\n" for each in headers)
        self.writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode())
        return await self.answer(has_body=method != "HEAD")

    async def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(10):
            status, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
            headers = dict(line.lower().split(": ", 1) for line in lines)
            body = await self.reader.readexactly(int(headers["content-length"])) if has_body else b""
        return int(status.split(" ")[1]), headers, body

    async def is_closed(self) -> bool:
        try:
            async with asyncio.timeout(10):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def ask(port: int, path: str, *headers: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    client = await Client.connect(port)
    try:
        return await client.ask(path, *headers, method=method)
    finally:
        client.writer.close()


def basic(name: str, password: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_metrics_are_served_again_and_again_on_one_connection() -> None:
    async def scenario() -> None:
        async with serving() as port:
            client = await Client.connect(port)
            for scrape in range(3):
                status, headers, body = await client.ask("/metrics?x=1", "Accept: text/plain")
                assert (status, headers["content-type"]) == (200, TEXT)
                found = {family.name: family for family in text_string_to_metric_families(body.decode())}
                assert found["ottla_metrics_scrapes"].samples[0].value == scrape
                assert found["process_open_fds"].samples[0].value > 3
            status, headers, body = await client.ask(
                "/metrics", "Accept: application/openmetrics-text;version=1.0.0;q=0.5"
            )
            assert headers["content-type"] == OPEN_METRICS and body.endswith(b"# EOF\n")
            status, headers, _ = await client.ask("/metrics", method="HEAD")
            assert status == 200 and int(headers["content-length"]) > 100
            assert (await client.ask("/"))[0] == 200
            assert (await client.ask("/else"))[0] == 404
            status, headers, _ = await client.ask("/metrics", method="POST")
            assert (status, headers["allow"]) == (405, "get, head")

    asyncio.run(scenario())


def test_health_is_told_with_reasons() -> None:
    health = Health(
        [Check("loop", lambda: Verdict(True, "the loop turns"))],
        [Check("caught-up", lambda: Verdict(False, "12 records of metadata are missing"))],
    )

    async def scenario() -> None:
        async with serving(health=health) as port:
            status, headers, body = await ask(port, "/healthz")
            assert (status, headers["content-type"]) == (200, "application/json; charset=utf-8")
            assert json.loads(body)["status"] == "ok"
            status, _, body = await ask(port, "/readyz")
            assert status == 503
            assert json.loads(body) == {
                "status": "failed",
                "checks": [
                    {"name": "loop", "state": "ok", "reason": "the loop turns"},
                    {"name": "caught-up", "state": "failed", "reason": "12 records of metadata are missing"},
                ],
            }

    asyncio.run(scenario())


def test_readers_prove_who_they_are_and_others_learn_the_state_alone(tmp_path: Path) -> None:
    users, tokens = tmp_path / "users", tmp_path / "tokens"
    users.write_text(f"prometheus: {hashed('secret')}\n")
    tokens.write_text(f"one: {hashed('t0k3n')}\ntwo: {hashed('other')}\n")
    health = Health(ready=[Check("x", lambda: Verdict(True, "a reason"))])
    options = EndpointOptions(Address("127.0.0.1", 0), str(users), str(tokens))

    async def scenario() -> None:
        async with serving(options, health=health) as port:
            status, headers, _ = await ask(port, "/metrics")
            assert status == 401
            assert headers["www-authenticate"] == 'basic realm="ottla metrics", bearer realm="ottla metrics"'
            assert (await ask(port, "/metrics", basic("prometheus", "wrong")))[0] == 401
            assert (await ask(port, "/metrics", basic("nobody", "secret")))[0] == 401
            assert (await ask(port, "/metrics", "Authorization: Basic !!"))[0] == 401
            assert (await ask(port, "/metrics", "Authorization: Bearer secret"))[0] == 401
            for _ in range(2):
                assert (await ask(port, "/metrics", basic("prometheus", "secret")))[0] == 200
                assert (await ask(port, "/metrics", "Authorization: Bearer other"))[0] == 200
            assert json.loads((await ask(port, "/readyz"))[2]) == {"status": "ok"}
            assert "checks" in json.loads((await ask(port, "/readyz", "Authorization: Bearer t0k3n"))[2])

    asyncio.run(scenario())


def test_a_changed_file_of_users_ends_what_was_known(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("prometheus: secret\n")
    made = MetricsEndpoint(
        "ottla test", EndpointOptions(Address("127.0.0.1", 0), str(users)), Exposition(), Health()
    )

    async def scenario() -> None:
        header = basic("prometheus", "secret").partition(": ")[2]
        assert await made._access.allows(header)
        users.write_text("prometheus: another one\n")
        made._refresh()
        assert not await made._access.allows(header)

    asyncio.run(scenario())


def test_an_address_beyond_loopback_needs_readers_or_a_word_that_it_is_open(tmp_path: Path) -> None:
    def made(**given: str | bool) -> MetricsEndpoint:
        options = EndpointOptions(Address("0.0.0.0", 0), **given)  # type: ignore[arg-type]
        return MetricsEndpoint("ottla broker", options, Exposition(), Health())

    with pytest.raises(ConfigError, match=r"to any machine .*ottla.metrics.users.file .*ottla.metrics.open"):
        made()
    made(is_open=True)
    file = tmp_path / "users"
    with pytest.raises(ConfigError, match=r"ottla\.metrics\.users\.file"):
        made(users_file=str(file))
    file.write_text("")
    with pytest.raises(ConfigError, match="names nobody"):
        made(tokens_file=str(file))
    file.write_text("a: b\n")
    made(users_file=str(file))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9404", 200),
        ("localhost", 200),
        ("[::1]:9404", 200),
        ("evil.example:9404", 421),
        ("127.0.0.1.evil.example", 421),
    ],
)
def test_a_loopback_endpoint_answers_no_page_of_a_foreign_name(host: str, status: int) -> None:
    async def scenario() -> None:
        async with serving() as port:
            assert (await ask(port, "/metrics", f"Host: {host}"))[0] == status

    asyncio.run(scenario())


def test_a_port_in_use_is_one_clear_line() -> None:
    async def scenario() -> None:
        async with serving() as port:
            options = EndpointOptions(Address("127.0.0.1", port))
            with pytest.raises(
                EndpointError, match=rf"^ottla test can't serve its metrics at http://127.0.0.1:{port}: "
            ):
                MetricsEndpoint("ottla test", options, Exposition(), Health()).bind()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * MOST_HEAD_BYTES * 4 + b"\r\n\r\n", 431),
        (b"y" * MOST_HEAD_BYTES * 4, 431),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 505),
    ],
)
def test_what_is_no_request_is_refused_and_ends_the_connection(sent: bytes, status: int) -> None:
    async def scenario() -> None:
        async with serving() as port:
            client = await Client.connect(port)
            client.writer.write(sent)
            assert (await client.answer())[0] == status
            assert await client.is_closed()
            assert (await ask(port, "/metrics"))[0] == 200

    asyncio.run(scenario())


def test_slow_and_silent_clients_lose_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.1)

    async def scenario() -> None:
        async with serving() as port:
            silent, slow = await Client.connect(port), await Client.connect(port)
            slow.writer.write(b"GET /met")
            assert (await slow.answer())[0] == 408
            assert await slow.is_closed()
            assert await silent.is_closed()

    asyncio.run(scenario())


def test_a_client_that_takes_no_answer_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.1)
    metric = Metric("many", Kind.GAUGE, "Many.", ("label",), most_series=10**6)
    exposition = Exposition([lambda: iter([Family(metric, (((f"{n:0>200}",), n) for n in range(60_000)))])])

    async def scenario() -> None:
        async with serving(exposition=exposition) as port:
            client = await Client.connect(port)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            await until(lambda: served() > 0)
            await until(lambda: served() == 0)
            client.writer.transport.abort()

    asyncio.run(scenario())


def test_more_connections_than_allowed_are_refused_and_room_comes_back() -> None:
    async def scenario() -> None:
        async with serving() as port:
            kept = [await Client.connect(port) for _ in range(MOST_CONNECTIONS)]
            for client in kept:
                assert (await client.ask("/healthz"))[0] == 200
            refused = await Client.connect(port)
            assert (await refused.answer())[0] == 503
            assert await refused.is_closed()
            kept.pop().writer.close()
            await until(lambda: served() < MOST_CONNECTIONS)
            assert (await ask(port, "/healthz"))[0] == 200

    asyncio.run(scenario())


def served() -> int:
    """The connections that the endpoint serves."""
    return sum(task.get_name() == "metrics-connection" for task in asyncio.all_tasks())


def test_tls_takes_new_keys_while_it_serves_and_may_ask_for_certificates(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.create("trial", now, 2)
    key, trust = tmp_path / "key.pem", tmp_path / "trust.pem"
    trust.write_bytes(authority.certificate_pem())

    def issue(name: str) -> None:
        key.write_bytes(authority.issue(name, now, 2, hosts=["127.0.0.1"]).pem())

    issue("first")
    tls = ServerTls(Store(str(key), None), Store(str(trust), None), ClientAuthentication.REQUIRED)
    made = MetricsEndpoint(
        "ottla test",
        EndpointOptions(Address("0.0.0.0", 0, uses_tls=True)),
        Exposition(),
        Health(),
        WatchedFiles("keys", tls.paths, tls.context),
        asks_for_certificates=True,
    )
    client = ssl.create_default_context(cafile=str(trust))
    client.load_cert_chain(str(key))

    async def served_name(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        writer.write(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        subject = writer.get_extra_info("peercert")["subject"]
        writer.close()
        return str(dict(pair for part in subject for pair in part)["commonName"])

    async def scenario() -> None:
        port = made.bind().port
        await made.start()
        try:
            assert await served_name(port) == "first"
            stranger = ssl.create_default_context(cafile=str(trust))
            with pytest.raises((ssl.SSLError, ConnectionError)):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=stranger)
                writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
                assert not await reader.read(1)
                raise ConnectionError
            issue("second")
            async with asyncio.timeout(20):
                while await served_name(port) != "second":  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        finally:
            await made.stop()

    asyncio.run(scenario())


def test_an_endpoint_in_a_thread_serves_a_process_without_a_loop() -> None:
    exposition = Exposition([lambda: iter([single(ANSWERS, 42)])])
    thread = EndpointThread(MetricsEndpoint("ottla test", LOOPBACK, exposition, Health()))
    address = thread.start()
    try:
        assert b"\nanswers 42\n" in asyncio.run(ask(address.port, "/metrics"))[2]
    finally:
        thread.stop()
    with pytest.raises(OSError):
        asyncio.run(ask(address.port, "/metrics"))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9404", Address("127.0.0.1", 9404)),
        (":0", Address("", 0)),
        ("https://[::1]:1", Address("::1", 1, uses_tls=True)),
        ("http://host:80/", Address("host", 80)),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "9404", "host", "host:", "host:x", "host:70000", "::1:9404"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give HOST:PORT"):
        parse_address(text)
