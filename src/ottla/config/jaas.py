"""Logins as Java's JAAS writes them: `sasl.jaas.config`, a module's class, a flag, options, a semicolon.

org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"(?:\s|//[^\n]*|/\*.*?\*/)*"
    r"(?:\"(?P<quoted>(?:[^\"\\\n]|\\.)*)\"|(?P<mark>[=;])|(?P<word>[^\s\"=;]+)|$)",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JaasError(ValueError):
    """The text is no JAAS configuration. The message repeats no word of it: any may be part of a password."""


class Login(NamedTuple):
    """A login module and its options. Printed, the options are hidden."""

    module: str
    flag: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Login({self.module} {self.flag} [hidden])"


def parse_logins(text: str) -> list[Login]:
    """The logins of a configuration, at least one. Raises JaasError."""
    tokens = _tokens(text)
    logins = []
    while tokens:
        logins.append(_login(tokens))
    if not logins:
        raise JaasError("it has no login module")
    return logins


def _login(tokens: list[tuple[str, str]]) -> Login:
    module = _take(tokens, "word", "the class of a login module")
    flag = _take(tokens, "word", "a flag").lower()
    if flag not in FLAGS:
        raise JaasError(f"the flag behind the login module is not one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    while tokens and tokens[0] != ("mark", ";"):
        name = _take(tokens, "word", f"option {len(options) + 1} of the login module")
        _expect(tokens, "=", f"'=' behind the name of option {len(options) + 1}")
        kind, value = tokens.pop(0) if tokens else ("", "")
        if kind not in ("word", "quoted"):
            raise JaasError(f"option {len(options) + 1} of the login module has no value")
        options[name] = value
    _expect(tokens, ";", "';' behind the login module and its options")
    return Login(module, flag, options)


def _take(tokens: list[tuple[str, str]], kind: str, meant: str) -> str:
    if not tokens or tokens[0][0] != kind:
        raise JaasError(f"it lacks {meant}")
    return tokens.pop(0)[1]


def _expect(tokens: list[tuple[str, str]], mark: str, meant: str) -> None:
    if not tokens or tokens[0] != ("mark", mark):
        raise JaasError(f"it lacks {meant}")
    tokens.pop(0)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("a quotation mark is not closed")
        position = match.end()
        kind = match.lastgroup
        if kind is not None:
            found.append((kind, _unescaped(match["quoted"]) if kind == "quoted" else match[kind]))
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda escape: _CONTROL.get(escape[1], escape[1]), text)
