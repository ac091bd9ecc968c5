"""The place up to which an instance has replayed a topic, as instances tell it to each other."""

from __future__ import annotations

import random
import uuid

import pytest

from ottla.replicated.place import Place

TOPIC_ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


def test_the_place_of_a_single_partition_is_the_text_that_older_instances_read() -> None:
    assert Place(TOPIC_ID, (7,)).encode() == f"{TOPIC_ID}:7"


def test_a_place_is_read_as_it_was_written() -> None:
    for _ in range(100):
        offsets = tuple(random.randrange(-1, 1 << 62) for _ in range(random.randint(1, 30)))
        place = Place(uuid.uuid4(), offsets)
        assert Place.decode(place.encode()) == place


@pytest.mark.parametrize("text", ["", ":", "7", f"{TOPIC_ID}", f"{TOPIC_ID}:", f"{TOPIC_ID}:1,", "x:1"])
def test_a_text_of_another_kind_is_no_place(text: str) -> None:
    assert Place.decode(text) is None
