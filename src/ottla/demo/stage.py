"""What both acts of the demo begin with: its options, its directory, the tweets, and the broker."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.client.cluster import KafkaCluster
from ottla.config.errors import UserError
from ottla.demo.broker import OwnBroker
from ottla.demo.output import Output
from ottla.demo.signals import StopSignals
from ottla.demo.tweets import Tweet, load_tweets
from ottla.pipeline.file_lock import FileLock

BOOTSTRAP_TIMEOUT_SECONDS = 15.0


class DemoError(UserError):
    """The demo can't go on; the message says why, and what to do."""


class Stopped(Exception):
    """The user has asked for the end before all parts were started."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of `ottla demo`. data: None for a directory that is removed at the end.

    rate: tweets a second, None for the default (LIVE_RATE; as fast as possible with `once`). limit: use only
    the first tweets. stall_seconds: how long `once` waits while no figure changes. metrics: where the own
    broker serves its metrics, as HOST:PORT; the queries serve theirs on the port behind. connect: whether to
    run the second act.
    """

    data: Path | None = None
    listen: str = "127.0.0.1:9092"
    bootstrap: str | None = None
    rate: float | None = None
    once: bool = False
    postgres: str | None = None
    elasticsearch: str | None = None
    limit: int | None = None
    stall_seconds: float = 120.0
    master: str = "local[*]"
    metrics: str | None = None
    connect: bool = False


def run_directory(options: DemoOptions, stack: contextlib.ExitStack) -> Path:
    """The run's directory, created and locked, with the log of this process in it."""
    if options.data is None:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-demo-", ignore_cleanup_errors=True))
        )
    else:
        directory = options.data.absolute()
    try:
        (directory / "logs").mkdir(parents=True, exist_ok=True)
        lock = FileLock(directory / "demo.lock")
        locked = lock.acquire()
        handler = logging.FileHandler(directory / "logs" / "demo.log")
    except OSError as error:
        raise DemoError(
            f"cannot use {directory}: {error.strerror}. Give a writable directory by --data."
        ) from error
    if not locked:
        handler.close()
        raise DemoError(f"another `ottla demo` runs on {directory}: stop it, or give another --data")
    stack.callback(lock.release)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    stack.callback(handler.close)
    stack.callback(root.removeHandler, handler)
    return directory


class Stage:
    """The beginning of a run. Each part is handed to `stack`, which stops them in reverse order."""

    def __init__(
        self,
        options: DemoOptions,
        output: Output,
        signals: StopSignals,
        directory: Path,
        stack: contextlib.ExitStack,
    ) -> None:
        self.options = options
        self.output = output
        self.signals = signals
        self.directory = directory
        self.stack = stack
        self.broker: OwnBroker | None = None

    def tweets(self) -> list[Tweet]:
        """The tweets of the set, or the first of them. Raises TweetsError, Stopped."""
        with self.step("tweets", "looking for the tweets in the cache") as done:
            tweets = load_tweets(lambda doing: self.output.fact("tweets", doing))
            tweets = tweets[: self.options.limit]
            done(f"{len(tweets):,} with a human sentiment score each (Hutto and Gilbert, 2014)")
        return tweets

    def cluster(self, metrics: str | None = None) -> KafkaCluster:
        """The cluster: a broker of the demo's own unless another is named. Raises UserError, Stopped."""
        options = self.options
        if options.bootstrap is not None:
            with self.step("broker", f"looking for the broker at {options.bootstrap}") as done:
                cluster = KafkaCluster(options.bootstrap)
                cluster.wait_until_answering(BOOTSTRAP_TIMEOUT_SECONDS)
                done(f"using the one at {options.bootstrap}")
            return cluster
        with self.step("broker", f"starting ottla on {options.listen}") as done:
            self.broker = OwnBroker.start(self.directory, options.listen, metrics)
            self.stack.callback(self.broker.stop)
            done(f"ottla on {options.listen}, any Kafka client can connect")
        return KafkaCluster(options.listen)

    @contextlib.contextmanager
    def step(self, label: str, doing: str) -> Iterator[Callable[[str], None]]:
        """A step that is shown while it runs; its result is told by the function. Raises Stopped."""
        if self.signals.requested:
            raise Stopped
        with self.output.step(label, doing) as done:
            yield done
        if self.signals.requested:
            raise Stopped
