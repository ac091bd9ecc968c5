"""Paths as the routes want them: still percent-encoded, without a slash at the end, contexts in the subjects.

`/contexts/.c/…` is another way to name a context's subjects: the path behind it is rewritten to their full
names. `/subjects/s` there is `/subjects/:.c:s`, `/config` is `/config/:.c:`, and listings and
ids are asked for in the context by the query's `subjectPrefix` or `subject`.
"""

from __future__ import annotations

import string
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ottla.registry.core.contexts import in_context

_PRINTABLE: Final = string.punctuation


def routed(raw_path: bytes, query: bytes) -> tuple[str, bytes]:
    """The path and the query to route by."""
    path = quote(raw_path, safe=_PRINTABLE)
    if len(path) > 1:
        path = path.rstrip("/") or "/"
    root, *rest = path.removeprefix("/").split("/")
    if root != "contexts" or len(rest) < 2:
        return path, query
    return _in_context(_context(rest[0]), rest[1:], query)


def _context(encoded: str) -> str:
    name = unquote(encoded).strip(":")
    return name if name.startswith(".") else f".{name}"


def _in_context(context: str, parts: list[str], query: bytes) -> tuple[str, bytes]:
    qualifier = in_context(context, "")
    match parts:
        case ["subjects"] | ["schemas"]:
            query = _qualified_query(query, "subjectPrefix", f":{context}:")
        case ["schemas", "ids", *_]:
            query = _qualified_query(query, "subject", qualifier)
        case ["subjects" | "config" | "mode", subject, *rest]:
            parts = [parts[0], _qualified(subject, qualifier), *rest]
        case ["compatibility" | "associations", "subjects", subject, *rest]:
            parts = [parts[0], "subjects", _qualified(subject, qualifier), *rest]
        case ["dek-registry", "v1", "keks", kek, "deks", subject, *rest]:
            parts = [*parts[:3], kek, "deks", _qualified(subject, qualifier), *rest]
        case ["config" | "mode"] if qualifier:
            parts = [parts[0], quote(qualifier, safe="")]
    return "/" + "/".join(parts), query


def _qualified(encoded_subject: str, qualifier: str) -> str:
    if unquote(encoded_subject).startswith(":."):
        return encoded_subject
    return quote(qualifier, safe="") + encoded_subject


def _qualified_query(query: bytes, name: str, qualifier: str) -> bytes:
    """The query with the qualifier before the value of `name`, which it may lack."""
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    value = next((text for key, text in given if key == name), "")
    if not value.startswith(":"):
        value = qualifier + value
    rest = [(key, text) for key, text in given if key != name]
    return urlencode([*rest, (name, value)]).encode()
