"""ottla's services in processes of their own, for tests: started, killed, stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.servers.cluster import ServerProcess, free_port


@dataclass(slots=True)
class ServiceProcess:
    """`ottla NAME …` at 127.0.0.1:`port`; its output goes to `<directory>/<name>-<port>.log`."""

    name: str
    port: int
    server: ServerProcess
    scheme: str = "http"

    @classmethod
    @contextmanager
    def start(
        cls,
        name: str,
        bootstrap: str,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        scheme: str = "http",
        words: Sequence[str] = (),
    ) -> Iterator[ServiceProcess]:
        """A service that runs while the block does, `registry` or `rest`. words: of another command."""
        chosen = free_port() if port is None else port
        command = [sys.executable, "-m", "ottla", *(words or (name,)), "--bootstrap", bootstrap]
        command += ["--listen", f"{scheme}://127.0.0.1:{chosen}"]
        for key, value in (settings or {}).items():
            command += ["--set", f"{key}={value}"]
        directory.mkdir(parents=True, exist_ok=True)
        log_path = directory / f"{name}-{chosen}.log"
        service = cls(name, chosen, ServerProcess(command, f"ottla {name} ready", log_path), scheme)
        try:
            service.server.start()
            yield service
        finally:
            if service.server.running:
                service.server.stop()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """kill -9."""
        self.server.kill()
