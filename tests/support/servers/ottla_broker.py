"""An ottla broker in a process of its own, for tests: started, killed, restarted, stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.servers.cluster import CONFORMANCE_SETTINGS, ServerProcess, free_port


@dataclass(slots=True)
class OttlaBroker:
    """One broker on 127.0.0.1. `data_dir` is its log directory; its output goes to `<data_dir>.log`."""

    data_dir: Path
    port: int
    server: ServerProcess
    name: str = "ottla"

    @classmethod
    @contextmanager
    def start(
        cls,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        extra_arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        module: Sequence[str] = ("ottla",),
    ) -> Iterator[OttlaBroker]:
        """A broker that runs while the block does; `settings` go over CONFORMANCE_SETTINGS.

        `module` is the program, with arguments of its own (older_ottla.py).
        """
        broker = cls.prepare(data_dir, port, settings, extra_arguments, environment, module)
        try:
            broker.server.start()
            yield broker
        finally:
            if broker.server.running:
                broker.server.stop()

    @classmethod
    def prepare(
        cls,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        extra_arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        module: Sequence[str] = ("ottla",),
    ) -> OttlaBroker:
        """A broker that is not started yet."""
        chosen = free_port() if port is None else port
        command = [sys.executable, "-m", *module, "broker", "--data", str(data_dir)]
        command += ["--listen", f"127.0.0.1:{chosen}", *extra_arguments]
        for key, value in {**CONFORMANCE_SETTINGS, **(settings or {})}.items():
            command += ["--set", f"{key}={value}"]
        log_path = data_dir.with_name(f"{data_dir.name}.log")
        log_path.parent.mkdir(parents=True, exist_ok=True)
        return cls(
            data_dir,
            chosen,
            ServerProcess(command, f"127.0.0.1:{chosen}", log_path, environment=environment or {}),
        )

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.server.process.pid

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self.server.stop()

    def kill(self) -> None:
        """kill -9."""
        self.server.kill()

    def restart(self) -> None:
        """Start again on the same directory, port and settings; stops cleanly first if it runs."""
        if self.server.running:
            self.server.stop()
        self.server.start()
