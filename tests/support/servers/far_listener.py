"""A broker with two listeners: one for the test's own clients, and one behind a proxy, which cuts it off."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ottla.testing.ports import ReservedPort
from ottla.testing.proxy import Proxy
from support.servers.cluster import CONFORMANCE_SETTINGS, ServerProcess, free_port

NEAR, FAR = "NEAR", "FAR"


@dataclass(slots=True)
class FarBroker:
    """A broker; its metadata lead far clients to the proxy, and near ones past it."""

    near: str
    far: str
    proxy: Proxy
    server: ServerProcess

    def refuse(self) -> None:
        """Reset the connections of far clients, and refuse new ones, until `mend`."""
        self.proxy.refuse()
        self.proxy.drop_connections()

    def be_silent(self) -> None:
        """Hold all bytes of far clients back until `mend`."""
        self.proxy.set_silent(True)

    def lose_answers(self, api_key: int) -> None:
        """Carry out requests of an API, and reset their connections in place of answers, until `mend`."""
        self.proxy.set_losing(api_key)

    def mend(self, *, reset: bool = False) -> None:
        """Let far clients through again. reset: bytes that were held back are lost with their connections."""
        if reset:
            self.proxy.drop_connections()
        self.proxy.set_losing(None)
        self.proxy.set_silent(False)
        self.proxy.listen()

    def cut(self, dice: random.Random, *api_keys: int) -> str:
        """One of the ways to cut it off, drawn; its name. api_keys: of which answers may be lost."""
        ways: dict[str, Callable[[], None]] = {"refusing": self.refuse, "silent": self.be_silent}
        for key in api_keys:
            ways[f"losing answers of API {key}"] = lambda key=key: self.lose_answers(key)  # type: ignore[misc]
        name = dice.choice(sorted(ways))
        ways[name]()
        return name


@contextmanager
def far_broker(directory: Path) -> Iterator[FarBroker]:
    """A broker with data in `directory`, while the block runs."""
    own, behind, public = free_port(), free_port(), ReservedPort()
    settings = {
        **CONFORMANCE_SETTINGS,
        "log.dirs": str(directory),
        "listeners": f"{NEAR}://127.0.0.1:{own},{FAR}://127.0.0.1:{behind}",
        "advertised.listeners": f"{NEAR}://127.0.0.1:{own},{FAR}://{public.address}",
        "listener.security.protocol.map": f"{NEAR}:PLAINTEXT,{FAR}:PLAINTEXT",
        "inter.broker.listener.name": NEAR,
    }
    words = [sys.executable, "-m", "ottla", "broker"]
    for name, text in settings.items():
        words += ["--set", f"{name}={text}"]
    log = directory.with_name(f"{directory.name}.log")
    server = ServerProcess(words, "ottla broker ready", log)
    proxy = Proxy(public, behind)
    proxy.start()
    try:
        server.start()
        proxy.listen()
        yield FarBroker(f"127.0.0.1:{own}", public.address, proxy, server)
    finally:
        proxy.close()
        if server.running:
            server.stop()
        public.release()
