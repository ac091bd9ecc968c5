"""`ottla broker --brokers N`: N brokers on this machine, each a process, started and stopped as one.

Each node is `ottla broker` with the settings that were given, and a few of its own: id, roles, listeners, its
log directory. Lines that a node writes are passed on with its name in front. The launcher says that all is
ready when every broker serves. A node that ends by itself is started again, after a pause that grows while it
keeps ending; one that can't start in the first place, by a setting say, ends all of them with its reason.

A clean stop has two steps, because brokers leave a cluster with the help of its quorum: all brokers leave at
once, and when the last has left the controllers end. The nodes are told through their stdin (`launched.py`),
whose end also tells them that the launcher was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import Listener
from ottla.cli.servers.brokers_layout import (
    LAST_PORT,
    LOCAL_HOST,
    MAX_BROKERS,
    Layout,
    LayoutError,
    free_ports,
    lay_out,
    node_directory,
)
from ottla.cli.servers.child_broker import (
    PROBLEM_PREFIX,
    READY_PREFIX,
    STOP_SECONDS,
    close_pipe,
    lines_of,
    tell_to_stop,
)
from ottla.cli.servers.launched import LEFT_LINE, LauncherPipe
from ottla.config.errors import ConfigError
from ottla.config.sources import SET, Given, from_words
from ottla.core.settings import broker_settings
from ottla.metrics.settings import LISTEN as METRICS_LISTEN
from ottla.metrics.settings import parse_address

log = logging.getLogger("ottla.brokers")

FIRST_PAUSE_SECONDS: Final = 0.5
LAST_PAUSE_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0
"""After a run of this length a node's next pause is the first one again."""
END_SECONDS: Final = 20.0

#: The settings that the launcher gives each node itself.
OWN_SETTINGS: Final = frozenset(
    {
        "node.id",
        "broker.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.auto.join.enable",
    }
)


INTERNAL_REPLICATION_FACTORS: Final = (
    broker_settings.OFFSETS_TOPIC_REPLICATION_FACTOR,
    broker_settings.TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    broker_settings.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
)


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """The options of the command.

    given: the settings of all layers. config, overrides: --config and --set, which each node gets as well.
    """

    brokers: int
    given: Mapping[str, Given]
    config: Path | None
    overrides: Sequence[str]
    log_level: str
    cluster_id: str | None


class NodeCommand(NamedTuple):
    """A node, where clients reach it, and how it is started."""

    node_id: int
    address: str
    words: Sequence[str]


class Launch(NamedTuple):
    """The nodes to start, and their directory."""

    directory: Path
    layout: Layout
    nodes: Sequence[NodeCommand]

    def ready_line(self) -> str:
        """The line that is printed once clients can connect to every broker."""
        addresses = ",".join(node.address for node in self.nodes)
        last = self.nodes[-1].node_id
        nodes = "node 1" if last == 1 else f"nodes 1 to {last}"
        return (
            f"{READY_PREFIX} listening on {addresses}, {nodes}, cluster {self.layout.cluster_id}, "
            f"data in {self.directory}"
        )


def prepare(options: LaunchOptions) -> Launch:
    """Read the settings and lay the directory out.

    Raises ConfigError, LayoutError, LogDirectoryError or OSError.
    """
    if not 1 <= options.brokers <= MAX_BROKERS:
        raise LayoutError(f"--brokers {options.brokers}: give a number from 1 to {MAX_BROKERS}")
    for name, each in from_words(options.overrides).items():
        if name in OWN_SETTINGS:
            raise ConfigError(
                f"{each.origin}{name}={each.text}: with --brokers each node gets its own {name}, leave it out"
            )
    base = _base_config(options)
    listener, advertised = base.listener, base.advertised_listeners[0]
    names = base.controller_listener.name
    layout = lay_out(
        base.log_directory, options.brokers, listener.port, options.cluster_id, names, base.first_users
    )
    count = options.brokers
    ports = layout.broker_ports(listener.port) if listener.port else free_ports(count, listener.host)
    nodes = []
    for node_id, port in enumerate(ports, 1):
        told = advertised.port - listener.port + port if advertised.port and listener.port else port
        settings = _settings(
            base, layout, node_id, listener._replace(port=port), advertised._replace(port=told)
        )
        host = listener.host or "0.0.0.0"
        nodes.append(NodeCommand(node_id, f"{host}:{port}", _command(options, layout, settings)))
    return Launch(base.log_directory, layout, nodes)


