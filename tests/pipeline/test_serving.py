"""Interactive queries: materialized tables followed from their topics and asked over HTTP."""

from __future__ import annotations

import base64
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import Producer
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.streams.views.followed_topic import ViewError
from ottla.streams.views.serving import AGE_HEADER, LAG_HEADER, QueryServer
from ottla.streams.views.view_status import ViewState
from ottla.streams.views.views import RowTypes, View, ViewSettings
from support.servers.ottla_broker import OttlaBroker

BOUND_SECONDS = 30.0
TEXT, COUNT, BYTES = StringType(), LongType(), BinaryType()
ORDER = StructType([StructField("customer", StringType()), StructField("number", LongType())])
WINDOWED = StructType(
    [
        StructField("key", StringType()),
        StructField("start", TimestampType()),
        StructField("end", TimestampType()),
    ]
)
Record = tuple[bytes | None, bytes | None]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBroker]:
    with OttlaBroker.start(tmp_path_factory.mktemp("serving") / "broker") as running:
        yield running


class Table:
    """A compacted topic, and the settings to serve it."""

    def __init__(
        self, broker: OttlaBroker, directory: Path, name: str, key: DataType, value: DataType
    ) -> None:
        self.cluster = KafkaCluster(broker.bootstrap)
        self.topic = f"shop-{name}-changelog"
        access = ClusterAccess(broker.bootstrap)
        self.settings = ViewSettings(name, self.topic, access, directory / "views", RowTypes(key, value))
        self.create()

    def create(self) -> None:
        self.cluster.ensure_topics([Topic(self.topic, 2, 1, {"cleanup.policy": "compact"})])

    def write(
        self, *records: Record, timestamp_ms: int = 1_000, committed: bool = True, transactional_id: str = "w"
    ) -> None:
        """Records in one transaction."""
        producer = transactional(self.cluster, f"{self.topic}-{transactional_id}")
        for key, value in records:
            producer.produce(self.topic, key=key, value=value, timestamp=timestamp_ms)
        producer.flush(BOUND_SECONDS)
        (producer.commit_transaction if committed else producer.abort_transaction)(BOUND_SECONDS)

    def await_read(self, view: View) -> None:
        """Until the view has all that is in the topic."""
        assert view.wait_until(self.cluster.end_positions(self.topic), BOUND_SECONDS), view.status
        assert view.wait_until_running(BOUND_SECONDS), view.status


def transactional(cluster: KafkaCluster, name: str) -> Producer:
    """A producer within a transaction; the connection is there first, which saves half a second."""
    options = {**cluster.producer_options(), "transactional.id": name, "enable.sparse.connections": False}
    producer = Producer(options)
    producer.list_topics(timeout=BOUND_SECONDS)
    producer.init_transactions(BOUND_SECONDS)
    producer.begin_transaction()
    return producer


MakeTable = Callable[..., Table]


