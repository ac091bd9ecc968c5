"""Twenty SQL statements while their host, the server and the broker are killed in turns: each result once."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from support.clients.confluent import consumer
from support.servers.ottla_broker import OttlaBroker
from support.servers.processes import descendants
from support.sql.sql_server import SqlServer

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(5_400)]

KILLS = 9
PAGES = [f"page-{number}" for number in range(12)]
EARLIEST = {"auto.offset.reset": "earliest"}
CATCH_UP_S = 600.0


def statements(name: str) -> dict[str, str]:
    """Eight filters, five counts, four windowed counts and three joins, by the names of what they make."""
    made = {}
    for number in range(8):
        made[f"F{number}_{name}"] = (
            f"CREATE STREAM F{number}_{name} AS SELECT page, id, ms FROM {name} WHERE ms % 8 = {number};"
        )
    for number in range(5):
        made[f"C{number}_{name}"] = (
            f"CREATE TABLE C{number}_{name} AS SELECT page, COUNT(*) AS n, SUM(ms) AS total "
            f"FROM {name} WHERE ms >= {number} GROUP BY page;"
        )
    for number in range(4):
        made[f"W{number}_{name}"] = (
            f"CREATE TABLE W{number}_{name} AS SELECT page, COUNT(*) AS n FROM {name} "
            f"WINDOW TUMBLING (SIZE {number + 2} SECONDS) GROUP BY page;"
        )
    for number in range(3):
        made[f"J{number}_{name}"] = (
            f"CREATE STREAM J{number}_{name} AS SELECT s.page, s.id, o.owner FROM {name} s "
            f"LEFT JOIN OWNERS_{name} o ON s.page = o.page WHERE s.id % 3 = {number};"
        )
    return made


class Writer:
    """Rows with numbers, written until `stop`; `rows` are those that the broker has."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._topic, self._dice = topic, random.Random(seed)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        self._stopped = threading.Event()
        self._failed: list[object] = []
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._stopped.wait(0.05):
            for _ in range(5):
                row = {
                    "PAGE": self._dice.choice(PAGES),
                    "ID": len(self.rows),
                    "MS": self._dice.randrange(100),
                }
                value = json.dumps({"ID": row["ID"], "MS": row["MS"]})
                self._producer.produce(self._topic, value, str(row["PAGE"]), on_delivery=self._delivered)
                self.rows.append(row)
            self._producer.poll(0)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(300) == 0
        assert not self._failed, self._failed[:3]


@contextmanager
def closing(writer: Writer) -> Iterator[Writer]:
    try:
        yield writer
    finally:
        writer.stop()


def written(bootstrap: str, topic: str, count: int) -> list[dict[str, Any]]:
    """The committed rows of a topic: so many, and whatever more there is behind them."""
    found: list[dict[str, Any]] = []
    with consumer(bootstrap, "reader", isolation_level="read_committed") as client:
        partitions = list(client.list_topics(topic, timeout=60).topics[topic].partitions)
        client.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        deadline, quiet = time.monotonic() + CATCH_UP_S, 0
        while time.monotonic() < deadline and quiet < 3:
            messages = client.consume(10_000, timeout=1)
            found += [{**json.loads(each.value() or b"{}"), "offset": each.offset()} for each in messages]
            quiet = quiet + 1 if not messages and len(found) >= count else 0
    return found


def check(server: SqlServer, bootstrap: str, name: str, rows: list[dict[str, Any]]) -> None:
    """What each statement has made of all rows."""
    for number in range(8):
        wanted = Counter(row["ID"] for row in rows if row["MS"] % 8 == number)
        found = Counter(row["ID"] for row in written(bootstrap, f"F{number}_{name}", wanted.total()))
        assert found == wanted, (number, (found - wanted).most_common(5), (wanted - found).most_common(5))
    for number in range(3):
        wanted = Counter(row["ID"] for row in rows if row["ID"] % 3 == number)
        joined = written(bootstrap, f"J{number}_{name}", wanted.total())
        assert Counter(row["ID"] for row in joined) == wanted
        assert all(row["OWNER"] for row in joined)
    for number in range(5):
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for row in rows:
            if row["MS"] >= number:
                sums[row["PAGE"]][0] += 1
                sums[row["PAGE"]][1] += row["MS"]
        server.until(
            f"SELECT page, n, total FROM C{number}_{name};",
            lambda found, sums=sums: {page: [n, total] for page, n, total in found} == sums,
            CATCH_UP_S,
        )
    pages = Counter(row["PAGE"] for row in rows)
    for number in range(4):

        def is_all(found: list[list[Any]]) -> bool:
            counted: Counter[str] = Counter()
            for page, n in found:
                counted[page] += n
            return counted == pages

        server.until(f"SELECT page, n FROM W{number}_{name};", is_all, CATCH_UP_S)


def kill_host(server: SqlServer) -> None:
    for pid, command in descendants(server.process.server.process.pid).items():
        if "ottla.sql.running" in command:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", [random.SystemRandom().randrange(1 << 30)], ids=["random"])
def test_each_result_is_there_once_over_kills(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    dice, name = random.Random(seed), f"S_{uuid.uuid4().hex[:8]}".upper()
    service = f"id{uuid.uuid4().hex[:8]}"
    settings = {"ottla.sql.spark.driver.memory": "2g", "ksql.query.retry.backoff.initial.ms": "1000"}
    with OttlaBroker.start(tmp_path / "broker") as broker, ExitStack() as servers:

        def serve() -> SqlServer:
            started = SqlServer.start(
                broker.bootstrap, tmp_path / "sql", service, warm=True, settings=settings
            )
            return servers.enter_context(started)

        server = serve()
        server.run(
            f"CREATE STREAM {name} (page STRING KEY, id INT, ms INT) "
            f"WITH (kafka_topic='{name}', value_format='json', partitions=2);"
            f"CREATE TABLE OWNERS_{name} (page STRING PRIMARY KEY, owner STRING) "
            f"WITH (kafka_topic='OWNERS_{name}', value_format='json', partitions=2);"
        )
        for page in PAGES:
            server.run(f"INSERT INTO OWNERS_{name} VALUES ('{page}', 'owner of {page}');")
        for statement in statements(name).values():
            server.run(statement, EARLIEST)
        with closing(Writer(broker.bootstrap, name, seed)) as writer:
            for number in range(KILLS):
                time.sleep(dice.uniform(2, 40))  # a kill may come at any time, not when something is done
                match number % 3:
                    case 0:
                        kill_host(server)
                    case 1:
                        server.process.kill()
                        server = serve()
                    case _:
                        broker.kill()
                        broker.restart()
        print(f"seed {seed}: {len(writer.rows)} rows over {KILLS} kills")
        check(server, broker.bootstrap, name, writer.rows)