def _base_config(options: LaunchOptions) -> BrokerConfig:
    """The configuration that all nodes share, read as if it were one node's."""
    base = BrokerConfig(options.given)
    if not (base.is_broker and base.is_controller and base.quorum_alone):
        raise ConfigError(
            "--brokers makes a cluster of its own: leave process.roles and controller.quorum.* out of the "
            "configuration, or start each node by itself, with its own server.properties"
        )
    if len(base.listeners) != 1:
        raise ConfigError("with --brokers each node has one listener for clients: give one in listeners")
    return base


def _settings(
    base: BrokerConfig, layout: Layout, node_id: int, listener: Listener, advertised: Listener
) -> dict[str, str]:
    """A node's own settings, beside those that all nodes share."""
    listeners = [_url(listener)]
    is_controller = node_id in layout.controllers
    controller_name = base.controller_listener.name
    if is_controller:
        listeners.append(f"{controller_name}://{LOCAL_HOST}:{layout.controllers[node_id]}")
    settings = {
        "node.id": str(node_id),
        "broker.id": str(node_id),
        "process.roles": "broker,controller" if is_controller else "broker",
        "listeners": ",".join(listeners),
        "advertised.listeners": _url(advertised),
        "controller.listener.names": controller_name,
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": layout.bootstrap_servers,
        "controller.quorum.auto.join.enable": "true" if is_controller else "false",
        "log.dirs": str(node_directory(base.log_directory, node_id).absolute()),
    }
    metrics = _metrics_address(base, node_id)
    if metrics is not None:
        settings[METRICS_LISTEN.name] = metrics
    for factor in INTERNAL_REPLICATION_FACTORS:
        # Given explicitly, so that no client makes these topics before all brokers have registered.
        settings[factor.name] = str(min(base[factor], layout.brokers))
    if base.rack is None:
        # Replicas land on different racks: on several machines that means on different machines.
        settings["broker.rack"] = socket.gethostname()
    return settings


def _metrics_address(base: BrokerConfig, node_id: int) -> str | None:
    """Where a node serves its metrics: on ports that follow each other, as each is a process of its own."""
    listen = base[METRICS_LISTEN]
    if listen is None:
        return None
    address = parse_address(listen)
    if not address.port:
        return listen
    if address.port + node_id - 1 > LAST_PORT:
        raise ConfigError(
            f"{METRICS_LISTEN.name}={listen}: there is no port for node {node_id}, take a lower one"
        )
    return address._replace(port=address.port + node_id - 1).setting


