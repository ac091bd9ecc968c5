"""Restarts of the database and failovers to a standby: what goes on does so exactly, and gaps are told."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from ottla.connect.cdc.postgres.slots import SetupError
from ottla.connect.data.record import SourceOffset, SourceRecord
from ottla.connect.plugins.api import RetriableError
from support.connect.cdc.postgres_changes import Reading, configuration
from support.servers.postgresql import postgresql_programs
from support.servers.postgresql_pair import PostgresServer, postgresql_pair

pytestmark = [pytest.mark.slow, pytest.mark.long]

SLOT = "debezium"
SETTINGS = ("wal_level=logical", "hot_standby=on")
Pair = tuple[PostgresServer, PostgresServer]


@pytest.fixture
def pair() -> Iterator[Pair]:
    if postgresql_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql_pair() as servers:
        yield servers


def config(server: PostgresServer, **others: str) -> dict[str, str]:
    return configuration(server.url, table_include_list="public.t", status_update_interval_ms="1", **others)


def execute(server: PostgresServer, statement: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(statement.encode())


def lsn(server: PostgresServer, function: str) -> str:
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute(f"SELECT {function}()::text".encode()).fetchone()
    assert row is not None
    return str(row[0])


def numbers(records: list[SourceRecord]) -> list[int]:
    return [each.record.value.values["after"].values["n"] for each in records]


def insert(server: PostgresServer, first: int, count: int) -> None:
    execute(server, f"INSERT INTO t SELECT generate_series({first}, {first + count - 1})")


def copied(server: PostgresServer, count: int) -> SourceOffset:
    """The offset of a connector that has copied a table, streamed some rows, and is stopped."""
    execute(server, "CREATE TABLE t (n integer PRIMARY KEY)")
    insert(server, 0, count)
    with closing(Reading(config(server))) as reading:
        reading.take(count)
        insert(server, count, count)
        reading.take(count)
        reading.commit()
        reading.turn()
        assert reading.offset is not None
        return reading.offset


def follow(primary: PostgresServer, standby: PostgresServer) -> None:
    """Start the standby, and wait until it has all of the primary's log."""
    standby.start(*SETTINGS)
    wanted = lsn(primary, "pg_current_wal_flush_lsn")
    until(lambda: not behind(standby, wanted))


def behind(standby: PostgresServer, wanted: str) -> bool:
    with psycopg.connect(standby.url, autocommit=True) as connection:
        query = "SELECT coalesce(pg_last_wal_replay_lsn() < %s::pg_lsn, true)"
        row = connection.execute(query, (wanted,)).fetchone()
    return row is None or bool(row[0])


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def fails(server: PostgresServer, offset: SourceOffset | None, match: str) -> None:
    with closing(Reading(config(server), offset)) as reading, pytest.raises(SetupError, match=match):
        reading.turn()


def test_a_database_that_is_killed_and_started_again_loses_and_repeats_nothing(pair: Pair) -> None:
    primary, _ = pair
    rng = random.Random()
    offset = copied(primary, 10)
    found: list[int] = []
    written = 20
    for _ in range(4):
        with closing(Reading(config(primary), offset)) as reading:
            count = rng.randrange(5, 50)
            insert(primary, written, count)
            written += count
            found += numbers(list(reading.some()))
            reading.commit()
            offset = reading.offset
            insert(primary, written, 7)
            written += 7
            primary.kill()
            with pytest.raises(RetriableError):
                for _ in range(100_000):
                    batch = list(reading.turn())
                    found += numbers(batch)
                    offset = reading.offset
            primary.start("wal_level=logical", "wal_keep_size=256MB")
    with closing(Reading(config(primary), offset)) as reading:
        found += numbers(reading.take(written - 20 - len(found)))
    assert found == list(range(20, written))


def test_a_standby_is_waited_for_and_its_slot_goes_on_where_the_offset_ends(pair: Pair) -> None:
    primary, standby = pair
    offset = copied(primary, 20)
    insert(primary, 40, 5)
    primary.stop()  # what it had is written, the slot's state too
    primary.copy_slot(SLOT, standby)
    primary.start("wal_level=logical", "wal_keep_size=256MB")
    follow(primary, standby)
    primary.kill()
    with closing(Reading(config(standby), offset)) as early, pytest.raises(RetriableError, match="standby"):
        early.turn()
    standby.promote()
    insert(standby, 45, 5)
    with closing(Reading(config(standby), offset)) as reading:
        assert numbers(reading.take(10)) == list(range(40, 50))
        assert reading.offset is not None and reading.offset["timeline"] == 2
        reading.commit()
        reading.turn()
        offset = reading.offset
    standby.stop()
    # Who comes back to the former primary is told.
    primary.start("wal_level=logical")
    fails(primary, offset, "on timeline 1, and the offset on 2")


def test_a_promoted_standby_without_the_slot_is_told_and_the_tables_are_copied_where_that_may_be(
    pair: Pair,
) -> None:
    primary, standby = pair
    offset = copied(primary, 20)
    follow(primary, standby)
    primary.kill()
    standby.promote()
    insert(standby, 40, 5)
    fails(standby, offset, r"not copied to this server, which was promoted.*when_needed")
    # A slot that somebody makes by hand begins behind the rows that were written meanwhile.
    execute(standby, f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")
    fails(standby, offset, "made anew or moved")
    with closing(Reading(config(standby, snapshot_mode="when_needed"), offset)) as reading:
        assert numbers(reading.take(45)) == list(range(45))
        insert(standby, 45, 2)
        assert numbers(reading.take(2)) == [45, 46]


def test_changes_in_kafka_that_the_new_primary_never_had_are_told(pair: Pair) -> None:
    primary, standby = pair
    execute(primary, "CREATE TABLE t (n integer PRIMARY KEY)")
    with closing(Reading(config(primary))) as reading:
        assert not reading.turn()
        primary_slot = lsn(primary, "pg_current_wal_lsn")
        assert primary_slot
        follow(primary, standby)
        standby.stop()
        insert(primary, 0, 5)  # the standby never gets these
        reading.take(5)
        offset = reading.offset
    primary.kill()
    primary.copy_slot(SLOT, standby)
    standby.start(*SETTINGS)
    standby.promote()
    insert(standby, 100, 5)
    fails(standby, offset, "which this one never had")


def test_another_cluster_is_told(pair: Pair) -> None:
    primary, _ = pair
    offset = copied(primary, 5)
    with postgresql_pair() as (other, _):
        execute(other, "CREATE TABLE t (n integer PRIMARY KEY)")
        fails(other, offset, "another database cluster")


def test_an_offset_that_is_set_back_before_the_slot_is_told(pair: Pair) -> None:
    primary, _ = pair
    execute(primary, "CREATE TABLE t (n integer PRIMARY KEY)")
    insert(primary, 0, 5)
    with closing(Reading(config(primary))) as reading:
        reading.take(5)
        early = reading.offset
        for number in range(5, 10):
            insert(primary, number, 1)
        reading.take(5)
        reading.commit()
        offset: Any = reading.offset

        def confirmed() -> bool:
            reading.turn()
            with psycopg.connect(primary.url) as connection:
                query = "SELECT confirmed_flush_lsn - '0/0' >= %s FROM pg_replication_slots"
                row = connection.execute(query, (offset["commit"],)).fetchone()
            return row == (True,)

        until(confirmed)
    fails(primary, early, "offset was set back")
    with closing(Reading(config(primary), offset)) as again:
        insert(primary, 10, 1)
        assert numbers(again.take(1)) == [10]
