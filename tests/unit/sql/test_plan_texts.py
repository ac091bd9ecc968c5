"""Statements and their plans: the steps, what runs in Spark and what in Python, what rows that go out mean.

`python tests/unit/sql/test_plan_texts.py` writes the plans of plans.txt anew: read the difference.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.language.parser import parse_script, parse_statement
from ottla.sql.lowering.explain import explained
from ottla.sql.plan.statement_plan import PutQuery, RunQuery, applied
from ottla.sql.plan.stored import restored, stored

PLANS = Path(__file__).parent / "plans.txt"
SETUP = """
CREATE STREAM s (id INT KEY, v INT, t STRING, d DOUBLE, p DECIMAL(6, 2), a ARRAY<INT>, r STRUCT<x INT>)
    WITH (kafka_topic='s', value_format='json');
CREATE STREAM o (oid INT KEY, w INT) WITH (kafka_topic='o', value_format='json');
CREATE TABLE u (uid INT PRIMARY KEY, name STRING, city STRING) WITH (kafka_topic='u', value_format='json');
CREATE TABLE c (city STRING PRIMARY KEY, title STRING) WITH (kafka_topic='c', value_format='json');
CREATE TABLE w (uid INT PRIMARY KEY, rank INT) WITH (kafka_topic='w', value_format='json');
"""


@functools.cache
def catalog() -> Catalog:
    found = Catalog()
    for parsed in parse_script(SETUP):
        found = applied(Binder(found).bind(parsed.statement), found)
    return found


def plan_text(text: str) -> str:
    """The plan as EXPLAIN tells it, before it goes through JSON and behind."""
    plan = Binder(catalog()).bind(parse_statement(text))
    assert isinstance(plan, PutQuery | RunQuery)
    again = restored(json.loads(json.dumps(stored(plan, text))))
    assert again == plan
    target = f"{plan.target.kind.value} ({plan.target.schema})\n" if isinstance(plan, PutQuery) else ""
    return target + explained(plan.query)


CASES = [each.split("\n--\n") for each in PLANS.read_text().split("\n====\n")]


@pytest.mark.parametrize(("text", "plan"), CASES, ids=[text[:90] for text, _ in CASES])
def test_statement_has_its_plan(text: str, plan: str) -> None:
    assert plan_text(text) == plan


def main() -> None:
    PLANS.write_text("\n====\n".join(f"{text}\n--\n{plan_text(text)}" for text, _ in CASES))


if __name__ == "__main__":
    main()
