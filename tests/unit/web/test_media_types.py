"""The media type of an answer follows from the Accept header, however clients write it."""

from __future__ import annotations

import pytest

from ottla.web.media_types import MAX_RANGES, negotiate

V2, JSON, HTML = "application/vnd.kafka.v2+json", "application/json", "text/html"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", V2),
        (" , ,", V2),
        ("*", V2),
        ("*/*", V2),
        ("application/*", V2),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", HTML),
        ("text/html;q=0.1, *;q=0.2", V2),
        ("application/json", JSON),
        ("Application/JSON ; charset=utf-8", JSON),
        ("application/json, application/vnd.kafka.v2+json", V2),
        ("application/json, application/vnd.kafka.v2+json;q=0.9", JSON),
        ("application/vnd.kafka.v2+json;q=0, */*", JSON),
        ("text/*;q=0.5, application/*;q=0.4", HTML),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", HTML),
        ("application/xml", None),
        ("application", None),
        ("*;q=0", None),
        ("application/json;q=nan", None),
        ("application/json;q=2", None),
        ("application/json;q=", None),
        ("a/b," * MAX_RANGES + "application/json", None),
    ],
)
def test_the_type_that_is_liked_best(accept: str, expected: str | None) -> None:
    assert negotiate(accept, (V2, JSON, HTML)) == expected
