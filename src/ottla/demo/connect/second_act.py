"""The second act: the seeds' sample pipeline in six steps, as connectors and two Streams applications.

    1 a feed: tweets in a growing file       4 a sink stores them as documents
    2 a source connector -> pipeline.tweets  5 the store's source connector -> pipeline.documents
    3 Streams: sentiment -> pipeline.scored  6 Streams -> pipeline.opinions -> another store, a search index

All parts but the feed are processes that a user could have started: a worker, `ottla streams run` twice, and
the files beside this module (those of examples/connect/pipeline), applied by Connect's REST API. With
`--once` the demo ends when nothing is on its way any more, reads every topic and store back, and tells in one
line of JSON whether each tweet is everywhere exactly once.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.connect_api import ConnectApi
from ottla.client.errors import ClusterError
from ottla.client.rest_access import RestAccess
from ottla.demo.connect.feed import Feed
from ottla.demo.connect.processes import OwnProcess
from ottla.demo.connect.stages import (
    DOCUMENTS,
    OPINIONS,
    SCORED,
    TOPICS,
    TWEETS,
    Found,
    Tally,
    counted,
    problems,
    stored_ids,
)
from ottla.demo.stage import DemoError, Stage, Stopped

FILES: Final = Path(__file__).with_name("files")
CONNECTORS: Final = ("tweets-in", "documents-out", "documents-in", "opinions-out")
SEARCH: Final = "search-out"
APPS: Final = ("sentiment", "opinions")
PARTITIONS: Final = 3
LIVE_RATE: Final = 25.0
START_TIMEOUT_SECONDS: Final = 60.0
RUNNING_TIMEOUT_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.25
LINE_SECONDS: Final = 2.0


class SecondAct:
    """One run of the second act."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._started = time.monotonic()
        self._processes: list[OwnProcess] = []
        directory = stage.directory
        options = stage.options
        self._documents = options.postgres or f"sqlite://{directory / 'documents.sqlite'}"
        self._opinions = f"sqlite://{directory / 'opinions.sqlite'}"

    def run(self) -> int:
        """Run it; the exit code. Raises UserError, Stopped."""
        stage = self._stage
        stage.output.line("ottla demo --connect: the sample pipeline, in connectors and Streams")
        stage.output.fact("data", str(stage.directory))
        tweets = stage.tweets()
        cluster = stage.cluster()
        cluster.ensure_topics([Topic(topic, PARTITIONS) for topic in TOPICS])
        api = self._worker(cluster)
        self._apply(api)
        self._apps(cluster)
        tally = Tally(cluster)
        stage.stack.callback(tally.stop)
        tally.start()
        rate = stage.options.rate or (None if stage.options.once else LIVE_RATE)
        feed = Feed(stage.directory / "feed", tweets, rate)
        stage.stack.callback(feed.stop)
        feed.start()
        self._watch(feed, tally, api)
        feed.stop()
        if not stage.options.once:
            stage.output.line("stopped; the same command with --data goes on")
            return 0
        return self._verdict({tweet.id for tweet in tweets}, tally)

    # -- the parts

    def _worker(self, cluster: KafkaCluster) -> ConnectApi:
        stage = self._stage
        directory = stage.directory
        (directory / "feed").mkdir(exist_ok=True)
        shutil.copy(FILES / "worker.properties", directory / "worker.properties")
        address = f"127.0.0.1:{_free_port()}"
        words = ["connect", "--config", "worker.properties", "--bootstrap", cluster.bootstrap]
        environment = {
            "PIPELINE_FEED": str(directory / "feed"),
            "PIPELINE_DOCUMENTS": self._documents,
            "PIPELINE_OPINIONS": self._opinions,
            "PIPELINE_ELASTICSEARCH": stage.options.elasticsearch or "",
        }
        with stage.step("connect", f"starting a worker on {address}") as done:
            self._start("connect", [*words, "--listen", address], environment)
            api = ConnectApi(RestAccess((f"http://{address}",)))
            deadline = time.monotonic() + START_TIMEOUT_SECONDS
            while not _answers(api):
                self._require_processes()
                if time.monotonic() > deadline:
                    raise DemoError(f"the worker does not answer after {START_TIMEOUT_SECONDS:.0f} s")
                self._stage.signals.wait(POLL_SECONDS)
            done(f"a worker on {address}: ottla connect list --url http://{address}")
        return api

    def _apply(self, api: ConnectApi) -> None:
        """Create the connectors, and wait until all of their tasks run."""
        names = [*CONNECTORS, *([SEARCH] if self._stage.options.elasticsearch else [])]
        with self._stage.step("connectors", "creating the connectors") as done:
            wanted = []
            for name in names:
                given = json.loads((FILES / f"{name}.json").read_text(encoding="utf-8"))
                api.put(given["name"], given["config"])
                wanted.append(given["name"])
            deadline = time.monotonic() + RUNNING_TIMEOUT_SECONDS
            while left := [name for name in wanted if not _runs(api, name)]:
                self._require_processes()
                if time.monotonic() > deadline:
                    raise DemoError(f"connector {left[0]} does not run: {_trouble(api, left[0])}")
                self._stage.signals.wait(POLL_SECONDS)
            done(f"{len(wanted)} connectors run: {', '.join(wanted)}")

    def _apps(self, cluster: KafkaCluster) -> None:
        directory = self._stage.directory
        for name in APPS:
            words = ["streams", "run", str(FILES / f"{name}.py"), "--bootstrap", cluster.bootstrap, "--plain"]
            words += ["--state", str(directory / "streams"), "--master", self._stage.options.master]
            self._start(name, words, {})
        self._stage.output.fact("streams", f"two applications start on Spark: {', '.join(APPS)}")

    def _start(self, name: str, words: list[str], environment: Mapping[str, str]) -> None:
        process = OwnProcess.start(name, words, self._stage.directory, environment)
        self._stage.stack.callback(process.stop)
        self._processes.append(process)

    def _require_processes(self) -> None:
        """Raises DemoError for a process that has ended, Stopped for a signal."""
        if self._stage.signals.requested:
            raise Stopped
        broker = self._stage.broker
        ended = broker.ended() if broker is not None else None
        failures = [ended, *(process.failure() for process in self._processes)]
        for failure in failures:
            if failure is not None:
                raise DemoError(f"{failure}. Run the same command again: it goes on where this one stopped.")

    # -- what is watched

    def _watch(self, feed: Feed, tally: Tally, api: ConnectApi) -> None:
        """Show the figures until the user stops it, or with --once until nothing is on its way."""
        options, signals = self._stage.options, self._stage.signals
        moved: tuple[int, ...] = ()
        moved_at = shown_at = time.monotonic()
        while True:
            figures = self._figures(feed, tally)
            now = time.monotonic()
            if tuple(figures.values()) != moved:
                moved, moved_at = tuple(figures.values()), now
            over = feed.done and self._arrived(figures, tally)
            if now - shown_at >= LINE_SECONDS or over or signals.requested:
                self._stage.output.line("  " + _line(figures))
                shown_at = now
            if signals.requested:
                if options.once:
                    raise Stopped
                return
            if over and options.once:
                return
            if feed.failure is not None:
                raise DemoError(feed.failure)
            self._require_processes()
            if options.once and now - moved_at > options.stall_seconds:
                troubles = [_trouble(api, f"pipeline-{name}") for name in CONNECTORS]
                told = "; ".join(filter(None, troubles)) or "all connectors run"
                raise DemoError(
                    f"nothing has moved for {options.stall_seconds:.0f} s: {_line(figures)}. {told}"
                )
            signals.wait(POLL_SECONDS)

    def _figures(self, feed: Feed, tally: Tally) -> dict[str, int]:
        records = tally.records()
        return {
            "feed": feed.written,
            "read in": records[TWEETS],
            "scored": records[SCORED],
            "stored": len(stored_ids(self._documents, "tweets")),
            "read back": records[DOCUMENTS],
            "opinions": records[OPINIONS],
            "stored again": len(stored_ids(self._opinions, "opinions")),
        }

    def _arrived(self, figures: Mapping[str, int], tally: Tally) -> bool:
        """Whether no tweet is on its way any more, as far as numbers tell."""
        whole = all(figures[step] >= figures["feed"] for step in ("read in", "scored", "stored", "read back"))
        strong = len(tally.strong())
        return whole and figures["opinions"] >= strong and figures["stored again"] >= strong

    def _verdict(self, wanted: set[str], tally: Tally) -> int:
        stage = self._stage
        with stage.step("verify", "reading every topic and store back") as done:
            ids, strong = tally.ids(), frozenset(tally.strong())
            every = frozenset(wanted)
            found = [
                Found(TWEETS, ids[TWEETS], every),
                Found(SCORED, ids[SCORED], every),
                Found("documents", counted(stored_ids(self._documents, "tweets")), every),
                Found(DOCUMENTS, ids[DOCUMENTS], every),
                Found(OPINIONS, ids[OPINIONS], strong),
                Found("opinions", counted(stored_ids(self._opinions, "opinions")), strong),
            ]
            if stage.options.elasticsearch is not None:
                found.append(Found("search", counted(self._indexed(len(strong))), strong))
            wrong = problems(found)
            done("every tweet is in every step exactly once" if not wrong else "not as it should be")
        for problem in wrong:
            print(f"ottla demo: {problem}", file=sys.stderr)
        report: dict[str, Any] = {one.step: one.ids.total() for one in found}
        report |= {"exactly_once": not wrong, "seconds": round(time.monotonic() - self._started, 1)}
        print(json.dumps(report), flush=True)
        return 1 if wrong else 0

    def _indexed(self, expected: int) -> list[str]:
        """The ids in the search index, once it has as many as are expected; else after a while."""
        from ottla.pipeline.stores.elasticsearch import ElasticsearchIndex

        assert self._stage.options.elasticsearch is not None
        index = ElasticsearchIndex(self._stage.options.elasticsearch, OPINIONS)
        try:
            deadline = time.monotonic() + START_TIMEOUT_SECONDS
            while len(found := list(index.ids())) < expected and time.monotonic() < deadline:
                self._stage.signals.wait(POLL_SECONDS)
            return found
        finally:
            index.close()


def _answers(api: ConnectApi) -> bool:
    try:
        api.server()
    except ClusterError:
        return False
    return True


def _runs(api: ConnectApi, name: str) -> bool:
    try:
        told = api.status(name)
    except ClusterError:
        return False
    tasks = told.get("tasks") or ()
    # A directory without files yet has no tasks.
    as_many = bool(tasks) or told.get("type") == "source"
    return as_many and all(each.get("state") == "RUNNING" for each in (told.get("connector") or {}, *tasks))


def _trouble(api: ConnectApi, name: str) -> str:
    """Why a connector does not run; empty if it does."""
    try:
        told = api.status(name)
    except ClusterError as problem:
        return f"{name}: {problem}"
    for part in ({**(told.get("connector") or {}), "id": "connector"}, *(told.get("tasks") or ())):
        if part.get("state") != "RUNNING":
            trace = str(part.get("trace") or "").strip().splitlines()
            return f"{name} {part.get('id')} is {part.get('state')}" + (f": {trace[-1]}" if trace else "")
    return ""


def _line(figures: Mapping[str, int]) -> str:
    return " -> ".join(f"{step} {number:,}" for step, number in figures.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
