"""kill -9 of hosts while writers change a PostgreSQL database: each change is in the topics exactly once."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.host.messages import Role, Running
from ottla.connect.host.offset_store import read_offsets
from ottla.connect.worker.fencing import fence_task
from support.clients.confluent import create_topic
from support.connect import runs
from support.connect.cdc.postgres_changes import PREFIX, configuration
from support.connect.cdc.writers import ROWS, TABLES, events, final_state, live, prepare, replayed, write
from support.connect.runs import OFFSETS_TOPIC, host_process
from support.connect.workers import until
from support.servers.ottla_broker import OttlaBroker
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = [pytest.mark.slow, pytest.mark.long]

WRITERS = 3
KILLS = 12
JSON = "org.apache.kafka.connect.json.JsonConverter"
PARTITION = {"server": PREFIX}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaBroker.start(tmp_path_factory.mktemp("killed-changes") / "broker") as broker:
        create_topic(broker.bootstrap, OFFSETS_TOPIC, 3, {"cleanup.policy": "compact"})
        yield broker.bootstrap


@pytest.fixture
def url() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql(programs, "wal_level=logical") as running:
        yield running


def test_changes_come_exactly_once_whenever_the_host_is_killed(
    bootstrap: str, url: str, tmp_path: Path
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    prepare(url)
    topics = {table: f"{PREFIX}.public.{table}" for table in TABLES}
    for topic in topics.values():
        create_topic(bootstrap, topic, 1)
    config = configuration(url, max_batch_size="40", extended_headers_enabled="false") | {
        "transaction.boundary": rng.choice(("poll", "interval")),
        "snapshot.max.threads": rng.choice(("1", "3")),
        "ottla.snapshot.range.rows": str(rng.randrange(100, ROWS)),
        "transaction.boundary.interval.ms": "50",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    worker = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "30"}

    def start() -> runs.Start:
        order = runs.start(
            bootstrap, "changes", Role.SOURCE_TASK, config, worker=worker, partitions=[PARTITION]
        )
        asyncio.run(fence_task("changes", 0, order.config, order.worker))
        return runs.with_offsets(order, read_offsets(order))

    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(url, rng.getrandbits(32), stop)) for _ in range(WRITERS)]
    with ExitStack() as stack:
        stack.callback(lambda: [each.join() for each in writers])
        stack.callback(stop.set)
        for each in writers:
            each.start()
        for _ in range(KILLS):
            with host_process(tmp_path / "log") as host:
                order = start()
                host.give(order)
                live(host, order.run, rng)
                host.kill()
    state = final_state(url)
    with host_process(tmp_path / "log") as host:
        order = start()
        host.give(order)
        host.wait(order.run, Running)
        until(lambda: replayed(bootstrap, topics), lambda found: found == state, seconds=90)
        assert host.stop(order.run) is None
    for table, topic in topics.items():
        check_chain(f"seed {seed}: {table}", events(bootstrap, topic))


def check_chain(where: str, found: list[tuple[int, dict[str, Any] | None]]) -> None:
    """Each change of a row begins at the state that the one before it ended in: none is missing or twice."""
    last: dict[int, int | None] = defaultdict(lambda: None)
    streamed: set[int] = set()
    tombstones = 0
    reads = [at for at, (_, event) in enumerate(found) if event is not None and event["op"] == "r"]
    for at, (id, event) in enumerate(found):
        if event is None:
            tombstones += 1
            assert last[id] is None, f"{where}: a tombstone of the living row {id}"
            continue
        before = None if event["before"] is None else event["before"]["change"]
        after = None if event["after"] is None else event["after"]["change"]
        if event["op"] == "r":
            # A copy that was cut short starts again, when what was copied is brought to its state.
            assert last[id] in (None, after), f"{where}: row {id} is copied as {after} after {last[id]}"
        else:
            # Between two copies there are changes of rows that only the second one holds.
            is_new = id not in last and at < reads[-1]
            assert before == last[id] or is_new, f"{where}: {event} does not go on from {last[id]}"
            if after is not None:
                assert after not in streamed, f"{where}: change {after} comes twice"
                streamed.add(after)
        last[id] = after
    assert streamed
    assert tombstones == sum(event is not None and event["op"] == "d" for _, event in found), where
