"""Requests between workers pass the authentication of clients: their signature is what counts."""

from __future__ import annotations

import pytest

from ottla.connect.rest.connectors import is_signed


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", b"/connectors/c/tasks", True),
        ("PUT", b"/connectors/a%2Fb/fence", True),
        ("GET", b"/connectors/c/tasks", False),
        ("POST", b"/connectors", False),
        ("PUT", b"/connectors/c/config", False),
        ("POST", b"/connectors/c/tasks/0/restart", False),
        ("PUT", b"/connectors/x/fence/fence", False),
        ("POST", b"/connectors/c/tasks/", False),
    ],
)
def test_the_paths_of_workers_alone_are_signed(method: str, path: bytes, expected: bool) -> None:
    assert is_signed(method, path) is expected
