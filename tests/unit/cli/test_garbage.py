"""Long collections of garbage freeze what they find alive, and garbage in circles is found all the same."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator

import pytest

from ottla.cli.servers.garbage import FreezingCollections


class Circle:
    """Garbage for the collector alone when nothing else refers to it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collections_by_hand() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.callbacks[:] = [one for one in gc.callbacks if not isinstance(one, FreezingCollections)]
        gc.unfreeze()
        gc.enable()


def test_long_collections_freeze_and_walk_all_again_when_the_frozen_objects_have_doubled() -> None:
    seconds = itertools.count()
    gc.callbacks.append(FreezingCollections(lambda: next(seconds), least_objects=1))
    gc.collect()
    gc.collect()  # more than one object is frozen: this walks them all
    frozen = gc.get_freeze_count()
    assert frozen > 1
    circle = Circle()
    gone = weakref.ref(circle)
    gc.collect()
    del circle
    gc.collect()
    assert gone() is not None, "a circle that is frozen is not walked"
    kept = [[] for _ in range(2 * frozen)]
    gc.collect()
    assert gone() is not None
    gc.collect()
    assert gone() is None, "the frozen objects have doubled"
    assert gc.get_freeze_count() > len(kept)


def test_short_collections_freeze_nothing() -> None:
    before = gc.get_freeze_count()
    gc.callbacks.append(FreezingCollections(lambda: 0.0))
    gc.collect()
    assert gc.get_freeze_count() == before
