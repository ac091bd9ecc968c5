"""Names of subjects with their contexts: `:.context:subject`, or just `subject` in the default context.

A context's own configuration and mode belong to the name with an empty subject, `:.context:`; those of the
default context to None: /config and /mode without a name are its. `:.__GLOBAL:` holds for all contexts.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_CONTEXT: Final = "."
GLOBAL_SCOPE: Final = ":.__GLOBAL:"
ALL_CONTEXTS: Final = ":*:"
MAX_NAME_LENGTH: Final = 2_048
"""Characters of a subject's name; a longer one is an accident."""

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
    """The one spelling of a subject: `:.:a` is `a`, `:.c` is `:.c:`."""
    if not subject.startswith(":."):
        return subject
    return in_context(*split_subject(subject))


def relative_to(referrer: str, subject: str) -> str:
    """The subject that a schema of `referrer` names: in its own context, unless the name has another."""
    if subject.startswith(":."):
        return normal_subject(subject)
    return in_context(context_of(referrer), subject)


def scope_of(subject: str | None) -> str | None:
    """The key of a configuration or mode: the subject or context; None for the default context."""
    if subject is None:
        return None
    return normal_subject(subject) or None


def scopes_of(subject: str | None) -> tuple[str | None, ...]:
    """The scopes where a subject's configuration is looked for: itself, its context, all contexts."""
    scope = scope_of(subject)
    if scope is None:
        return None, GLOBAL_SCOPE
    if scope == GLOBAL_SCOPE:
        return (GLOBAL_SCOPE,)
    context, name = split_subject(scope)
    of_context = scope_of(in_context(context, ""))
    return (scope, of_context, GLOBAL_SCOPE) if name else (of_context, GLOBAL_SCOPE)


def is_subject(name: str) -> bool:
    """Whether schemas can be registered under this name: no control characters, no reserved name."""
    if len(name) > MAX_NAME_LENGTH or _CONTROL.search(name):
        return False
    context, subject = split_subject(name)
    if not subject.strip() or subject in ("__GLOBAL", "__EMPTY") or not is_context(context):
        return False
    return not name.startswith(":") or name.startswith(":.")


def is_context(context: str) -> bool:
    """Whether subjects can be in a context of this name."""
    return (
        context.startswith(".")
        and context != GLOBAL_SCOPE.strip(":")
        and len(context) <= MAX_NAME_LENGTH
        and not _CONTROL.search(context)
        and ":" not in context
        and "*" not in context
    )
