"""Files of tests of SQL: what is read out of them, and what is refused. Spark is not needed for that."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from ottla.config.errors import UserError
from ottla.sql.language.errors import SqlError
from ottla.sql.script_tests.files import AssertRow, AssertSource, Do, script_tests_of, steps_of
from ottla.sql.script_tests.json_files import JsonRecord, json_problem_of, records_of
from ottla.sql.script_tests.rows import is_same
from ottla.sql.script_tests.running import problem_of

STREAM = (
    "CREATE STREAM s (id INT KEY, v STRING, d DECIMAL(5, 2)) WITH (kafka_topic='t', value_format='JSON');\n"
)


def problems(text: str) -> list[str | None]:
    return [problem_of(each) for each in script_tests_of(text)]


def test_a_file_is_cut_into_its_tests_at_their_lines() -> None:
    text = f"-- a remark\n--@test: one\n{STREAM}--@test: two\n  -- @expected.message: bad\nSHOW TABLES;\n"
    one, two = script_tests_of(text)
    assert (one.name, one.line, one.fails) == ("one", 2, False)
    assert (two.name, two.line, two.fails, two.message) == ("two", 4, True, "bad")
    assert [type(each) for each in steps_of(one)] == [Do]


def test_assertions_are_told_apart() -> None:
    text = (
        f"--@test: t\n{STREAM}ASSERT VALUES s (id) VALUES (1);\nASSERT NULL VALUES s (id) KEY (1);\n"
        "ASSERT STREAM s (id INT KEY) WITH (kafka_topic='t');\n"
    )
    steps = list(steps_of(script_tests_of(text)[0]))
    assert [type(each) for each in steps] == [Do, AssertRow, AssertRow, AssertSource]
    assert [each.deletes for each in steps if isinstance(each, AssertRow)] == [False, True]


def test_rows_that_are_inserted_are_the_rows_of_their_stream() -> None:
    given = "INSERT INTO s (id, v, rowtime) VALUES (1, 'x', 9);\n"
    right = "ASSERT VALUES s (id, v, d, rowtime) VALUES (1, 'x', NULL, 9);\n"
    wrong = "ASSERT VALUES s (id, v) VALUES (1, 'y');\n"
    found = problems(
        f"--@test: a\n{STREAM}{given}{right}--@test: b\n{STREAM}{given}{wrong}"
        f"--@test: c\n{STREAM}{given}{right}{right}"
    )
    assert found[0] is None
    assert (
        found[1] is not None and "expected: ID=1, V='y'" in found[1] and "found:    ID=1, V='x'" in found[1]
    )
    assert found[2] is not None and "S has no further row" in found[2]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ASSERT STREAM s (id INT KEY, v STRING, d DECIMAL(5, 2)) WITH (kafka_topic='t');", None),
        ("ASSERT STREAM s (id BIGINT KEY, v STRING, d DECIMAL(5, 2));", "the columns of S are others"),
        ("ASSERT STREAM s WITH (kafka_topic='x');", "KAFKA_TOPIC of S is another one"),
        ("ASSERT TABLE s WITH (kafka_topic='t');", "S is a stream"),
        ("ASSERT STREAM nobody WITH (kafka_topic='t');", "there is no stream NOBODY"),
    ],
)
def test_a_source_is_what_the_assertion_says(statement: str, said: str | None) -> None:
    (found,) = problems(f"--@test: t\n{STREAM}{statement}\n")
    assert found is None if said is None else said in (found or "")


def test_an_error_that_must_come_is_one_and_its_place_is_that_in_the_file() -> None:
    bad = "CREATE STREAM x AS SELECT nothing FROM s;\n"
    found = problems(
        f"--@test: a\n--@expected.error: any\n{STREAM}{bad}--@test: b\n--@expected.error: any\n{STREAM}"
        f"--@test: c\n--@expected.message: other\n{STREAM}{bad}--@test: d\n{STREAM}{bad}"
    )
    assert found[0] is None
    assert found[1] == "no statement has failed, and one must"
    assert found[2] is not None and found[2].startswith("the error is another one")
    assert found[3] is not None and found[3].startswith("line 14, column 27: ")


@pytest.mark.parametrize("text", [STREAM, "--@test: x\n--@nothing: 1\n", "--@test: x\nSELECT 'open"])
def test_what_is_no_file_of_tests_is_refused(text: str) -> None:
    with pytest.raises(SqlError):
        list(steps_of(script_tests_of(text)[0]))


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"[]", b"{", b'{"inputs": 1}', b'{"inputs": [1]}', b'{"inputs": [{"topic": 1}]}'),
        b'{"inputs": [{"topic": "t", "timestamp": -1}]}',
        b'{"inputs": [{"topic": "t", "timestamp": true}]}',
        b'{"inputs": [{"topic": "t", "window": {"end": 5}}]}',
    ],
)
def test_what_is_no_file_of_records_is_refused(text: bytes) -> None:
    with pytest.raises(UserError):
        records_of(text, "inputs")


def test_records_of_random_values_are_compared_in_their_order() -> None:
    dice = random.Random()
    rows = [(dice.randrange(-9, 9), dice.choice(["", "a", "ä,'\""]), dice.randrange(999)) for _ in range(20)]
    given = [
        JsonRecord("t", key, {"V": text, "d": Decimal(number) / 100}, at, None)
        for at, (key, text, number) in enumerate(rows)
    ]
    assert json_problem_of(STREAM, given, given) is None
    at = dice.randrange(20)
    other = [*given[:at], JsonRecord("t", given[at].key, {"V": "other"}, at, None), *given[at + 1 :]]
    assert f"output {at + 1}: the row of S is another one" in (json_problem_of(STREAM, given, other) or "")
    assert "has more than 19 records" in (json_problem_of(STREAM, given, given[:-1]) or "")
    assert "S has no further row" in (json_problem_of(STREAM, given[:-1], given) or "")


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (JsonRecord("nothing", 1, {}, 0, None), "there is no stream or table over the topic nothing"),
        (JsonRecord("t", "x", {}, 0, None), "'x' is no INTEGER"),
        (JsonRecord("t", 1, {"W": 1}, 0, None), "there is no column W"),
        (JsonRecord("t", 1, None, 0, None), "a row of no stream"),
        (JsonRecord("t", 1, "text", 0, None), "is no object of the columns"),
    ],
)
def test_records_that_do_not_fit_are_told(record: JsonRecord, said: str) -> None:
    assert said in (json_problem_of(STREAM, [record], []) or "")


def test_floating_point_numbers_are_the_same_but_for_their_last_digits() -> None:
    assert is_same(0.1 + 0.2, 0.3) and is_same([{"A": float("nan")}], [{"A": float("nan")}])
    assert is_same(Decimal("1.50"), Decimal("1.5")) and is_same(None, None)
    assert not is_same(1, True) and not is_same(0.3, 0.3001) and not is_same([1], [1, 1])
