"""Names of subjects with their contexts: `:.context:subject`, or just `subject` in the default context.

A context's own configuration and mode belong to the name with an empty subject, `:.context:`; those of the
default context to None, which is what /config and /mode speak of. `:.__GLOBAL:` holds for all contexts.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_CONTEXT: Final = "."
GLOBAL_SCOPE: Final = ":.__GLOBAL:"
ALL_CONTEXTS: Final = ":*:"
MAX_NAME_LENGTH: Final = 2_048
"""Characters of a subject's name; more is no name but an accident."""

_CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")


def split_subject(subject: str) -> tuple[str, str]:
    """The context and the name in it: `:.a:b` is (`.a`, `b`), `:.a` and `:.a:` are (`.a`, ``)."""
    if not subject.startswith(":."):
        return DEFAULT_CONTEXT, subject
    context, _, name = subject[1:].partition(":")
    return context, name


def context_of(subject: str) -> str:
    """The context that a subject is in."""
    return split_subject(subject)[0]


def in_context(context: str, name: str) -> str:
    """The qualified name of a subject of `context`."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def normal_subject(subject: str) -> str:
    """The one way to write it: `:.:a` is `a`, `:.c` is `:.c:`."""
    if not subject.startswith(":."):
        return subject
    return in_context(*split_subject(subject))


def relative_to(referrer: str, subject: str) -> str:
    """The subject that a schema of `referrer` means: in its own context, unless it says another."""
    if subject.startswith(":."):
        return normal_subject(subject)
    return in_context(context_of(referrer), subject)


def scope_of(subject: str | None) -> str | None:
    """Whose configuration or mode it is: None for that of the default context."""
    if subject is None:
        return None
    return normal_subject(subject) or None


def scopes_of(subject: str | None) -> tuple[str | None, ...]:
    """Where a subject's configuration and mode are looked for: its own, its context's, all contexts'."""
    scope = scope_of(subject)
    if scope is None:
        return None, GLOBAL_SCOPE
    if scope == GLOBAL_SCOPE:
        return (GLOBAL_SCOPE,)
    context, name = split_subject(scope)
    of_context = scope_of(in_context(context, ""))
    return (scope, of_context, GLOBAL_SCOPE) if name else (of_context, GLOBAL_SCOPE)


def is_subject(name: str) -> bool:
    """Whether a schema can be registered under it: no control characters, none of the reserved names."""
    if len(name) > MAX_NAME_LENGTH or _CONTROL.search(name):
        return False
    context, subject = split_subject(name)
    if not subject.strip() or subject in ("__GLOBAL", "__EMPTY") or not is_context(context):
        return False
    return not name.startswith(":") or name.startswith(":.")


def is_context(context: str) -> bool:
    """Whether subjects can be in it."""
    return (
        context.startswith(".")
        and context != GLOBAL_SCOPE.strip(":")
        and len(context) <= MAX_NAME_LENGTH
        and not _CONTROL.search(context)
        and ":" not in context
        and "*" not in context
    )
