"""Checks the shape of rule sets, and completes rules that encrypt; clients alone carry the rules out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.registry.core.failures import invalid_rules
from ottla.schemas.model import Rule, RuleSet

MAX_RULES: Final = 1_000
_KINDS: Final = ("TRANSFORM", "CONDITION")
_MIGRATION_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_DATA_MODES: Final = ("WRITE", "READ", "WRITEREAD")
_KEK_NAME: Final = "encrypt.kek.name"
_KMS_KEY_ID: Final = "encrypt.kms.key.id"
_KMS_TYPE: Final = "encrypt.kms.type"
_ARN: Final = "arn:"


def check_rules(rules: RuleSet | None) -> None:
    """Every rule has a name of its own, and a known kind and mode that fit its list. 42210."""
    if rules is None:
        return
    _check_list("migrationRules", rules.migration_rules or (), _MIGRATION_MODES)
    _check_list("domainRules", rules.domain_rules or (), _DATA_MODES)
    _check_list("encodingRules", rules.encoding_rules or (), _DATA_MODES)


def with_key_names(rules: RuleSet | None) -> RuleSet | None:
    """Domain rules that name a key of a key service alone get a name for it, as Confluent's registry does."""
    if rules is None or rules.domain_rules is None:
        return rules
    return replace(rules, domain_rules=tuple(_with_key_name(rule) for rule in rules.domain_rules))


def _with_key_name(rule: Rule) -> Rule:
    params = rule.params or {}
    key_id = params.get(_KMS_KEY_ID)
    if key_id is None:
        return rule
    name = "".join(one if one.isalnum() or one in "_-" else "-" for one in key_id.removeprefix(_ARN))
    added = {_KEK_NAME: name} | ({_KMS_TYPE: "aws-kms"} if key_id.startswith(_ARN) else {})
    return replace(rule, params={**added, **params})


def _check_list(where: str, rules: tuple[Rule, ...], modes: tuple[str, ...]) -> None:
    if len(rules) > MAX_RULES:
        raise invalid_rules(f"{where} has more than {MAX_RULES} rules")
    seen: set[str] = set()
    for rule in rules:
        if not rule.name.strip():
            raise invalid_rules(f"{where}: a rule has an empty name")
        if rule.name in seen:
            raise invalid_rules(f"{where}: two rules are called {rule.name}")
        seen.add(rule.name)
        if rule.kind not in _KINDS:
            raise invalid_rules(f"{where}: the kind of {rule.name} must be one of {', '.join(_KINDS)}")
        if rule.mode not in modes:
            raise invalid_rules(f"{where}: the mode of {rule.name} must be one of {', '.join(modes)}")
        if not rule.type or not rule.type.strip():
            raise invalid_rules(f"{where}: {rule.name} has no type")
