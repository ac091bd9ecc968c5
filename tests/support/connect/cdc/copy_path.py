"""Database -> topics -> copy: writers, blows at everything, and what has to be true at the end."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.reading import read
from support.connect.cdc.random_tables import (
    LARGE,
    SCHEMA,
    VERSION,
    State,
    Table,
    change_something,
    create_copy,
    create_origin,
    draw_tables,
    last_version,
    read_history,
    rows_of,
)
from support.connect.workers import ConnectWorker
from support.servers.ottla_broker import OttlaBroker
from support.servers.postgresql import PostgresServer, postgres_server
from support.servers.processes import descendants

PREFIX: Final = "db"
SOURCE, SINK = "changes", "copy"
TOPIC_OF_TRANSACTIONS: Final = f"{PREFIX}.transaction"
PROGRESS_S: Final = 120.0
QUIET: Final = "log_min_messages=fatal"
"""Writers that meet at a key are no news."""
LEASH: Final = "ottla.connect.worker.leash"
WORKER: Final = {
    "group.id": "copy-path",
    "session.timeout.ms": "4000",
    "heartbeat.interval.ms": "500",
    "exactly.once.source.support": "enabled",
    "offset.flush.interval.ms": "200",
    # a drill's kills are more than a day's
    "ottla.task.restart.max": "10000",
    "ottla.task.restart.backoff.max.ms": "1000",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "2",
}
CONVERTERS: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
# What makes a row of texts again of each value: a copy in PostgreSQL reads them as it writes them.
FORMS: Final = {
    "time.precision.mode": "isostring",
    "decimal.handling.mode": "string",
    "provide.transaction.metadata": "true",
}


class Victim(enum.Enum):
    """What a blow hits."""

    WORKER = "worker"
    MACHINE = "worker with all of its processes"
    HOST = "host"
    LEASH = "leash of the host"
    BROKER = "broker"
    ORIGIN = "database"
    COPY = "database of the copy"


WEIGHTS: Final[Mapping[Victim, int]] = {
    Victim.WORKER: 3,
    Victim.MACHINE: 2,
    Victim.HOST: 5,
    Victim.LEASH: 1,
    Victim.BROKER: 4,
    Victim.ORIGIN: 4,
    Victim.COPY: 2,
}


def source_config(url: str, tables: Sequence[Table], **others: str) -> dict[str, str]:
    """Debezium's configuration for the origin; names of the others have underscores for dots."""
    place = psycopg.conninfo.conninfo_to_dict(url)
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": PREFIX,
        "plugin.name": "pgoutput",
        "database.hostname": str(place["host"]),
        "database.port": str(place["port"]),
        "database.user": str(place["user"]),
        "database.password": "any",
        "database.dbname": str(place["dbname"]),
        "table.include.list": ",".join(f"{SCHEMA}.{each.name}" for each in tables),
        "publication.autocreate.mode": "filtered",
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        **CONVERTERS,
        **FORMS,
        **{name.replace("_", "."): value for name, value in others.items()},
    }


def sink_config(url: str, tables: Sequence[Table]) -> dict[str, str]:
    """The JDBC sink that writes the copy."""
    place = psycopg.conninfo.conninfo_to_dict(url)
    topics = [f"{PREFIX}.{SCHEMA}.{each.name}" for each in tables]
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": f"jdbc:postgresql://{place['host']}:{place['port']}/{place['dbname']}?user={place['user']}",
        "topics": ",".join(topics),
        "tasks.max": "2",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "delete.enabled": "true",
        "retry.backoff.ms": "200",
        "max.retries": "1000",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.session.timeout.ms": "6000",
        "consumer.override.metadata.max.age.ms": "2000",
        "transforms": "row,table",
        "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.table.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.table.regex": rf"{PREFIX}\.(.*)",
        "transforms.table.replacement": "$1",
        **CONVERTERS,
    }


