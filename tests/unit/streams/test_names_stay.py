"""Names, numbers, topics, fingerprints and descriptions stay: checkpoints and groups hang on them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ottla.streams.dsl import Streams
from support.pipeline.streams_names import APPLICATIONS, KEPT, names_of


@pytest.mark.parametrize("build", APPLICATIONS)
def test_an_application_finds_its_topics_groups_and_checkpoints_again(
    build: Callable[[Streams], None],
) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))[build.__name__]
    now = json.loads(json.dumps(names_of(build)))
    for part, as_kept in kept.items():
        assert now[part] == as_kept, part
    assert set(now) == set(kept)
