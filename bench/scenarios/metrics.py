"""What metrics cost the broker, and what a scrape of many partitions costs its other clients."""

from __future__ import annotations

import math
import socket
import statistics
import struct
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench import clients
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import RECORD_BYTES, Scenario, Turn
from bench.servers import HOST, Server, System, prepare, run
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import encode_request
from support.clients.wire import WireClient, batch, produce_request
from support.servers.cluster import free_port

# Two equal processes differ by some percent for as long as they live (where their memory lies, where Python's
# hashes fall), so several processes count, not several runs of one pair; a third broker tells by how much.
TRIPLES, ROTATIONS = 8, 3
PRODUCE_VERSION = 12
IN_FLIGHT = 5
# Kind of production to the requests of one run, and the records of a request.
PRODUCTIONS = {"single": (60_000, 1), "batched": (15_000, 140)}
# A run is longer than the time between two scrapes, and what it has written is soon removed.
KEPT = {
    "log.segment.bytes": str(64 << 20),
    "log.retention.bytes": str(64 << 20),
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
}
SCRAPE_SECONDS = 1.0
# Two-sided 95 % of Student's t by degrees of freedom; a quick look has fewer, and says so by its spread.
T_95 = {7: 2.365, 1: 12.706}

TOPICS, PARTITIONS_A_TOPIC = 200, 10
SCRAPES = 20
_SIZE = struct.Struct(">i")

AT_MOST_2_PERCENT = Target(Bound.VALUE_AT_MOST, 2.0)
AT_MOST_300_MS = Target(Bound.VALUE_AT_MOST, 300.0)
AT_MOST_5_MS = Target(Bound.VALUE_AT_MOST, 5.0)


# --- the cost of being measured ---------------------------------------------------------------------------


def _cost(turn: Turn) -> dict[str, float]:
    if turn.system is not System.OTTLA:
        return {}
    pairs: dict[tuple[str, str], list[float]] = {}
    taken_off: dict[str, list[float]] = {kind: [] for kind in PRODUCTIONS}
    for triple in range(2 if turn.quick else TRIPLES):
        for kind, taken in _triple(turn, triple).items():
            taken_off[kind] += taken["off"]
            for other in ("same", "on"):
                ratios = [a / b for a, b in zip(taken[other], taken["off"], strict=True)]
                pairs.setdefault((kind, other), []).append((statistics.fmean(ratios) - 1) * 100)
    figures: dict[str, float] = {}
    for kind in PRODUCTIONS:
        low, middle, high = _interval(pairs[kind, "on"])
        figures[f"percent_{kind}"] = middle
        figures[f"percent_{kind}_low"], figures[f"percent_{kind}_high"] = low, high
        figures[f"percent_{kind}_same"] = statistics.fmean(map(abs, pairs[kind, "same"]))
        figures[f"microseconds_{kind}"] = statistics.median(taken_off[kind])
    return figures


def _triple(turn: Turn, triple: int) -> dict[str, dict[str, list[float]]]:
    """Microseconds a request by production and broker: two equal ones without metrics, one with."""
    metrics_port = free_port()
    taken: dict[str, dict[str, list[float]]] = {}
    names = ["off", "same", "on"]
    names = names[triple % 3 :] + names[: triple % 3]
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(
                _broker(turn, f"{name}-{triple}", metrics_port if name == "on" else None)
            )
            for name in names
        }
        stack.enter_context(_scraped(metrics_port))
        for server in servers.values():
            clients.create_topic(server)
        for kind, (full, records) in PRODUCTIONS.items():
            frame = _produce_frame(records)
            count = turn.size(full)
            by_name = taken[kind] = {name: [] for name in names}
            for server in servers.values():
                _microseconds_a_request(server, frame, count)
            for rotation in range(ROTATIONS):
                for name in names[rotation % 3 :] + names[: rotation % 3]:
                    by_name[name].append(_microseconds_a_request(servers[name], frame, count))
    return taken


@contextmanager
def _broker(turn: Turn, name: str, metrics_port: int | None) -> Iterator[Server]:
    """A broker that does not look for the next request: it would use all of its idle time for that."""
    workspace: Path = turn.workspace / name
    workspace.mkdir(parents=True)
    settings = dict(KEPT)
    if metrics_port is not None:
        settings["ottla.metrics.listen"] = f"{HOST}:{metrics_port}"
    prepared = prepare(turn.system, workspace, settings=settings, ottla_python_flags=turn.ottla_python_flags)
    with run(replace(prepared, command=["env", "OTTLA_POLL=off", *prepared.command])) as server:
        yield server


@contextmanager
def _scraped(port: int) -> Iterator[None]:
    """Scrape an endpoint every second for the length of the block."""
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(SCRAPE_SECONDS):
            _scrape(port)

    thread = threading.Thread(target=scrape, name="scrapes")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _scrape(port: int) -> bytes:
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=30) as answer:
        text: bytes = answer.read()
    return text


def _produce_frame(records: int) -> bytes:
    request = produce_request(clients.TOPIC, 0, batch(records, b"x" * RECORD_BYTES), acks=1)
    frame = encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "bench", request)
    return _SIZE.pack(len(frame)) + frame


