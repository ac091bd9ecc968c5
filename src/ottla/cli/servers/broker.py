"""`ottla broker`: run a broker, or with --brokers several, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.broker.broker import Broker, StartError
from ottla.broker.config import BROKER_TABLE, BrokerConfig
from ottla.broker.network.connection_limits import raise_descriptor_limit
from ottla.cli.frame.event_loop import loop_factory
from ottla.cli.servers.broker_options import DEFAULT_LISTEN, BrokerOptions
from ottla.cli.servers.garbage import freeze_started_server
from ottla.cli.servers.given_settings import given_from
from ottla.cli.servers.log_lines import log_to_stderr
from ottla.config.errors import ConfigError
from ottla.config.sources import Given, Layer, Origin, layered
from ottla.metrics.settings import LISTEN as METRICS_LISTEN

CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
SEVERAL_BROKERS_FILE = "brokers.json"
"""A directory with this file is one of --brokers, see brokers_layout.py."""


def run_broker(options: BrokerOptions) -> int:
    """Run the broker, or several; 0 after a clean stop, 1 after a failure. Raises UserError."""
    log_to_stderr(options.log_level)
    _require_cluster_id(options.cluster_id)
    if options.brokers is not None:
        return _run_brokers(options, options.brokers)
    return _run(_serve(_config(options), options))


def _require_cluster_id(cluster_id: str | None) -> None:
    if cluster_id is not None and CLUSTER_ID.fullmatch(cluster_id) is None:
        raise ConfigError(
            f"--cluster-id {cluster_id}: an id is at most 64 letters, digits, - and _, as kafka-storage "
            "random-uuid makes them"
        )


def _run_brokers(options: BrokerOptions, brokers: int) -> int:
    from ottla.cli.servers.brokers import Launcher, LaunchOptions, prepare
    from ottla.storage.errors import StorageError

    try:
        launch = prepare(
            LaunchOptions(
                brokers=brokers,
                given=_given(options),
                config=options.config,
                overrides=options.set_words,
                log_level=options.log_level,
                cluster_id=options.cluster_id,
            )
        )
    except StorageError as problem:
        raise StartError(str(problem)) from problem
    except OSError as problem:
        raise StartError(f"{problem.filename}: {problem.strerror}") from problem

    async def run() -> int:
        return await Launcher(launch, options.with_launcher).run()

    return _run(run())


def _given(options: BrokerOptions) -> dict[str, Given]:
    """The settings of all layers; --data and --listen are settings too."""
    own = {"listeners": Given(f"PLAINTEXT://{DEFAULT_LISTEN}")}
    if options.data is not None:
        own["log.dirs"] = Given(str(options.data), Origin(Layer.COMMAND, "--data"))
    if options.metrics is not None:
        own[METRICS_LISTEN.name] = Given(options.metrics, Origin(Layer.COMMAND, "--metrics"))
    if options.listen is not None:
        own["listeners"] = Given(f"PLAINTEXT://{options.listen}", Origin(Layer.COMMAND, "--listen"))
    return layered(given_from(options.config, options.set_words, BROKER_TABLE), own)


def _config(options: BrokerOptions) -> BrokerConfig:
    config = BrokerConfig(_given(options))
    if (config.log_directory / SEVERAL_BROKERS_FILE).exists():
        raise ConfigError(
            f"{config.log_directory} is the directory of several brokers: give --brokers N, or name "
            "another directory"
        )
    return config


def _run(main_coroutine: Coroutine[Any, Any, int]) -> int:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main_coroutine)


async def _serve(config: BrokerConfig, options: BrokerOptions) -> int:
    stop = asyncio.Event()
    failures: list[bool] = []

    def fail() -> None:
        failures.append(True)
        stop.set()

    raise_descriptor_limit()
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGINT"):
        try:
            loop.add_signal_handler(getattr(signal, name), stop.set)
        except NotImplementedError:  # Windows' loops have none
            signal.signal(getattr(signal, name), lambda *_: loop.call_soon_threadsafe(stop.set))
    launcher = None
    if options.with_launcher:
        from ottla.cli.servers.launched import LauncherPipe

        launcher = LauncherPipe(stop.set)
    broker = await _start(config, options.cluster_id, fail, stop)
    if broker is None:
        return 1 if failures else 0
    freeze_started_server()
    print(broker.ready_line(), flush=True)
    await stop.wait()
    await broker.stop(launcher.wait_after_leaving if launcher is not None else None)
    return 1 if failures or broker.failed else 0


async def _start(
    config: BrokerConfig, cluster_id: str | None, fail: Callable[[], None], stop: asyncio.Event
) -> Broker | None:
    """The started broker; None when `stop` came first: a start may wait long for other nodes."""
    starting = asyncio.ensure_future(Broker.start(config, on_failure=fail, cluster_id=cluster_id))
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        if starting.cancelled():
            return None
    return starting.result()
