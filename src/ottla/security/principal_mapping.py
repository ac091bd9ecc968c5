"""The name of a client's principal, from its certificate.

Names of certificates become those of principals as Apache Kafka's DefaultKafkaPrincipalBuilder makes them:
the first of `ssl.principal.mapping.rules` that matches the whole subject gives the name (KIP-371). A rule is
`DEFAULT`, the subject as it is, or `RULE:pattern/replacement/` with an L or U behind it for lower or upper
case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

DEFAULT_RULES: Final = "DEFAULT"
SPIFFE_SCHEME: Final = "spiffe://"
#: SPIFFE-ID, section 2.4: longer ids need not be supported.
MAX_SPIFFE_ID_BYTES: Final = 2048

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"[ \t\n\x0b\f\r]*({_RULE})[ \t\n\x0b\f\r]*(,[ \t\n\x0b\f\r]*|$)")
_PARSER: Final = re.compile(_RULE)
_SPIFFE_ID: Final = re.compile(r"spiffe://[a-z0-9._-]+(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)*")


class InvalidPrincipal(ValueError):
    """The text is no principal, or a certificate's name gives none."""


class InvalidMappingRules(ValueError):
    """A rule of `ssl.principal.mapping.rules` can't be used. The text names the rule."""


class _Rule:
    """One rule: a pattern for the whole name, its replacement in parts, and the case of the result."""

    __slots__ = ("_case", "_pattern", "_replacement")

    def __init__(self, pattern: str, replacement: str, case: str) -> None:
        try:
            self._pattern = re.compile(_python_pattern(pattern), re.ASCII)
        except (re.error, OverflowError) as error:
            raise InvalidMappingRules(f"the pattern {pattern!r} can't be read: {error}") from error
        self._replacement = _replacement_parts(replacement, self._pattern)
        self._case = case

    def apply(self, name: str) -> str | None:
        """The name that the rule makes, or None where its pattern does not match all of `name`."""
        if self._pattern.fullmatch(name) is None:
            return None
        result = self._replace_all(name)
        match self._case:
            case "L":
                return result.lower()
            case "U":
                return result.upper()
            case _:
                return result

    def _replace_all(self, name: str) -> str:
        """Java's replaceAll: unlike Python's, it goes on one character behind an empty match."""
        parts: list[str] = []
        copied = position = 0
        while position <= len(name):
            match = self._pattern.search(name, position)
            if match is None:
                break
            parts.append(name[copied : match.start()])
            parts += (part if isinstance(part, str) else match[part] or "" for part in self._replacement)
            copied = match.end()
            position = copied + (match.start() == match.end())
        return "".join((*parts, name[copied:]))


class PrincipalMapper:
    """The rules of `ssl.principal.mapping.rules`, in their order."""

    __slots__ = ("_rules", "_text")

    def __init__(self, rules: str = DEFAULT_RULES) -> None:
        """Raises InvalidMappingRules."""
        self._text = rules
        self._rules: list[_Rule | None] = []
        for found in _SPLITTER.finditer(rules.strip()):
            self._add(found.group(1))

    def _add(self, rule: str) -> None:
        parsed = _PARSER.match(rule)
        if parsed is None or parsed.end() != len(rule):
            rest = "" if parsed is None else rule[parsed.end() :]
            raise InvalidMappingRules(f"Invalid rule: `{rule}`, unmatched substring: `{rest}`")
        default, pattern, replacement, case, _ = parsed.groups()
        if default is not None:
            self._rules.append(None)
        elif pattern is not None:
            self._rules.append(_Rule(pattern, replacement, case))

    def name_of(self, distinguished_name: str) -> str:
        """The short name of a certificate's subject. Raises InvalidPrincipal where no rule matches it."""
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise InvalidPrincipal(f"No rules apply to {distinguished_name}, rules {self._text}")


def spiffe_id(uris: Sequence[str]) -> str | None:
    """The SPIFFE id among the URIs of a certificate's alternative names, None where there is none.

    Raises InvalidPrincipal where there are several or it is malformed: a certificate has exactly one URI then
    (X509-SVID, section 2).
    """
    ids = [uri for uri in uris if uri.lower().startswith(SPIFFE_SCHEME)]
    if not ids:
        return None
    if len(uris) > 1:
        raise InvalidPrincipal("a certificate with a SPIFFE id has no other URI among its alternative names")
    if len(ids[0]) > MAX_SPIFFE_ID_BYTES or _SPIFFE_ID.fullmatch(ids[0]) is None:
        raise InvalidPrincipal(f"{ids[0][:MAX_SPIFFE_ID_BYTES]!r} is not a SPIFFE id")
    return ids[0]


def certificate_name(
    subject: str, uris: Sequence[str], mapper: PrincipalMapper, *, use_spiffe_id: bool
) -> str:
    """The name of a client with a certificate, for its principal. Raises InvalidPrincipal.

    subject: as `distinguished_names.rfc2253_name` writes it. uris: those among its alternative names.
    """
    identity = spiffe_id(uris) if use_spiffe_id else None
    return mapper.name_of(subject) if identity is None else identity


# -- Java's regular expressions and replacements ----------------------------------------------------------


def _python_pattern(pattern: str) -> str:
    """Java's pattern in the words of Python's. Raises InvalidMappingRules for parts that Python lacks."""
    if re.search(r"(?<!\\)(?:\\\\)*\\[pPhHRXQGk]", pattern) or "&&" in pattern:
        raise InvalidMappingRules(
            f"the pattern {pattern!r} uses a part of Java's regular expressions that is not supported"
        )
    named = re.sub(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", r"(?P<\1>", pattern)
    return re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", named)


def _replacement_parts(replacement: str, pattern: re.Pattern[str]) -> list[str | int]:
    """Java's replacement as literal texts and group numbers. Raises InvalidMappingRules.

    `$12` is group 12 if there are so many, else group 1 and a 2. As in Apache Kafka, the number of a group
    that the pattern does not have stays as it is written.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(replacement):
        character = replacement[position]
        position += 1
        if character == "\\":
            if position == len(replacement):
                raise InvalidMappingRules(f"the replacement {replacement!r} ends with a backslash")
            parts.append(replacement[position])
            position += 1
        elif character == "$":
            part, position = _group_reference(replacement, position, pattern)
            parts.append(part)
        else:
            parts.append(character)
    return parts


def _group_reference(text: str, position: int, pattern: re.Pattern[str]) -> tuple[str | int, int]:
    """The group named behind a `$`, or the literal `$`, and where the text goes on."""
    named = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, position)
    if named is not None and named.group(1) in pattern.groupindex:
        return pattern.groupindex[named.group(1)], named.end()
    digits = re.compile(r"[0-9]+").match(text, position)
    if named is not None or digits is None:
        raise InvalidMappingRules(f"the replacement {text!r} has no group behind a $")
    number = int(digits.group()[0])
    end = position + 1
    if number > pattern.groups:
        if pattern.groups == 0:
            raise InvalidMappingRules(f"the replacement {text!r} names a group, and the pattern has none")
        return "$", position
    while end < digits.end() and number * 10 + int(text[end]) <= pattern.groups:
        number = number * 10 + int(text[end])
        end += 1
    return number, end
