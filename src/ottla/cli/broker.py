"""`ottla broker`: run one broker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from ottla.broker.broker import Broker, StartError
from ottla.broker.config import BrokerConfig, ConfigError

DEFAULT_LISTEN = "127.0.0.1:9092"
EVENT_LOOP_VARIABLE = "OTTLA_EVENT_LOOP"


def main(argv: Sequence[str]) -> int:
    """Parse the options, run the broker, return 0 after a clean stop and 1 after a failure."""
    options = _parser().parse_args(list(argv))
    logging.basicConfig(
        stream=sys.stderr,
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    try:
        config = _config(options)
        return _run(_serve(config))
    except (ConfigError, StartError) as problem:
        print(f"ottla broker: {problem}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla broker", description="Run a broker that any Kafka client can use."
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where the logs are kept (default: log.dirs of --config, else ./ottla-data)",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"where clients connect (default: listeners of --config, else {DEFAULT_LISTEN}); port 0: any",
    )
    parser.add_argument("--config", type=Path, metavar="server.properties", help="a Kafka configuration file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one Kafka configuration value; may be repeated, wins over --config",
    )
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="what goes to stderr",
    )
    return parser


def _config(options: argparse.Namespace) -> BrokerConfig:
    overrides = list(options.set)
    if options.data is not None:
        overrides.append(f"log.dirs={options.data}")
    if options.listen is not None:
        overrides.append(f"listeners=PLAINTEXT://{options.listen}")
    return BrokerConfig.load(options.config, overrides, {"listeners": f"PLAINTEXT://{DEFAULT_LISTEN}"})


def _run(main_coroutine: Coroutine[Any, Any, int]) -> int:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main_coroutine)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it exists; OTTLA_EVENT_LOOP=asyncio asks for the standard loop."""
    if os.environ.get(EVENT_LOOP_VARIABLE, "") == "asyncio":
        return None
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


async def _serve(config: BrokerConfig) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGINT"):
        try:
            loop.add_signal_handler(getattr(signal, name), stop.set)
        except NotImplementedError:  # Windows' loops have none
            signal.signal(getattr(signal, name), lambda *_: loop.call_soon_threadsafe(stop.set))
    broker = await Broker.start(config, on_failure=stop.set)
    # What start-up made lives as long as the process: the collector need not walk it again and again.
    gc.collect()
    gc.freeze()
    print(broker.ready_line(), flush=True)
    await stop.wait()
    await broker.stop()
    return 1 if broker.failed else 0
