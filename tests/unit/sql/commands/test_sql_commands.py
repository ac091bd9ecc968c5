"""Commands: what statements become, replay to the same state, and what a query may be replaced by."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.commands.command import Command, CommandError, command_of, end_mark
from ottla.sql.commands.deciding import Asked, controlled, planned, with_property
from ottla.sql.commands.membership import elected
from ottla.sql.commands.state import SqlState, Wish
from ottla.sql.language.errors import SqlError
from ottla.sql.language.parser import parse_script
from ottla.sql.language.statements import ControlQuery, CreateAsSelect, CreateSource, SetProperty
from ottla.sql.plan.statement_plan import Nothing

OF_BEFORE = Path(__file__).with_name("commands_v1.jsonl")
"""Records as version 1 wrote them: a later version has to read them as well."""


def commands(state: SqlState, script: str) -> list[Command]:
    """The commands that a script's statements become, one after the other."""
    found = []
    for parsed in parse_script(script):
        statement = parsed.statement
        replaces = isinstance(statement, CreateSource | CreateAsSelect) and statement.or_replace
        asked = Asked(
            parsed.text, statement.at, 1_000 + state.number, {"auto.offset.reset": "earliest"}, replaces
        )
        match statement:
            case ControlQuery():
                command = controlled(state, statement, asked)
            case SetProperty(system=True):
                command = with_property(state, statement.name, statement.value, asked)
            case _:
                plan = Binder(state.catalog).bind(statement)
                assert not isinstance(plan, Nothing)
                command = planned(state, plan, asked)
        found.append(command)
        state = state.after(command)
    return found


def state_of(script: str) -> SqlState:
    return replayed(commands(SqlState(), script))


def replayed(found: Sequence[Command], state: SqlState | None = None) -> SqlState:
    state = state or SqlState()
    for each in found:
        record = each.record()
        state = state.replayed(record.key, record.value)
    return state


SCRIPT = """
CREATE TYPE pair AS STRUCT<a INT, b DECIMAL(6, 2)>;
CREATE STREAM s (id INT KEY, v STRING, n DOUBLE, p pair)
  WITH (kafka_topic='s', value_format='json', partitions=2);
CREATE TABLE t (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='t', value_format='json', partitions=2);
CREATE STREAM big AS SELECT id, UCASE(v) AS v, n * 2 AS n FROM s WHERE n > 1.5 AND v LIKE 'a%';
CREATE TABLE counts AS SELECT v, COUNT(*) AS c, MAX(n) AS m FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY v;
CREATE STREAM joined AS SELECT s.id AS id, t.name AS name FROM s JOIN t ON s.id = t.id;
INSERT INTO big SELECT id, v, n FROM s WHERE v = 'x';
ALTER STREAM s ADD COLUMN more STRING;
PAUSE CSAS_BIG_4;
ALTER SYSTEM 'auto.offset.reset'='earliest';
CREATE OR REPLACE STREAM big AS SELECT id, LCASE(v) AS v, n * 2 AS n FROM s WHERE n > 3;
"""


def test_a_state_is_the_same_after_any_replay() -> None:
    found = commands(SqlState(), SCRIPT)
    direct = SqlState()
    for each in found:
        direct = direct.after(each)
    once = replayed(found)
    assert once == direct
    assert once.problem is None
    assert set(once.queries) == {"CSAS_BIG_4", "CTAS_COUNTS_5", "CSAS_JOINED_6", "INSERTQUERY_7"}
    assert once.queries["CSAS_BIG_4"].wish is Wish.REST
    assert once.queries["CSAS_BIG_4"].revision == 11
    assert once.catalog.sources["BIG"].written_by == "CSAS_BIG_4"
    assert once.properties == {"auto.offset.reset": "earliest"}
    # What is read twice, as after a lost answer, changes nothing.
    cut = random.randrange(len(found))
    again = replayed(found[cut:], replayed(found))
    assert again == once
    marked = end_mark()
    assert once.replayed(marked.key, marked.value) is once


def test_records_of_version_1_are_read() -> None:
    state = SqlState()
    for line in OF_BEFORE.read_bytes().splitlines():
        state = state.replayed(str(orjson.loads(line)["number"]).encode(), line)
    assert state.problem is None
    assert state == replayed(commands(SqlState(), SCRIPT))


def test_a_record_of_a_later_version_ends_the_replay_with_the_reason() -> None:
    found = commands(SqlState(), SCRIPT)
    state = replayed(found[:3])
    value = orjson.loads(found[3].record().value or b"") | {"version": 99}
    broken = state.replayed(b"4", orjson.dumps(value))
    assert broken.problem is not None
    assert "99" in broken.problem
    record = found[4].record()
    assert broken.replayed(record.key, record.value) is broken  # nothing is guessed behind it


@pytest.mark.parametrize("value", [b"{}", b"[]", b"nonsense", b'{"version": 1}', b'{"version": "1"}'])
def test_what_is_no_command_is_told(value: bytes) -> None:
    with pytest.raises(CommandError):
        command_of(b"1", value)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("DROP STREAM s;", "read"),
        ("DROP STREAM big;", "write"),
        ("TERMINATE CSAS_NONE_1;", "no query"),
        (
            "CREATE OR REPLACE STREAM big (id INT KEY, v STRING, n DOUBLE, x INT) "
            "WITH (kafka_topic='BIG', value_format='json');",
            "CSAS_BIG_4",
        ),
        ("CREATE OR REPLACE STREAM s AS SELECT id, v, n FROM big;", "formats|not made by|has the column"),
        (
            "CREATE OR REPLACE TABLE counts AS SELECT v, COUNT(*) AS c, MIN(n) AS m FROM s "
            "WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY v;",
            "aggregates",
        ),
        (
            "CREATE OR REPLACE TABLE counts AS SELECT v, COUNT(*) AS c, MAX(n) AS m FROM s "
            "WINDOW TUMBLING (SIZE 2 MINUTE) GROUP BY v;",
            "windows",
        ),
    ],
)
def test_what_can_not_be_done_is_refused_before_anything_is_stored(script: str, words: str) -> None:
    state = state_of(SCRIPT)
    with pytest.raises(SqlError, match=words):
        commands(state, script)


def test_a_dropped_source_takes_its_query_with_it_and_its_number_is_not_used_again() -> None:
    state = state_of(SCRIPT)
    after = replayed(commands(state, "TERMINATE INSERTQUERY_7; DROP STREAM big; DROP STREAM joined;"), state)
    assert set(after.queries) == {"CTAS_COUNTS_5"}
    again = replayed(commands(after, "CREATE STREAM big AS SELECT id, v FROM s;"), after)
    assert set(again.queries) == {"CTAS_COUNTS_5", "CSAS_BIG_15"}


def test_the_primary_stays_and_the_lowest_url_follows_it() -> None:
    def member(url: str, primary: bool = False) -> bytes:
        return orjson.dumps({"url": url, "primary": primary})

    assert elected({"1": member("b"), "2": member("a")}) == "a"
    assert elected({"1": member("b", True), "2": member("a")}) == "b"
    assert elected({"1": member("a"), "2": member("a")}) is None
    assert elected({"1": b"?", "2": member("c")}) == "c"
    assert elected({}) is None
