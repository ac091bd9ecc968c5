"""Rules of access: their texts, and decisions beside a plain walk over all rules."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.web.access_rules import (
    KEPT_CALLERS,
    AccessRules,
    Action,
    Rule,
    UnusableRules,
    parse_rules,
    read_rules,
)

NAMES = ["a", "ab", "abc", "b", "orders", "orders-eu", ":.ctx:a", ":.ctx:", "A"]


def test_rules_are_read() -> None:
    texts = ["", "# none", " User:CN=a b,O=c  READ  orders-* ", "Role:dev write x", "* admin *"]
    assert parse_rules(texts, "here") == [
        Rule("User:CN=a b,O=c", Action.READ, "orders-", True),
        Rule("Role:dev", Action.WRITE, "x", False),
        Rule("*", Action.ADMIN, "", True),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("User:a read", "is not WHO ACTION NAMES"),
        ("alice read *", "'alice' is not User:NAME, Role:NAME or"),
        ("User:a destroy *", "'destroy' is not read, write or admin"),
        ("User:a read a*b", "has a . that is not its end"),
        ("User:a read **", "has a . that is not its end"),
    ],
)
def test_a_rule_that_can_t_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(UnusableRules, match=f"here: .*{told}"):
        parse_rules(["* read x", text], "here")


def test_a_file_of_rules_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text("* read a\n\n# x\nUser:b write c*\n")
    assert len(read_rules(path)) == 2
    path.write_bytes(b"\xff")
    with pytest.raises(UnusableRules, match="UTF-8"):
        read_rules(path)
    with pytest.raises(UnusableRules, match="can't read"):
        read_rules(tmp_path / "none")


def test_decisions_are_those_of_a_walk_over_all_rules() -> None:
    draw = random.Random(2026)
    whos = ["User:alice", "User:bob", "Role:dev", "Role:ops", "*"]
    for _ in range(2_000):
        rules = [
            Rule(draw.choice(whos), draw.choice(list(Action)), draw.choice(["", *NAMES]), draw.random() < 0.5)
            for _ in range(draw.randrange(6))
        ]
        made = AccessRules(rules)
        for _ in range(5):
            principal = draw.choice(["User:alice", "User:bob", "User:carol"])
            roles = frozenset(draw.sample(["dev", "ops", "other"], draw.randrange(3)))
            grants = made.grants(principal, roles)
            mine = [
                rule
                for rule in rules
                if rule.who in (principal, "*") or rule.who.removeprefix("Role:") in roles
            ]
            for action in Action:
                enough = [rule for rule in mine if rule.action >= action]
                for name in NAMES:
                    expected = any(
                        name.startswith(rule.names) if rule.is_prefix else name == rule.names
                        for rule in enough
                    )
                    assert grants.allow(action, name) == expected
                    assert grants.allow_prefix(action, name) == any(
                        rule.is_prefix and name.startswith(rule.names) for rule in enough
                    )
                assert grants.allow_all(action) == any(r.is_prefix and not r.names for r in enough)
                assert grants.allow_some(action) == bool(enough)


def test_callers_without_end_are_not_all_kept() -> None:
    rules = AccessRules(parse_rules(["* read a"], ""))
    for number in range(3 * KEPT_CALLERS):
        assert rules.grants(f"User:{number}", frozenset()).allow(Action.READ, "a")
    assert len(rules._kept) == KEPT_CALLERS