def _url(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{listener.name}://{host}:{listener.port}"


def _command(options: LaunchOptions, layout: Layout, settings: dict[str, str]) -> list[str]:
    # -P: a file in the working directory that is named as a module of Python's is not for the broker.
    words = [sys.executable, "-P", "-m", "ottla", "broker", "--with-launcher"]
    words += ["--log-level", options.log_level, "--cluster-id", layout.cluster_id]
    if options.config is not None:
        words += ["--config", str(options.config)]
    for override in options.overrides:
        words += [SET, override]
    for name, value in settings.items():
        words += [SET, f"{name}={value}"]
    return words


# -- the processes -----------------------------------------------------------------------------------------


class _Node:
    """A node and its present process."""

    def __init__(self, command: NodeCommand) -> None:
        self.command = command
        self.process: Process | None = None
        self.problem = ""
        self.was_ready = False
        self.left = asyncio.Event()
        """The process's broker has left the cluster, or there is none."""

    @property
    def node_id(self) -> int:
        return self.command.node_id


class Launcher:
    """Keeps the nodes running until it is told to stop."""

    def __init__(self, launch: Launch, with_launcher: bool = False) -> None:
        """`with_launcher`: another process has started this one, and stops it through its stdin."""
        self._launch = launch
        self._with_launcher = with_launcher
        self._nodes = [_Node(command) for command in launch.nodes]
        self._stopping = asyncio.Event()
        self._said_ready = False
        self._refused: str | None = None
        self._failed = False

    async def run(self) -> int:
        """Run until a stop; 0 after a clean one."""
        self._handle_signals()
        if self._with_launcher:
            LauncherPipe(self._stopping.set)
        keepers = [asyncio.create_task(self._keep(node)) for node in self._nodes]
        await self._stopping.wait()
        stop = asyncio.create_task(self._stop())
        await asyncio.gather(*keepers)
        await stop
        if self._refused is not None:
            print(self._refused, file=sys.stderr)
            return 1
        return 1 if self._failed else 0

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGINT"):
            try:
                loop.add_signal_handler(getattr(signal, name), self._on_signal)
            except NotImplementedError:  # Windows' loops have none
                signal.signal(getattr(signal, name), lambda *_: loop.call_soon_threadsafe(self._on_signal))

    def _on_signal(self) -> None:
        """The first signal asks for a clean stop, a second one kills the nodes."""
        if self._stopping.is_set():
            self._kill_all()
        self._stopping.set()

    # -- a node's life ---------------------------------------------------------------------------------

    async def _keep(self, node: _Node) -> None:
        """Start the node, and again whenever it ends."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._run_once(node)
            if self._stopping.is_set():
                self._failed |= code != 0
                return
            if not node.was_ready and node.problem:
                self._refused = f"{PROBLEM_PREFIX}node {node.node_id}: {node.problem}"
                self._stopping.set()
                return
            if loop.time() - started >= STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            reason = f": {node.problem}" if node.problem else ""
            log.warning("node %d ended (%s), starts again in %.1f s%s", node.node_id, how, pause, reason)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(2 * pause, LAST_PAUSE_SECONDS)

    async def _run_once(self, node: _Node) -> int:
        """One process of the node, from its start to its end; its exit code."""
        node.problem = ""
        node.left.clear()
        process = node.process = await asyncio.create_subprocess_exec(
            *node.command.words, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        assert process.stdout is not None and process.stderr is not None
        if self._stopping.is_set():
            tell_to_stop(process)
        try:
            await asyncio.gather(
                self._follow_output(node, process, process.stdout),
                self._follow_errors(node, process.stderr),
            )
            return await process.wait()
        finally:
            node.process = None
            node.left.set()

    async def _follow_output(self, node: _Node, process: Process, stream: asyncio.StreamReader) -> None:
        async for line in lines_of(stream):
            if line.startswith(READY_PREFIX):
                self._on_ready(node)
            elif line == LEFT_LINE:
                node.left.set()
                if not self._stopping.is_set():  # this node alone is stopped: no other one needs it to leave
                    close_pipe(process)
            else:
                print(f"node {node.node_id}: {line}", flush=True)

    async def _follow_errors(self, node: _Node, stream: asyncio.StreamReader) -> None:
        async for line in lines_of(stream):
            if line.startswith(PROBLEM_PREFIX):
                node.problem = line[len(PROBLEM_PREFIX) :]  # printed when the node has ended
            else:
                print(f"node {node.node_id}: {line}", file=sys.stderr, flush=True)

    def _on_ready(self, node: _Node) -> None:
        if node.was_ready:
            log.warning("node %d is back", node.node_id)
        node.was_ready = True
        if not self._said_ready and all(each.was_ready for each in self._nodes):
            self._said_ready = True
            print(self._launch.ready_line(), flush=True)

    # -- the end ---------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Let all brokers leave, then let all nodes end; kill nodes that take too long."""
        for node in self._nodes:
            if node.process is not None:
                tell_to_stop(node.process)
            else:
                node.left.set()
        if not await _within(STOP_SECONDS, lambda node: node.left.wait(), self._nodes):
            log.warning("some brokers have not left the cluster in time")
        for node in self._nodes:
            if node.process is not None:
                close_pipe(node.process)
        if not await _within(END_SECONDS, _ended, self._nodes):
            log.warning("some nodes have not ended in time and are killed")
            self._kill_all()

    def _kill_all(self) -> None:
        for node in self._nodes:
            if node.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    node.process.kill()


async def _within(seconds: float, wait: Callable[[_Node], Awaitable[object]], nodes: Sequence[_Node]) -> bool:
    """Wait for every node; whether all were done in time."""
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(wait(node) for node in nodes))
    except TimeoutError:
        return False
    return True


async def _ended(node: _Node) -> None:
    if node.process is not None:
        await node.process.wait()
