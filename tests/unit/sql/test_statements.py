"""What statements are parsed as, and every error with its position, its caret and its advice.

`python tests/unit/sql/test_statements.py` writes the answers of errors.txt anew: read the difference.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.language.errors import SqlError
from ottla.sql.language.parser import parse_script, parse_statement
from ottla.sql.language.statements import Define, SetProperty
from ottla.sql.plan.statement_plan import applied

HERE = Path(__file__).parent
ERRORS = HERE / "errors.txt"
SETUP = """
CREATE STREAM pageviews (id INT KEY, page STRING, ms BIGINT, price DOUBLE, info STRUCT<tags ARRAY<STRING>>)
    WITH (kafka_topic='pageviews', value_format='json');
CREATE TABLE users (uid INT PRIMARY KEY, name STRING) WITH (kafka_topic='users', value_format='json');
"""


def sections(path: Path, mark: str) -> Iterator[tuple[str, str]]:
    """The title and the text of each section."""
    for each in path.read_text().split(f"\n{mark} ")[1:]:
        title, _, body = each.partition("\n")
        yield title, body.strip("\n")


@functools.cache
def catalog() -> Catalog:
    """What the statements of errors.txt know of."""
    found = Catalog()
    for parsed in parse_script(SETUP):
        found = applied(Binder(found).bind(parsed.statement), found)
    return found


def error_of(text: str) -> str:
    """The error of a statement as a person sees it."""
    try:
        for parsed in parse_script(text):
            Binder(catalog()).bind(parsed.statement)
    except SqlError as error:
        return error.shown(text)
    return "no error"


STATEMENTS = list(sections(HERE / "statements.txt", "=="))


@pytest.mark.parametrize(("kind", "text"), STATEMENTS, ids=[text[:60] for _, text in STATEMENTS])
def test_statement_is_parsed_with_the_position_of_its_first_word(kind: str, text: str) -> None:
    found = parse_statement("\n  " + text, {"topic": "x"})

    assert type(found).__name__ == kind
    assert (found.at.line, found.at.column) == (2, 3)


CASES = [each.split("\n--\n") for each in ERRORS.read_text().split("\n====\n") if each]


@pytest.mark.parametrize(("text", "shown"), CASES, ids=[text[:70] for text, _ in CASES])
def test_error_says_where_and_what_to_do(text: str, shown: str) -> None:
    assert error_of(text) == shown
    assert shown != "no error" and "line " in shown and "^" in shown


def test_variables_change_what_follows() -> None:
    script = "DEFINE t = 'a'; SET 'x' = '${t}-x'; DEFINE t = 'b'; SET 'x' = '${T}'; SET 'x' = '${u}';"
    found = list(parse_script(script, {"u": "'q"}))

    values = [each.statement.value for each in found if isinstance(each.statement, SetProperty)]
    assert values == ["a-x", "b", "'q"]
    assert isinstance(found[0].statement, Define)


def test_a_variable_brings_no_syntax_of_its_own() -> None:
    with pytest.raises(SqlError, match="not one name, text or number"):
        parse_statement("DROP STREAM ${x}", {"x": "s DELETE TOPIC"})


def test_limits_hold_before_the_stack_does() -> None:
    deep = "SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM s;"
    long = "SELECT " + "1 + " * 5000 + "1 FROM s;"
    types = "CREATE STREAM s (a " + "ARRAY<" * 5000 + "INT" + ">" * 5000 + ") WITH (kafka_topic='t');"
    lambdas = "SELECT TRANSFORM(a, " + "x => " * 5000 + "x) FROM s;"
    nots = "SELECT " + "NOT " * 5000 + "a FROM s;"
    signs = "SELECT " + "- " * 5000 + "a FROM s;"

    for text in (deep, long, types, lambdas, nots, signs):
        with pytest.raises(SqlError, match="nested more than 100 deep"):
            parse_statement(text)
    with pytest.raises(SqlError, match="characters"):
        parse_statement("SELECT '" + "x" * 1_000_001 + "' FROM s;")
    # AND and OR are no nesting
    parse_statement("SELECT a FROM s WHERE " + " OR ".join(f"a = {each}" for each in range(2000)) + ";")


def main() -> None:
    texts = [each.split("\n--\n")[0] for each in ERRORS.read_text().split("\n====\n") if each]
    ERRORS.write_text("\n====\n".join(f"{text}\n--\n{error_of(text)}" for text in texts))


if __name__ == "__main__":
    main()
