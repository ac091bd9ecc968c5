"""The offset index against a list: look-ups near and far, while entries are added, cut and replaced."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.storage import indexes
from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.indexes import OFFSET_ENTRY, OffsetIndex

BASE_OFFSET = 1000

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 9)),
        st.tuples(st.just("lookup"), st.integers(0, 90)),
        st.tuples(st.just("lookup position"), st.integers(0, 900)),
        st.tuples(st.just("truncate"), st.integers(0, 60)),
        st.tuples(st.just("replace"), st.integers(0, 5)),
    ),
    max_size=40,
)


def position_of(offset: int) -> int:
    return 10 * (offset - BASE_OFFSET)


def last(entries: list[int], at_most: int) -> tuple[int, int]:
    below = [entry for entry in entries if entry <= at_most]
    return (below[-1], position_of(below[-1])) if below else (BASE_OFFSET, 0)


@settings(deadline=None)
@given(st.integers(0, 9), STEPS)
@example(9, [("lookup", 0), ("append", 1), ("lookup", 90)])
@example(9, [("lookup", 20), ("truncate", 10), ("append", 5), ("append", 5), ("lookup", 21)])
@example(9, [("lookup", 20), ("replace", 2), ("lookup", 21)])
def test_lookups_find_what_a_list_finds(count: int, steps: list[tuple[str, int]]) -> None:
    # given: windows so short that look-ups leave them at both ends
    with tempfile.TemporaryDirectory() as directory, mock.patch.object(indexes, "_WINDOW_ENTRIES", 3):
        index = OffsetIndex(DirectoryFiles(Path(directory)), "0.index", BASE_OFFSET, 10_000)
        entries = [BASE_OFFSET + 5 * number for number in range(1, count + 1)]
        for entry in entries:
            index.append(entry, position_of(entry))
        # when
        for step, number in steps:
            match step:
                case "append":
                    entries.append((entries[-1] if entries else BASE_OFFSET) + number)
                    index.append(entries[-1], position_of(entries[-1]))
                # then
                case "lookup":
                    assert index.lookup(BASE_OFFSET + number) == last(entries, BASE_OFFSET + number)
                case "lookup position":
                    assert index.lookup_position(number) == last(entries, BASE_OFFSET + number // 10)
                case "truncate":
                    entries = [entry for entry in entries if entry < BASE_OFFSET + number]
                    index.truncate_to(BASE_OFFSET + number)
                case "replace":
                    entries = [BASE_OFFSET + 7 * slot for slot in range(1, number + 1)]
                    pairs = [(entry - BASE_OFFSET, position_of(entry)) for entry in entries]
                    index.file.replace(b"".join(OFFSET_ENTRY.pack(*pair) for pair in pairs))


def test_only_so_many_indexes_keep_a_window(tmp_path: Path) -> None:
    # given
    many = [
        OffsetIndex(DirectoryFiles(tmp_path), f"{number}.index", 0, 800)
        for number in range(indexes._WINDOWS + 5)
    ]
    for index in many:
        index.append(10, 100)
        # when
        assert index.lookup(10) == (10, 100)
        assert index.lookup(9) == (0, 0)
    # then
    assert [index._window is not None for index in many] == [False] * 5 + [True] * indexes._WINDOWS
