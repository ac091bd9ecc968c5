"""One broker in a process of its own, and all that can be done to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.protocol.apis import ApiKey
from ottla.testing.kafka import Kafka
from ottla.testing.ports import ReservedPort
from ottla.testing.proxy import Proxy
from ottla.testing.server_process import ServerProcess

API_NAME_PARTS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
MAX_DELAY_MS: Final = 3_600_000


class RunningBroker(Kafka):
    """A broker that this process has started: a Kafka that can be stopped, killed, paused, cut off, slowed.

    Clients connect to a proxy in this process, which breaks connections; brokers of a cluster reach each
    other beside it.
    """

    def __init__(
        self, node_id: int, ports: Sequence[ReservedPort], server: ServerProcess, proxy: Proxy, data: Path
    ) -> None:
        """Made by `running_broker` and `running_cluster`. ports: the proxy's, then the broker's own."""
        super().__init__(ports[0].address)
        self.node_id = node_id
        """The broker's `node.id`."""
        self.data = data
        """The directory of its logs."""
        self._ports = ports
        self._server = server
        self._proxy = proxy
        self._reachable = True
        proxy.start()

    @property
    def running(self) -> bool:
        """Whether the process is there, paused or not."""
        return self._server.running

    @property
    def pid(self) -> int:
        """The number of the broker's process. Raises ServerError when it does not run."""
        return self._server.pid

    @property
    def log_path(self) -> Path:
        """The file that has all that the broker logged, over all its starts."""
        return self._server.log_path

    @property
    def server(self) -> ServerProcess:
        """The broker's process."""
        return self._server

    # -- its process ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a broker that was stopped or killed, on its data and its port. Raises ServerError."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process: the first step of `start`, for brokers that are ready only together."""
        self._server.launch()

    def wait_until_ready(self) -> None:
        """Let clients connect once the broker serves: the last step of `start`. Raises ServerError."""
        self._server.wait_until_ready()
        if self._reachable:
            self._proxy.listen()

    def stop(self) -> None:
        """Stop the broker cleanly, as SIGTERM does; clients are refused then. Raises ServerError."""
        self.refuse()
        self._server.stop()

    def refuse(self) -> None:
        """Take no new connections of clients; the first step of `stop`."""
        self._proxy.refuse()

    def restart(self) -> None:
        """Stop the broker cleanly if it runs, and start it. Raises ServerError."""
        if self.running:
            self.stop()
        self.start()

    def kill(self) -> None:
        """Kill the broker with kill -9. Acknowledged records are there after the next `start`."""
        self._proxy.refuse()
        self._server.kill()

    def pause(self) -> None:
        """Stop the process with SIGSTOP: its connections stay, and nothing is answered."""
        self._server.pause()

    def resume(self) -> None:
        """Let a paused process go on."""
        self._server.resume()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the broker for the length of the block."""
        self.pause()
        try:
            yield
        finally:
            if self.running:
                self.resume()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the broker cleanly for the length of the block."""
        self.stop()
        try:
            yield
        finally:
            if not self.running:
                self.start()

    # -- its connections --------------------------------------------------------------------------------

    def drop_connections(self) -> int:
        """Reset all connections of clients; how many there were. New ones are taken at once."""
        return self._proxy.drop_connections()

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Reset all connections of clients and refuse new ones for the length of the block.

        A broker that is started meanwhile stays unreachable.
        """
        self._reachable = False
        self._proxy.refuse()
        self._proxy.drop_connections()
        try:
            yield
        finally:
            self._reachable = True
            if self.running:
                self._proxy.listen()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Hold all bytes between clients and the broker back for the length of the block.

        Connections stay open, as behind a firewall that swallows packets; afterwards the bytes arrive.
        """
        self._proxy.set_silent(True)
        try:
            yield
        finally:
            self._proxy.set_silent(False)

    @contextmanager
    def delayed(self, delay_ms: float) -> Iterator[None]:
        """Let every byte arrive `delay_ms` later, both ways, for the length of the block."""
        if not 0 <= delay_ms <= MAX_DELAY_MS:
            raise ValueError(f"a delay is 0 to {MAX_DELAY_MS} ms, not {delay_ms}")
        self._proxy.set_delay_ms(delay_ms)
        try:
            yield
        finally:
            self._proxy.set_delay_ms(0)

    @contextmanager
    def losing_answers(self, api: str = "PRODUCE") -> Iterator[None]:
        """Carry out the requests of an API, and drop their connections before the answer, in the block.

        `api` is Kafka's name, `Produce` or `PRODUCE`. A client that writes again without idempotence then
        writes twice.
        """
        self._proxy.set_losing(_api_key(api))
        try:
            yield
        finally:
            self._proxy.set_losing(None)

    @property
    def lost_answers(self) -> int:
        """How many answers `losing_answers` has lost so far."""
        return self._proxy.lost_answers

    # -- its log ----------------------------------------------------------------------------------------

    @property
    def log_title(self) -> str:
        """The log's name in reports of tests."""
        return f"log of broker {self.node_id} at {self.bootstrap}"

    def log_text(self) -> str:
        """All that the broker has logged."""
        return self._server.log_text()

    def close(self) -> None:
        """End the broker, by kill -9 if it runs, and the proxy, for good. The data stay."""
        super().close()
        self._server.kill()
        self._proxy.close()
        for port in self._ports:
            port.release()


@contextmanager
def noting_log(brokers: Sequence[RunningBroker]) -> Iterator[None]:
    """Add the ends of the brokers' logs as notes to an exception that leaves the block."""
    try:
        yield
    except Exception as problem:
        for broker in brokers:
            problem.add_note(f"the end of {broker.log_title}:\n{broker.server.log_tail()}")
        raise


def _api_key(name: str) -> int:
    """The number of an API by Kafka's name, in capitals or not. Raises ValueError."""
    upper = API_NAME_PARTS.sub("_", name).upper()
    if upper not in ApiKey.__members__:
        raise ValueError(f"{name} is no API of Kafka's; Produce, Fetch and OffsetCommit are some")
    return ApiKey[upper]
