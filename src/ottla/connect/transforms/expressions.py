"""The check of settings that are regular expressions."""

from __future__ import annotations

from typing import Final

from ottla.config.validators import Rule
from ottla.connect.data.java_regex import BadPattern, JavaRegex


def _problem(text: str) -> str | None:
    try:
        JavaRegex(text)
    except BadPattern as problem:
        return f"Invalid regex: {problem}"
    return None


valid_regex: Final = Rule("a regular expression of Java", _problem)
