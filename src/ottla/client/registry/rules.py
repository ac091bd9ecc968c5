"""The rules of a schema that writers and readers of records must carry out, and those that they can't.

A rule that a writer leaves out would be broken without a word: a field that must be encrypted would be
written in the clear. So records are not written with a schema that has such a rule. Readers refuse where a
rule encrypts: they would give ciphertext for values.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from typing import Final

from ottla.schemas.model import Rule, RuleSet

ENCRYPT: Final = "ENCRYPT"
ENCRYPT_PAYLOAD: Final = "ENCRYPT_PAYLOAD"
ENCRYPTING: Final = frozenset((ENCRYPT, ENCRYPT_PAYLOAD))
_AT_CLIENTS: Final = ("", "ALL", "CLIENT")
"""Values of `enableAt` with which clients carry the rules out; with others a gateway does."""


class RuleMode(enum.StrEnum):
    """When a rule is carried out."""

    WRITE = "WRITE"
    READ = "READ"


def active_rules(rules: RuleSet | None, mode: RuleMode) -> Sequence[Rule]:
    """The rules that hold for a record that is written or read, in the order of writing."""
    if rules is None or (rules.enable_at or "").upper() not in _AT_CLIENTS:
        return ()
    every = (*(rules.domain_rules or ()), *(rules.encoding_rules or ()))
    return [rule for rule in every if not rule.disabled and rule.mode in (mode, "WRITEREAD")]


def write_obstacle(rules: RuleSet | None, known: Collection[str] = ()) -> str | None:
    """Why no record can be written by a program that carries out rules of the `known` types alone."""
    for rule in active_rules(rules, RuleMode.WRITE):
        if (rule.type or "").upper() not in known:
            return f"its rule {rule.name} ({rule.type}) can't be carried out here, so nothing is written"
    return None


def read_obstacle(rules: RuleSet | None, known: Collection[str] = ()) -> str | None:
    """Why a record can't be read without the keys of its encrypted fields."""
    for rule in active_rules(rules, RuleMode.READ):
        kind = (rule.type or "").upper()
        if kind in ENCRYPTING and kind not in known:
            return f"its rule {rule.name} ({rule.type}) encrypts values, and they can't be decrypted here"
    return None