def _microseconds_a_request(server: Server, frame: bytes, count: int) -> float:
    """The broker's processor time for one of `count` equal requests, IN_FLIGHT at a time."""
    with socket.create_connection((HOST, server.port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = connection.makefile("rb")
        _ask(connection, answers, frame, 1)
        before = _processor_seconds(server)
        for _ in range(count // IN_FLIGHT):
            _ask(connection, answers, frame, IN_FLIGHT)
        taken = _processor_seconds(server) - before
        answers.close()
    return taken / (count // IN_FLIGHT * IN_FLIGHT) * 1e6


def _ask(connection: socket.socket, answers: object, frame: bytes, count: int) -> None:
    connection.sendall(frame * count)
    read = answers.read  # type: ignore[attr-defined]
    for _ in range(count):
        (size,) = _SIZE.unpack(read(4))
        if len(read(size)) < size:
            raise BenchError("the broker hung up")


def _processor_seconds(server: Server) -> float:
    """Processor time of the broker's threads as the scheduler counts it: a tick of /proc is 10 ms."""
    server.check_running()
    tasks = Path(f"/proc/{server.process.pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9


def _interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """(low, mean, high) of the mean with 95 % confidence."""
    mean = statistics.fmean(samples)
    degrees = len(samples) - 1
    half = T_95[degrees] * statistics.stdev(samples) / math.sqrt(len(samples))
    return mean - half, mean, mean + half


# --- a scrape ---------------------------------------------------------------------------------------------


def _scrapes(turn: Turn) -> dict[str, float]:
    if turn.system is not System.OTTLA:
        return {}
    port = free_port()
    seconds, holds, latencies, sizes = [], [], [], []
    with turn.server({"ottla.metrics.listen": f"{HOST}:{port}"}) as server:
        names = [f"topic-{number}" for number in range(TOPICS)]
        clients.create_topics(server, names, partitions=PARTITIONS_A_TOPIC)
        _scrape(port)
        for _ in range(turn.size(SCRAPES)):
            with _asking(server) as taken:
                before = time.perf_counter()
                text = _scrape(port)
                seconds.append(time.perf_counter() - before)
            latencies.append(max(taken))
            holds.append(_value(text, "ottla_metrics_scrape_longest_slice_seconds"))
            sizes.append(text.count(b"\n"))
    return {
        "scrape_ms": statistics.median(seconds) * 1000,
        "scrape_longest_ms": max(seconds) * 1000,
        "hold_ms": statistics.median(holds) * 1000,
        "hold_longest_ms": max(holds) * 1000,
        "latency_ms": statistics.median(latencies) * 1000,
        "lines": statistics.median(sizes),
    }


@contextmanager
def _asking(server: Server) -> Iterator[list[float]]:
    """A client that asks for ApiVersions one time after the other; the seconds that each took."""
    taken: list[float] = []
    ended = threading.Event()

    def ask() -> None:
        from ottla.protocol.messages.api_versions_request import ApiVersionsRequest

        request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        with WireClient.connect(server.bootstrap) as client:
            while not ended.is_set():
                before = time.perf_counter()
                client.call(request, 3)
                taken.append(time.perf_counter() - before)

    thread = threading.Thread(target=ask, name="asking")
    thread.start()
    try:
        while not taken:
            time.sleep(0.001)
        taken.clear()
        yield taken
    finally:
        ended.set()
        thread.join()


def _value(text: bytes, name: str) -> float:
    for line in text.decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split(" ")[1])
    raise BenchError(f"the scrape has no {name}")


# --- the table --------------------------------------------------------------------------------------------


def _ours(name: str, title: str, unit: str, target: Target | None = None) -> Measure:
    return Measure(name, title, unit, target, ottla_only=True)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "metrics-cost",
        "Three brokers of ottla, one with all metrics on and scraped each second, two without; none looks "
        f"for the next request (OTTLA_POLL=off). Equal produce requests (v{PRODUCE_VERSION}, acks=1, "
        f"{IN_FLIGHT} in flight) from a Python client on one connection, {ROTATIONS} runs of each in turns, "
        f"and that with {TRIPLES} new sets of brokers: the processor time of the broker's threads a request, "
        "by the scheduler's count, and by how much more that is with metrics, as the mean of the sets and "
        "its 95 % interval; beside it by how much the two brokers without metrics differ. "
        + "; ".join(
            f"{kind}: {count:,} requests of {records} records of {RECORD_BYTES} bytes a run"
            for kind, (count, records) in PRODUCTIONS.items()
        )
        + ".",
        (
            _ours("percent_single", "more with metrics, one record a request", "%", AT_MOST_2_PERCENT),
            _ours("percent_single_low", "lower end of the interval, one record a request", "%"),
            _ours("percent_single_high", "upper end of the interval, one record a request", "%"),
            _ours("percent_single_same", "two brokers without metrics differ by, one record a request", "%"),
            _ours("microseconds_single", "a request without metrics", "µs"),
            _ours("percent_batched", "more with metrics, batched", "%", AT_MOST_2_PERCENT),
            _ours("percent_batched_low", "lower end of the interval, batched", "%"),
            _ours("percent_batched_high", "upper end of the interval, batched", "%"),
            _ours("percent_batched_same", "two brokers without metrics differ by, batched", "%"),
            _ours("microseconds_batched", "a request without metrics, batched", "µs"),
        ),
        _cost,
    ),
    Scenario(
        "metrics-scrape",
        f"{SCRAPES} scrapes of a broker of ottla with {TOPICS * PARTITIONS_A_TOPIC:,} partitions, one after "
        "the "
        "other, while another client asks for ApiVersions again and again: the time of a scrape, the longest "
        "hold of the event loop as the broker tells it, and the longest of the other client's waits.",
        (
            _ours("scrape_ms", "a scrape", "ms", AT_MOST_300_MS),
            _ours("scrape_longest_ms", "the longest scrape", "ms"),
            _ours("hold_ms", "longest hold of the loop, median of the scrapes", "ms", AT_MOST_5_MS),
            _ours("hold_longest_ms", "longest hold of all", "ms"),
            _ours("latency_ms", "the other client's longest wait, median of the scrapes", "ms"),
            _ours("lines", "lines of the text", "lines"),
        ),
        _scrapes,
    ),
)
