"""`ottla audit serve`: its page in a real browser, events, JSON, alerts by webhook and mail."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.audit.counting import LATENESS_MS, counting
from support.audit.faulty import Faulty, settled
from support.clients.confluent import create_topic, eventually
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess
from support.web.browser import CHROMIUM, browser

WAIT_S = 90.0


@contextmanager
def serving(bootstrap: str, directory: Path, settings: dict[str, str]) -> Iterator[ServiceProcess]:
    given = {"lateness.ms": str(LATENESS_MS), **settings}
    with ServiceProcess.start("audit", bootstrap, directory, given, words=("audit", "serve")) as service:
        yield service


@contextmanager
def webhook() -> Iterator[tuple[str, list[Any]]]:
    messages: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/audit", messages
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def mail_server() -> Iterator[tuple[int, list[str]]]:
    """A server of SMTP that takes everything: its port, and the mails."""
    mails: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                word = line.strip().upper()[:4]
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    text = b""
                    while (more := self.rfile.readline()) != b".\r\n":
                        text += more
                    mails.append(text.decode())
                self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
                if word == b"QUIT":
                    return

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], mails
    finally:
        server.shutdown()
        server.server_close()


def test_a_loss_is_told_and_shown(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name, 2)
    with (
        webhook() as (url, messages),
        mail_server() as (port, mails),
        counting(broker.bootstrap, tmp_path, unique_name, {"topics.include": unique_name}),
        serving(
            broker.bootstrap,
            tmp_path,
            {
                "alert.http.url": url,
                "alert.mail.smtp.host": "127.0.0.1",
                "alert.mail.smtp.port": str(port),
                "alert.mail.to": "sre@example.com, lake@example.com",
            },
        ) as service,
        httpx.stream("GET", f"{service.url}/events", timeout=WAIT_S) as events,
    ):
        assert events.headers["content-type"].startswith("text/event-stream")
        faulty = Faulty(broker.bootstrap, unique_name, topic)
        faulty.send([*range(20), *range(23, 40), 7])
        faulty.report(40)
        settled(broker.bootstrap, unique_name)
        assert "event: changed" in next(line for line in events.iter_lines() if line.startswith("event"))

        def rows() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = httpx.get(
                f"{service.url}/api/rows", params={"tier": unique_name, "details": "true"}
            ).json()
            return found

        eventually(lambda: any(row["state"] == "incomplete" for row in rows()), "it is judged", WAIT_S)
        (row,) = rows()
        assert (row["lost"], row["doubled"], row["percent"]) == (3, 1, 92.5)
        tiers = httpx.get(f"{service.url}/api/tiers").json()
        (trend,) = [one["trend"] for one in tiers if one["tier"] == unique_name]
        assert trend == {name: {"percent": 92.5, "before": None, "change": None} for name in ("1h", "24h")}
        told = lambda: [one for one in messages if one["rows"][0]["topic"] == topic]  # noqa: E731
        eventually(lambda: bool(told()), "the webhook is told", WAIT_S)
        assert told()[0]["kind"] == "incomplete" and told()[0]["rows"][0]["lost"] == 3
        eventually(lambda: any(topic in mail for mail in mails), "a mail is sent", WAIT_S)
        mail = next(mail for mail in mails if topic in mail)
        assert "To: sre@example.com, lake@example.com" in mail and "3 of 40 lost" in mail
        faulty.send([20, 21, 22])
        eventually(lambda: any(one["kind"] == "complete" for one in told()), "it is complete", WAIT_S)
        look_at_the_page(service, unique_name, topic, row["bucket_start_ms"])


def look_at_the_page(service: ServiceProcess, tier: str, topic: str, bucket_start_ms: int) -> None:
    answer = httpx.get(service.url)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert f"tier={tier}" in answer.text and "http://" not in answer.text.replace("http://127", "")
    style = answer.text.partition('href="/assets/')[2].partition('"')[0]
    asset = httpx.get(f"{service.url}/assets/{style}")
    assert (
        asset.headers["content-type"].startswith("text/css") and "immutable" in asset.headers["cache-control"]
    )
    assert httpx.get(f"{service.url}/assets/..%2fpage_frame.py").status_code == 404
    fields = {"tier": tier, "topic": topic, "bucket": str(bucket_start_ms)}
    bucket = httpx.get(service.url, params=fields)
    assert "h1" in bucket.text and "Partitions" in bucket.text and ">h1<" in bucket.text
    assert httpx.get(service.url, params={"bucket": "x"}).status_code == 400
    hostile = httpx.get(service.url, params={"q": '"><script>alert(1)</script>', "topic": "<b>"})
    assert "<script>alert" not in hostile.text and "<b>" not in hostile.text


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
def test_the_page_in_a_browser(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    """Its own policy lets style and script in, events renew it, keys work, it is light or dark."""
    topic = create_topic(broker.bootstrap, unique_name)
    with (
        counting(broker.bootstrap, tmp_path, unique_name, {"topics.include": unique_name}),
        serving(broker.bootstrap, tmp_path, {}) as service,
        browser(tmp_path) as page,
    ):
        faulty = Faulty(broker.bootstrap, unique_name, topic)
        faulty.send([*range(20), *range(23, 40)])
        page.open(f"{service.url}/?tier={unique_name}")
        page.wait_for("document.querySelector('.live.on') !== null")
        faulty.report(40)  # all the rest the page learns by events
        page.wait_for("document.body.innerText.includes('92.5 %')")
        page.picture(tmp_path / "overview.png")
        page.press("/")
        assert page.value("document.activeElement.id") == "filter"
        page.value("document.activeElement.blur()")
        light = page.value("getComputedStyle(document.body).backgroundColor")
        page.press("t")
        assert page.value("getComputedStyle(document.body).backgroundColor") != light
        page.value("document.querySelector(`main td a`).click()")
        page.wait_for("document.querySelector('h2')?.innerText === 'Buckets'")
        assert page.value("document.documentElement.dataset.theme") == "dark", "it is remembered"
        page.picture(tmp_path / "topic.png")
        page.value("document.querySelector(`main td a`).focus()")
        page.press("Enter")
        page.wait_for("document.body.innerText.includes('Partitions')")
        page.picture(tmp_path / "bucket.png")
        assert page.value("document.documentElement.scrollWidth <= innerWidth")
        assert page.complaints == []
