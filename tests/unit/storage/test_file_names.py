"""The names of a partition's files, in Kafka's form."""

from __future__ import annotations

import random

import pytest

from ottla.storage.file_names import offset_file_name, offset_of


def test_names_are_kafkas() -> None:
    assert offset_file_name(42, ".log") == "00000000000000000042.log"


def test_the_offset_of_a_name_is_the_one_it_was_made_of() -> None:
    for _ in range(100):
        offset = random.randrange(2 ** random.randrange(1, 64))
        for suffix in ("", ".index", ".log.cleaned"):
            assert offset_of(offset_file_name(offset, suffix)) == offset


@pytest.mark.parametrize("name", ["", "42.log", "0000000000000000004x.log", "٠" * 20, "-" + "0" * 19])
def test_other_names_have_no_offset(name: str) -> None:
    assert offset_of(name) is None