@pytest.fixture
def make_table(broker: OttlaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> MakeTable:
    def make(key: DataType, value: DataType) -> Table:
        return Table(broker, tmp_path, re.sub("[^a-z]+", "-", request.node.name).strip("-"), key, value)

    return make


@contextmanager
def served(*tables: Table) -> Iterator[tuple[QueryServer, httpx.Client]]:
    with QueryServer([table.settings for table in tables], port=0) as server:
        for table in tables:
            table.await_read(server.views[table.settings.name])
        with httpx.Client(base_url=server.url, timeout=BOUND_SECONDS) as http:
            yield server, http


def int64(number: int) -> bytes:
    return struct.pack(">q", number)


def keys(answer: httpx.Response) -> list[Any]:
    return [row["key"] for row in answer.json()["rows"]]


def test_a_row_is_the_last_committed_value_of_its_key(make_table: MakeTable) -> None:
    counts = make_table(TEXT, COUNT)
    counts.write((b"alice", int64(1)), (b"bob", int64(7)), timestamp_ms=1_000)
    counts.write((b"alice", int64(2)), timestamp_ms=2_000)
    counts.write((b"alice", int64(99)), committed=False)
    counts.write((b"bob", None))

    with served(counts) as (_, http):
        path = f"/tables/{counts.settings.name}"
        alice = http.get(f"{path}/keys/alice")
        assert alice.json() == {"key": "alice", "value": 2, "timestamp": 2_000}
        assert alice.headers[LAG_HEADER] == "0"
        assert int(alice.headers[AGE_HEADER]) >= 0
        bob = http.get(f"{path}/keys/bob")
        assert (bob.status_code, bob.json()["error_code"]) == (404, 40402)
        table = http.get(path).json()
        assert (table["count"], table["state"], table["lag"]) == (1, "running", 0)
        assert (table["key"], table["value"], table["windowed"]) == ("string", "bigint", False)


def test_records_written_while_a_table_is_served_are_seen(make_table: MakeTable) -> None:
    counts = make_table(TEXT, COUNT)
    with served(counts) as (server, http):
        path = f"/tables/{counts.settings.name}"
        assert http.get(f"{path}/keys/alice").status_code == 404
        counts.write((b"alice", int64(5)))
        counts.await_read(server.views[counts.settings.name])
        assert http.get(f"{path}/keys/alice").json()["value"] == 5
        assert http.get("/health").json()["status"] == "up"


def test_a_range_comes_in_pages_in_the_order_of_keys(make_table: MakeTable) -> None:
    numbers = make_table(COUNT, TEXT)
    numbers.write(*((int64(number), f"n{number}".encode()) for number in (300, -5, 20, 3, 100)))

    with served(numbers) as (_, http):
        path = f"/tables/{numbers.settings.name}/range"
        assert keys(http.get(path)) == [-5, 3, 20, 100, 300]
        assert keys(http.get(path, params={"from": 3, "to": 100})) == [3, 20, 100]
        first = http.get(path, params={"limit": 2, "from": 3}).json()
        second = http.get(path, params={"limit": 2, "from": 3, "after": first["next"]}).json()
        assert [row["value"] for row in first["rows"] + second["rows"]] == ["n3", "n20", "n100", "n300"]
        assert second["next"] is None


def test_a_range_goes_on_behind_a_key_of_bytes(make_table: MakeTable) -> None:
    raw = make_table(BYTES, BYTES)
    raw.write((b"\xff", b"c"), (b"\x00", b"a"), (b"\x01\xfe", b"b"))
    with served(raw) as (_, http):
        path = f"/tables/{raw.settings.name}"
        first = http.get(f"{path}/range", params={"limit": 2}).json()
        assert [base64.b64decode(row["key"]) for row in first["rows"]] == [b"\x00", b"\x01\xfe"]
        rest = http.get(f"{path}/range", params={"limit": 2, "after": first["next"]}).json()
        assert [base64.b64decode(row["value"]) for row in rest["rows"]] == [b"c"]
        key = quote(base64.b64encode(b"\xff").decode(), safe="")
        one = http.get(f"{path}/keys/{key}")
        assert base64.b64decode(one.json()["value"]) == b"c"


def test_a_key_of_several_fields_is_json_in_any_order(make_table: MakeTable) -> None:
    orders = make_table(ORDER, StructType([StructField("total", LongType())]))
    orders.write((b'{"customer":"a/b","number":7}', b'{"total":12}'))
    with served(orders) as (_, http):
        path = f"/tables/{orders.settings.name}"
        asked = quote('{"number": 7, "customer": "a/b"}', safe="")
        found = http.get(f"{path}/keys/{asked}").json()
        assert found == {"key": {"customer": "a/b", "number": 7}, "value": {"total": 12}, "timestamp": 1_000}
        client = quote('{"client": 1}', safe="")
        wrong = http.get(f"{path}/keys/{client}")
        assert (wrong.status_code, wrong.json()["error_code"]) == (400, 40002)
        assert "no field client" in wrong.json()["message"]


@pytest.mark.parametrize("key", ["a/b", "windows", "ä ?&#%", "../x", "+1"])
def test_a_key_may_hold_anything(broker: OttlaBroker, tmp_path: Path, key: str) -> None:
    table = Table(broker, tmp_path, f"anything-{key.encode().hex()}", TEXT, TEXT)
    table.write((key.encode(), b"here"))
    with served(table) as (_, http):
        found = http.get(f"/tables/{table.settings.name}/keys/{quote(key, safe='')}")
        assert found.json() == {"key": key, "value": "here", "timestamp": 1_000}


def windowed_key(key: str, start_s: int) -> bytes:
    start, end = (f"1970-01-01T00:{s // 60:02}:{s % 60:02}.000000Z" for s in (start_s, start_s + 60))
    return f'{{"key":"{key}","start":"{start}","end":"{end}"}}'.encode()


def test_windows_of_a_key_are_asked_by_their_start(make_table: MakeTable) -> None:
    counts = make_table(WINDOWED, COUNT)
    counts.write(*((windowed_key("alice", start), int64(start)) for start in (0, 60, 120)))
    counts.write((windowed_key("bob", 0), int64(1)))
    counts.write((windowed_key("alice", 60), None))

    with served(counts) as (_, http):
        path = f"/tables/{counts.settings.name}"
        rows = http.get(f"{path}/keys/alice/windows").json()["rows"]
        assert [(row["window_start"], row["window_end"], row["value"]) for row in rows] == [
            (0, 60_000, 0),
            (120_000, 180_000, 120),
        ]
        later = http.get(f"{path}/keys/alice/windows", params={"from": "1970-01-01T00:01:00Z"}).json()
        assert [row["window_start"] for row in later["rows"]] == [120_000]
        up_to = http.get(f"{path}/keys/alice/windows", params={"to": 119_999, "limit": 1}).json()
        assert ([row["window_start"] for row in up_to["rows"]], up_to["more"]) == ([0], False)
        assert keys(http.get(f"{path}/range")) == ["alice", "alice", "bob"]
        without = http.get(f"{path}/keys/alice")
        assert (without.status_code, without.json()["error_code"]) == (400, 40001)


def test_windows_behind_the_retention_are_dropped(make_table: MakeTable) -> None:
    counts = make_table(WINDOWED, COUNT)
    counts.settings = replace(counts.settings, rows=replace(counts.settings.rows, retention_ms=90_000))
    counts.write((windowed_key("alice", 0), int64(1)), timestamp_ms=30_000)
    counts.write((windowed_key("alice", 120), int64(2)), timestamp_ms=151_000)
    with served(counts) as (_, http):
        rows = http.get(f"/tables/{counts.settings.name}/keys/alice/windows").json()["rows"]
        assert [row["window_start"] for row in rows] == [120_000]
        assert http.get(f"/tables/{counts.settings.name}").json()["count"] == 1


def test_a_restart_goes_on_where_the_file_ends(make_table: MakeTable) -> None:
    counts = make_table(TEXT, COUNT)
    counts.write((b"alice", int64(1)), (b"bob", int64(1)))
    with served(counts):
        pass
    file = counts.settings.directory / f"{counts.settings.name}.sqlite3"
    with sqlite3.connect(file) as store:  # a row that only a reader of the file would know
        store.execute("UPDATE rows SET value = '41' WHERE key = 'bob'")
    store.close()
    counts.write((b"alice", None))

    with served(counts) as (_, http):
        path = f"/tables/{counts.settings.name}"
        assert http.get(f"{path}/keys/bob").json()["value"] == 41
        assert http.get(f"{path}/keys/alice").status_code == 404
        assert http.get(path).json()["count"] == 1


@pytest.mark.parametrize("harm", ["broken", "other types", "away for too long", "a new topic"])
def test_a_file_that_does_not_fit_is_read_anew(make_table: MakeTable, harm: str) -> None:
    counts = make_table(TEXT, COUNT)
    counts.settings = replace(counts.settings, name=harm.replace(" ", "-"))
    counts.write((b"alice", int64(1)), (b"gone", int64(1)))
    with served(counts):
        pass
    file = counts.settings.directory / f"{counts.settings.name}.sqlite3"
    expected = {"alice": 1, "gone": 1}
    match harm:
        case "broken":
            file.write_bytes(b"no database at all" * 1_000)
        case "other types":
            with sqlite3.connect(file) as store:
                store.execute("UPDATE rows SET value = '41'")
                store.execute("UPDATE facts SET value = 'of another table' WHERE name = 'identity'")
            store.close()
        case "away for too long":
            with sqlite3.connect(file) as store:
                store.execute("UPDATE rows SET value = '41'")
                store.execute("UPDATE facts SET value = value - 50000000 WHERE name = 'current at'")
            store.close()
        case "a new topic":
            counts.cluster.delete_topic(counts.topic)
            counts.create()
            # More than before: the offsets of the old topic are within the new one.
            expected = {f"bob-{number}": number for number in range(20)}
            counts.write(*((key.encode(), int64(number)) for key, number in expected.items()))

    with served(counts) as (_, http):
        rows = http.get(f"/tables/{counts.settings.name}/range").json()["rows"]
        assert {row["key"]: row["value"] for row in rows} == expected
        assert http.get(f"/tables/{counts.settings.name}").json()["count"] == len(expected)


def test_two_processes_serve_the_same_table(make_table: MakeTable, tmp_path: Path) -> None:
    counts = make_table(TEXT, COUNT)
    counts.write((b"alice", int64(4)))
    with served(counts) as (_, one):
        with pytest.raises(ViewError, match="another process serves"), pytest.MonkeyPatch.context() as patch:
            patch.setattr("ottla.streams.views.views.LOCK_SECONDS", 0.0)
            View(counts.settings).start()
        counts.settings = replace(counts.settings, directory=tmp_path / "other")
        with served(counts) as (_, other):
            path = f"/tables/{counts.settings.name}/keys/alice"
            assert one.get(path).json() == other.get(path).json()


def test_bytes_that_are_no_record_of_the_table_end_the_view(make_table: MakeTable) -> None:
    counts = make_table(TEXT, COUNT)
    counts.write((b"alice", b"one"))
    with QueryServer([counts.settings], port=0) as server, httpx.Client(base_url=server.url) as http:
        view = server.views[counts.settings.name]
        assert not view.wait_until_running(BOUND_SECONDS)
        assert view.status.state is ViewState.FAILED
        answer = http.get(f"/tables/{counts.settings.name}/keys/alice")
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
        assert "3 bytes are no number of 8 bytes" in answer.json()["message"]
        assert http.get("/health").status_code == 503
        assert server.failure is not None and counts.topic in server.failure


def test_an_open_transaction_holds_the_table_back_and_shows_as_no_lag(make_table: MakeTable) -> None:
    """The end that counts is the last stable offset."""
    counts = make_table(TEXT, COUNT)
    counts.write((b"alice", int64(1)))
    producer = transactional(counts.cluster, "open")
    producer.produce(counts.topic, key=b"alice", value=int64(2))
    producer.flush(BOUND_SECONDS)
    with served(counts) as (server, http):
        path = f"/tables/{counts.settings.name}/keys/alice"
        assert http.get(path).json()["value"] == 1
        producer.commit_transaction(BOUND_SECONDS)
        counts.await_read(server.views[counts.settings.name])
        assert http.get(path).json()["value"] == 2


def test_while_the_broker_is_away_a_table_answers_and_grows_old(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "broker") as broker:
        counts = Table(broker, tmp_path, "counts", TEXT, COUNT)
        counts.write((b"alice", int64(1)))
        with served(counts) as (server, http):
            view = server.views["counts"]
            broker.server.kill()
            before = view.status.age_ms
            assert before is not None
            answer = http.get("/tables/counts/keys/alice")
            assert (answer.status_code, answer.json()["value"]) == (200, 1)
            broker.server.start()
            counts.write((b"alice", int64(2)), transactional_id="later")
            counts.await_read(view)
            assert http.get("/tables/counts/keys/alice").json()["value"] == 2


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/tables/nothing/keys/a", 404, 40401),
        ("/tables/T/keys/a/b", 404, 40400),
        ("/tables/T/keys/a/windows", 400, 40001),
        ("/tables/T/range?limit=0", 400, 40003),
        ("/tables/T/range?limit=1001", 400, 40003),
        ("/tables/T/range?limit=x", 400, 40003),
        ("/tables/T/range?after=x", 400, 40005),
        ("/tables/T/range?after=bnVsbA", 400, 40005),
        ("/nowhere", 404, 404),
    ],
)
def test_a_wrong_question_gets_a_code_and_a_reason(
    asked: tuple[str, httpx.Client], path: str, status: int, code: int
) -> None:
    name, http = asked
    answer = http.get(path.replace("/T/", f"/{name}/"))
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)
    assert answer.json()["message"]


@pytest.fixture(scope="module")
def asked(
    broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, httpx.Client]]:
    table = Table(broker, tmp_path_factory.mktemp("asked"), "asked", TEXT, COUNT)
    with served(table) as (_, http):
        yield "asked", http


def test_a_table_of_a_topic_that_is_not_there_does_not_start(broker: OttlaBroker, tmp_path: Path) -> None:
    access = ClusterAccess(broker.bootstrap)
    settings = ViewSettings("t", "no-such-topic", access, tmp_path, RowTypes(TEXT, COUNT))
    with pytest.raises(ViewError, match="no topic no-such-topic"), QueryServer([settings], port=0):
        pass


def test_a_port_that_is_taken_is_told(asked: tuple[str, httpx.Client], tmp_path: Path) -> None:
    _, http = asked
    port = http.base_url.port
    assert port is not None
    taken: Sequence[ViewSettings] = []
    with pytest.raises(ViewError, match=f"can't listen for queries on 127.0.0.1:{port}"):
        QueryServer(taken, port=port).start()