@dataclass(slots=True)
class CopyPath:
    """The running path. chance: what blows are drawn from."""

    origin: PostgresServer
    copy: PostgresServer
    broker: OttlaBroker
    worker: ConnectWorker
    tables: Sequence[Table]
    chance: random.Random
    blows: Counter[Victim] = field(default_factory=Counter)
    streamed_from: int = 0
    """The version from which on all changes have to be in the stream."""

    # -- what runs ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the connectors; the copy begins under the writers' changes."""
        configs = {
            SOURCE: source_config(
                self.origin.url,
                self.tables,
                max_batch_size=str(self.chance.choice((7, 100, 2048))),
                transaction_boundary=self.chance.choice(("poll", "interval")),
                transaction_boundary_interval_ms="50",
            ),
            SINK: sink_config(self.copy.url, self.tables),
        }
        for name, config in configs.items():
            answer = self.worker.ask("PUT", f"/connectors/{name}/config", config)
            assert answer.status == 201, answer

    def written(self) -> int:
        """How many records the copy has taken; 0 while that can't be said."""
        with (
            contextlib.suppress(psycopg.Error),
            psycopg.connect(self.copy.url, connect_timeout=5) as connection,
        ):
            row = connection.execute("SELECT coalesce(sum(next), 0) FROM ottla_connect_offsets").fetchone()
            return 0 if row is None else int(row[0])
        return 0

    def wait_for_progress(self, before: int) -> None:
        """Wait until the copy has taken more records than before."""
        self._wait(lambda: self.written() > before, "the copy takes nothing")

    def wait_until_streaming(self) -> None:
        """Wait until the tables are copied: from here on every change has to come."""
        self._wait(self._streams, "the tables are not copied")
        self.streamed_from = last_version(self.origin.url)

    def _streams(self) -> bool:
        with contextlib.suppress(OSError):
            answer = self.worker.ask("GET", f"/connectors/{SOURCE}/offsets")
            if answer.status == 200 and answer.body["offsets"]:
                return "snapshot" not in answer.body["offsets"][0]["offset"]
        return False

    def wait_for_all(self) -> None:
        """Wait until the copy is equal, row for row. No writer may be at work."""
        for table in self.tables:
            wanted = rows_of(self.origin.url, table)
            self._wait(
                lambda table=table, wanted=wanted: rows_of(self.copy.url, table) == wanted,  # type: ignore[misc]
                f"{table.name} is not equal",
            )

    def _wait(self, fits: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + PROGRESS_S
        while not fits():
            assert self.worker.server.running, f"the worker has ended: {self.worker.server.log_tail(60)}"
            assert self.broker.server.running, f"the broker has ended: {self.broker.server.log_tail(60)}"
            assert time.monotonic() < deadline, f"{problem}: {self.told()}"
            time.sleep(0.1)

    def told(self) -> str:
        """What the worker says of its connectors, and the end of its log."""
        said = []
        with contextlib.suppress(OSError):
            said += [
                str(self.worker.ask("GET", f"/connectors/{each}/status").body) for each in (SOURCE, SINK)
            ]
        return "\n".join([*said, self.worker.server.log_tail(80)])

    # -- blows ----------------------------------------------------------------------------------------

    def strike(self) -> Victim:
        """kill -9 of somebody, who is started again."""
        while True:
            victim = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if self.hit(victim, self.chance.choice((0.0, 0.0, 0.5, 6.0))):
                self.blows[victim] += 1
                return victim

    def hit(self, victim: Victim, away_s: float = 0.0) -> bool:
        """The same for this one, after a while; False where it does not run just now."""
        match victim:
            case Victim.BROKER:
                self.broker.kill()
                time.sleep(away_s)
                self.broker.server.start()
            case Victim.ORIGIN | Victim.COPY:
                server = self.origin if victim is Victim.ORIGIN else self.copy
                server.kill()
                time.sleep(away_s)
                server.start()
            case Victim.WORKER | Victim.MACHINE:
                processes = descendants(self.worker.server.process.pid)
                self.worker.kill()
                if victim is Victim.MACHINE:
                    _kill(processes)
                time.sleep(away_s)
                self.worker.server.start()
            case Victim.HOST | Victim.LEASH:
                found = [
                    pid
                    for pid, command in descendants(self.worker.server.process.pid).items()
                    if "ottla.connect.host" in command and (LEASH in command) is (victim is Victim.LEASH)
                ]
                _kill(found)
                return bool(found)
        return True

    # -- the end --------------------------------------------------------------------------------------

    def events(self, topic: str, *, bootstrap: str | None = None) -> Iterator[tuple[Any, Any]]:
        """The committed records of a topic as payloads of keys and values, each partition's in its order."""
        place = bootstrap or self.broker.bootstrap
        ends = KafkaCluster(place).end_positions(topic)
        for each in read(ClusterAccess(place), topic, dict.fromkeys(ends, 0), ends):
            key, value = each.key(), each.value()
            yield (
                None if key is None else json.loads(key)["payload"],
                None if value is None else json.loads(value)["payload"],
            )

    def check_history(self) -> int:
        """Every committed change is in its topic once, in order. The number of changes."""
        history = read_history(self.origin.url)
        counts = TransactionCounts()
        total = 0
        for table in self.tables:
            chains = Chains(table)
            for key, event in self.events(f"{PREFIX}.{SCHEMA}.{table.name}"):
                chains.add(key, event)
                if event is not None and event["op"] != "r":
                    counts.add(event["transaction"])
            total += chains.check(history[table.name], self.streamed_from)
        counts.check(value for _, value in self.events(TOPIC_OF_TRANSACTIONS))
        return total

    def last_rows(self, prefix: str, table: Table) -> dict[str, Any]:
        """The last state of each key as a topic tells it."""
        rows: dict[str, Any] = {}
        for key, event in self.events(f"{prefix}.{SCHEMA}.{table.name}"):
            text = json.dumps(key, sort_keys=True)
            if event is None or event["op"] == "d":
                rows.pop(text, None)
            else:
                rows[text] = event["after"]
        return rows


class Chains:
    """The events of one table, by key."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._found: dict[str, list[tuple[str, State]]] = defaultdict(list)
        self._tombstones: Counter[str] = Counter()

    def add(self, key: Any, event: Any) -> None:
        """One record more, in the order of its partition."""
        text = key_text([key[name] for name in self._table.key_names])
        if event is None:
            self._tombstones[text] += 1
            found = self._found[text]
            assert found and found[-1][0] == "d", f"{self._table.name} {text}: a tombstone without a delete"
            return
        self._found[text].append((event["op"], _state(event["after"])))
        before = event["before"]
        if self._table.is_full and event["op"] in ("u", "d"):
            states = [state for _, state in self._found[text][:-1]]
            assert states and states[-1] == _state(before), (
                f"{self._table.name} {text}: {event} after {states}"
            )

    def check(self, history: Mapping[str, Sequence[State]], streamed_from: int) -> int:
        """The events are the history, from the copy's moment on. The number of changes."""
        name, total = self._table.name, 0
        wanted_of = {key_text(json.loads(key)): states for key, states in history.items()}
        assert not self._found.keys() - wanted_of.keys(), f"{name}: keys that never were"
        for key, wanted in wanted_of.items():
            found = self._found.get(key, [])
            changes = [state for op, state in found if op != "r"]
            total += len(changes)
            begin = len(wanted) - len(changes)
            where = f"{name} {key}: {found} of {wanted}"
            assert begin >= 0, f"too many changes of {where}"
            assert changes == list(wanted[begin:]), f"other changes of {where}"
            last = wanted[begin - 1] if begin else State(None, None)
            left_out = [each.version for each in wanted[:begin] if each.version is not None]
            assert not left_out or max(left_out) <= streamed_from, f"missing: {where}"
            for op, state in found:
                # A copy that was cut short starts again, when what was copied is brought to its state.
                assert op != "r" or state == last, f"another state is copied: {where}"
                last = state
            if not found or found[0][0] != "r":
                before = wanted[begin - 1].version if begin else None
                assert before is None, f"the copy has left out {where}"
            assert self._tombstones[key] == sum(op == "d" for op, _ in found), f"tombstones of {where}"
        return total


class TransactionCounts:
    """The numbers of changes within their transactions: from 1 on, each once."""

    def __init__(self) -> None:
        self._found: dict[str, list[int]] = defaultdict(list)

    def add(self, block: Mapping[str, Any]) -> None:
        """A change's block."""
        self._found[block["id"].partition(":")[0]].append(block["total_order"])

    def check(self, records: Iterator[Any]) -> None:
        """Compare with the records of BEGIN and END."""
        ends: dict[str, int] = {}
        begins: Counter[str] = Counter()
        for each in records:
            id = each["id"].partition(":")[0]
            if each["status"] == "BEGIN":
                begins[id] += 1
            else:
                assert id not in ends, f"transaction {id} ends twice"
                ends[id] = each["event_count"]
        for id, numbers in self._found.items():
            assert sorted(numbers) == list(range(1, len(numbers) + 1)), f"transaction {id}: {sorted(numbers)}"
            assert ends.get(id) == len(numbers), (
                f"transaction {id}: {ends.get(id)} told, {len(numbers)} there"
            )
        assert begins.keys() == ends.keys() and set(begins.values()) <= {1}


def key_text(values: Sequence[Any]) -> str:
    """A key as a text that does not depend on who writes it."""
    return json.dumps(list(values), ensure_ascii=False)


def _state(row: Mapping[str, Any] | None) -> State:
    if row is None:
        return State(None, None)
    large = row.get(LARGE)
    return State(row[VERSION], None if large is None else hashlib.md5(large.encode()).hexdigest())


class Writers:
    """Threads that change the origin until they are stopped, whatever becomes of it."""

    def __init__(self, path: CopyPath, count: int, pause_s: float) -> None:
        self._path = path
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self.transactions = 0
        seeds = [path.chance.getrandbits(32) for _ in range(count)]
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in seeds]

    def start(self) -> None:
        """Begin to write."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End after the transactions that are open. Raises what has ended a writer before."""
        self._stop.set()
        for each in self._threads:
            if each.is_alive():
                each.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, seed: int) -> None:
        chance = random.Random(seed)
        try:
            while not self._stop.is_set():
                # The server is killed now and then: what was open is lost, or it is not.
                with contextlib.suppress(psycopg.OperationalError, psycopg.InterfaceError):
                    self._write(chance)
                self._stop.wait(0.1)
        except BaseException as problem:
            self._failures.append(problem)
            raise

    def _write(self, chance: random.Random) -> None:
        with psycopg.connect(self._path.origin.url, connect_timeout=5) as connection:
            while not self._stop.is_set():
                try:
                    change_something(connection, self._path.tables, chance)
                except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                    connection.rollback()
                self.transactions += 1
                self._stop.wait(chance.random() * 2 * self._pause_s)


def _kill(pids: Any) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def copy_path(programs: Path, directory: Path, seed: int, tables: int) -> Iterator[CopyPath]:
    """Both databases, a broker and a worker, without connectors yet; all processes are killed at the end."""
    chance = random.Random(seed)
    drawn = draw_tables(chance, tables)
    with ExitStack() as stack:
        origin = stack.enter_context(postgres_server(programs, "wal_level=logical", QUIET))
        copy = stack.enter_context(postgres_server(programs))
        create_origin(origin.url, drawn, chance)
        create_copy(copy.url, drawn)
        settings = {"group.min.session.timeout.ms": "1000"}
        broker = stack.enter_context(OttlaBroker.start(directory / "broker", settings=settings))
        worker = ConnectWorker.installed(broker.bootstrap, directory / "worker.log", WORKER)
        path = CopyPath(origin, copy, broker, worker, drawn, chance)

        def end_worker() -> None:
            if worker.server.running:
                processes = descendants(worker.server.process.pid)
                worker.kill()
                _kill(processes)

        stack.callback(end_worker)
        worker.server.start()
        yield path
