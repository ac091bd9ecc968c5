"""Expressions over topic names: RE2's syntax, whole matches, in time linear in the name."""

from __future__ import annotations

import pytest

from ottla.core.coordination.regex import MAX_NODES_KEPT, InvalidRegex, Regex


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders", ["orders"], ["orders2", "my-orders", ""]),
        ("orders-.*", ["orders-", "orders-eu.1"], ["orders"]),
        ("^orders|carts$", ["orders", "carts"], ["orders-carts"]),
        ("(eu|us)-[a-c]{2,3}", ["eu-ab", "us-abc"], ["eu-a", "eu-abca"]),
        (r"t\d+(\.dlq)?", ["t1", "t12.dlq"], ["t", "tdlq", "t1xdlq"]),
        ("[^._]+", ["orders"], ["a.b", "a_b"]),
        ("[[:alpha:]]+[[:^digit:]]", ["abc-"], ["ab1"]),
        ("(?i)Orders(?-i)X", ["ordersX", "ORDERSX"], ["ordersx"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        (r"\pL+\p{Nd}", ["abc1"], ["1"]),
        (r"a\b-\Bx?", [], ["a-x", "ax"]),
        (r"(?P<name>a)(?:b)*?", ["a", "abb"], ["b"]),
        ("", [""], ["a"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
    ],
)
def test_names_are_matched_as_a_whole(pattern: str, matching: list[str], other: list[str]) -> None:
    regex = Regex(pattern)
    assert [name for name in matching if not regex.matches(name)] == []
    assert [name for name in other if regex.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "[",
        "(",
        ")",
        "*",
        "a**",
        r"\1",
        "(?=a)",
        "(?<!a)b",
        "a{1001}",
        "a{2,1}",
        r"\pX",
        "[b-a]",
        "\\",
        "(?x)a",
    ],
)
def test_invalid_expressions_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegex):
        Regex(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*b", "(a?){200}a{200}b"])
def test_expressions_that_are_exponential_elsewhere_are_matched_at_once(pattern: str) -> None:
    assert not Regex(pattern).matches("a" * 249)


@pytest.mark.parametrize(
    "pattern", ["((a{1000}){1000}){1000}", "(((){1000}){1000}){1000}", "(" * 5_000, "a" * 5_000]
)
def test_too_large_expressions_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegex):
        Regex(pattern)


def test_kept_states_of_earlier_matches_are_bounded() -> None:
    # given an expression that may be in hundreds of its nodes at once, and names that share no beginning
    regex = Regex("(.?){1000}")
    names = [chr(ord("a") + number % 26) * 3 + str(number) * 60 for number in range(10)]

    # when
    assert all(regex.matches(name) for name in names)

    # then
    assert regex.visited_nodes > 2 * MAX_NODES_KEPT
    assert sum(len(state.nodes) for state in regex._states.values()) <= MAX_NODES_KEPT


def test_visited_nodes_are_counted_on_unknown_steps_only() -> None:
    # given
    plain, costly = Regex("orders-.*"), Regex("(.?){1000}")

    # when
    for _ in range(3):
        plain.matches("orders-europe")
        costly.matches("orders-europe")

    # then
    assert plain.visited_nodes <= 20
    assert costly.visited_nodes > 10 * 900
