"""A headless Chromium for tests, driven by its debugging protocol: pages, scripts, pictures."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
START_S = 90.0
WAIT_S = 60.0


class Page:
    """One page of a browser."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self.complaints: list[str] = []
        """What the page's console and its policy have told."""
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """The result of one command of the protocol."""
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._connection.recv(timeout=WAIT_S))
            if message.get("method") == "Log.entryAdded":
                self.complaints.append(message["params"]["entry"]["text"])
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def open(self, url: str) -> None:
        """Go to an address, and wait until the page is there."""
        self.ask("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives there."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Return when the expression is true."""
        deadline = time.monotonic() + WAIT_S
        while not self.value(expression):
            assert time.monotonic() < deadline, f"not within {WAIT_S} s: {expression}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        code = {"Tab": 9, "Enter": 13}.get(key, 0)
        text = {} if code else {"text": key}
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )

    def picture(self, path: Path) -> None:
        """Write a picture of the page."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(directory: Path) -> Iterator[Page]:
    """A page of a browser that ends with the block."""
    assert CHROMIUM is not None
    profile = directory / "profile"
    command = [
        *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--remote-debugging-port=0", f"--user-data-dir={profile}", "--window-size=1300,1000"),
        "about:blank",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        told = profile / "DevToolsActivePort"
        deadline = time.monotonic() + START_S
        while not told.exists() or not told.read_text().strip():
            assert process.poll() is None and time.monotonic() < deadline, "the browser does not start"
            time.sleep(0.05)
        port = told.read_text().split()[0]
        pages: list[dict[str, Any]] = []
        while not pages:
            assert time.monotonic() < deadline
            found = httpx.get(f"http://127.0.0.1:{port}/json", timeout=START_S).json()
            pages = [one for one in found if one["type"] == "page"]
        with connect(pages[0]["webSocketDebuggerUrl"], max_size=None) as connection:
            yield Page(connection)
    finally:
        process.terminate()
        process.wait(30)
