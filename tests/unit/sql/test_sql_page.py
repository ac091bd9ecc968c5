"""docs/sql.md: its table of functions is up to date and has all of ksqlDB's; what it shows is what comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.parser import parse_script, parse_statement
from ottla.sql.lowering.evaluator import row_function
from ottla.sql.plan.statement_plan import WriteRow, applied
from support.docs.blocks import fenced, indented, introduction, section

REPOSITORY = Path(__file__).parents[3]


def test_the_page_has_every_function_of_ksqldb_as_it_is() -> None:
    command = [sys.executable, str(REPOSITORY / "tools" / "generate_sql.py"), "--check"]

    assert subprocess.run(command, check=False).returncode == 0


def catalog_of(script: str) -> Catalog:
    found = Catalog()
    for parsed in parse_script(script):
        found = applied(Binder(found).bind(parsed.statement), found)
    return found


def test_an_error_is_shown_as_the_page_shows_it() -> None:
    (shown,) = indented(section("sql.md", "Errors"))
    statement = shown.splitlines()[1].strip()
    (script,) = fenced(introduction("sql-server.md"), "sql")
    catalog = catalog_of(script.partition(";")[0] + ";")
    with pytest.raises(SqlError) as refused:
        Binder(catalog).bind(parse_statement(statement))
    assert refused.value.shown(statement) == shown


STREAM = "CREATE STREAM s (x DOUBLE, y DOUBLE, t STRING) WITH (kafka_topic='s', value_format='json');"


def functions_of(code: str) -> Functions:
    names: dict[str, Any] = {}
    exec(code, names)
    functions = names["functions"]
    assert isinstance(functions, Functions)
    return functions


def inserted(functions: Functions, x: str, y: str) -> dict[str, Any]:
    """The row of two expressions."""
    statement = parse_statement(f"INSERT INTO s (x, y) VALUES ({x}, {y});")
    plan = Binder(catalog_of(STREAM), functions).bind(statement)
    assert isinstance(plan, WriteRow)
    return {
        name: row_function(each, lambda _: lambda row: None, functions)(None) for name, each in plan.values
    }


def test_functions_of_ones_own_are_called_as_the_page_makes_them() -> None:
    row_wise, batched = fenced(section("sql.md", "Functions of your own"), "python")
    assert inserted(functions_of(batched), "HALF(3)", "HALF(NULL)") == {"X": 1.5, "Y": None}
    functions = functions_of(row_wise)
    assert inserted(functions, "HALF(3)", "HALF(5e0)") == {"X": 1.5, "Y": 2.5}

    def plan_of(text: str) -> Any:
        return Binder(catalog_of(STREAM), functions).bind(parse_statement(text))

    made = plan_of("CREATE TABLE p AS SELECT t, PRODUCT(x) AS p FROM s GROUP BY t;").target
    assert "P DOUBLE" in str(made.schema)
    made = plan_of("CREATE STREAM l AS SELECT LETTERS(t) AS letter FROM s;").target
    assert "LETTER STRING" in str(made.schema)
