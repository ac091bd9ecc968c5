"""The names of tests are the same in each process that collects them: pytest-xdist refuses others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DRAWS = {"randrange", "randint", "getrandbits", "choice", "sample", "uuid1", "uuid4", "token_hex", "urandom"}
"""Functions that give each process another value."""


def named_by_dice(source: str) -> list[int]:
    """The lines of `parametrize` calls whose values are drawn and that give no `ids`."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr != "parametrize" or any(keyword.arg == "ids" for keyword in call.keywords):
            continue
        inner = [each for value in call.args[1:] for each in ast.walk(value)]
        if any(isinstance(each, ast.Attribute) and each.attr in DRAWS for each in inner):
            found.append(call.lineno)
    return found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('@pytest.mark.parametrize("seed", [random.randrange(9)])\ndef test(): ...', [1]),
        ('@pytest.mark.parametrize("seed", [random.randrange(9)], ids=["one"])\ndef test(): ...', []),
        ('@pytest.mark.parametrize("seed", [1, 2])\ndef test(): ...', []),
    ],
    ids=["drawn", "named", "fixed"],
)
def test_drawn_values_without_names_are_found(source: str, found: list[int]) -> None:
    assert named_by_dice(source) == found


def test_no_test_is_named_by_a_drawn_value() -> None:
    drawn = {
        f"{path.relative_to(TESTS)}:{line}"
        for path in TESTS.rglob("*.py")
        if "parametrize" in (source := path.read_text())
        for line in named_by_dice(source)
    }
    assert drawn == set()
