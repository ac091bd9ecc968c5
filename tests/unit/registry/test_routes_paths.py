"""Paths as they come, and as the routes see them."""

from __future__ import annotations

import pytest

from ottla.registry.routes.paths import routed


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/subjects", "/subjects"),
        ("/subjects/", "/subjects"),
        ("/", "/"),
        ("//", "/"),
        ("/subjects/a%2Fb/versions", "/subjects/a%2Fb/versions"),
        ("/subjects/a%20b/versions/", "/subjects/a%20b/versions"),
        ("/contexts", "/contexts"),
        ("/contexts/.c", "/contexts/.c"),
        ("/contexts/.c/", "/contexts/.c"),
    ],
)
def test_a_path_keeps_its_encoding_and_loses_slashes_at_its_end(path: str, expected: str) -> None:
    assert routed(path.encode(), b"a=b") == (expected, b"a=b")


def test_bytes_that_are_no_ascii_are_encoded() -> None:
    assert routed("/subjects/ä".encode(), b"") == ("/subjects/%C3%A4", b"")


@pytest.mark.parametrize(
    ("rest", "path", "query"),
    [
        ("subjects", "/subjects", "subjectPrefix=%3A.c%3A"),
        ("subjects?deleted=true", "/subjects", "deleted=true&subjectPrefix=%3A.c%3A"),
        ("subjects?subjectPrefix=a", "/subjects", "subjectPrefix=%3A.c%3Aa"),
        ("subjects?subjectPrefix=%3A.d%3Aa", "/subjects", "subjectPrefix=%3A.d%3Aa"),
        ("schemas", "/schemas", "subjectPrefix=%3A.c%3A"),
        ("schemas/types", "/schemas/types", ""),
        ("schemas/ids/7", "/schemas/ids/7", "subject=%3A.c%3A"),
        ("schemas/ids/7/versions?subject=s", "/schemas/ids/7/versions", "subject=%3A.c%3As"),
        ("schemas/guids/g", "/schemas/guids/g", ""),
        ("subjects/s", "/subjects/%3A.c%3As", ""),
        ("subjects/a%2Fb/versions/1?x=y", "/subjects/%3A.c%3Aa%2Fb/versions/1", "x=y"),
        ("subjects/:.d:s", "/subjects/:.d:s", ""),
        ("compatibility/subjects/s/versions", "/compatibility/subjects/%3A.c%3As/versions", ""),
        ("config", "/config/%3A.c%3A", ""),
        ("config/s", "/config/%3A.c%3As", ""),
        ("mode", "/mode/%3A.c%3A", ""),
        ("mode/s", "/mode/%3A.c%3As", ""),
        ("v1/metadata/id", "/v1/metadata/id", ""),
    ],
)
@pytest.mark.parametrize("context", [".c", ":.c:", "%3A.c%3A", "c"])
def test_a_path_behind_a_context_is_rewritten_to_full_names(
    context: str, rest: str, path: str, query: str
) -> None:
    given, _, asked = rest.partition("?")
    assert routed(f"/contexts/{context}/{given}".encode(), asked.encode()) == (path, query.encode())


@pytest.mark.parametrize(
    ("rest", "path", "query"),
    [
        ("subjects", "/subjects", "subjectPrefix=%3A.%3A"),
        ("schemas/ids/7", "/schemas/ids/7", "subject="),
        ("subjects/s", "/subjects/s", ""),
        ("config", "/config", ""),
        ("mode/s", "/mode/s", ""),
    ],
)
def test_the_default_context_needs_no_name(rest: str, path: str, query: str) -> None:
    assert routed(f"/contexts/.:/{rest}".encode(), b"") == (path, query.encode())


def test_a_context_may_have_odd_characters() -> None:
    assert routed(b"/contexts/.a%2Fb/config", b"") == ("/config/%3A.a%2Fb%3A", b"")
    assert routed(b"/contexts/.a%2Fb/subjects/s", b"") == ("/subjects/%3A.a%2Fb%3As", b"")
