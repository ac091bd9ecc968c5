"""What the CSV of offsets is written from is read from it again; other text is refused by its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.offsets_file import OffsetsFileError, read_offsets, write_offsets

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)
TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,60}", fullmatch=True)
PLACES = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
OF_A_GROUP = st.dictionaries(PLACES, st.integers(0, 2**63 - 1), min_size=1, max_size=6)


@given(st.dictionaries(NAMES, OF_A_GROUP, min_size=1, max_size=5))
def test_offsets_come_back(offsets: dict[str, dict[TopicPartition, int]]) -> None:
    assert read_offsets(write_offsets(offsets, with_groups=True), []) == offsets


@given(NAMES, OF_A_GROUP)
def test_a_file_of_one_group_names_none(group: str, offsets: dict[TopicPartition, int]) -> None:
    text = write_offsets({group: offsets}, with_groups=False)
    assert all(line.count(",") == 2 for line in text.splitlines())
    assert read_offsets(text, ["another"]) == {"another": offsets}
    with pytest.raises(OffsetsFileError, match="line 1 names no group"):
        read_offsets(text, ["one", "two"])


@given(st.text(max_size=200), st.lists(NAMES, max_size=2))
def test_any_text_is_read_or_refused(text: str, groups: list[str]) -> None:
    try:
        found = read_offsets(text, groups)
    except OffsetsFileError as problem:
        assert "line" in str(problem)
    else:
        for offsets in found.values():
            assert all(place.partition >= 0 and offset >= 0 for place, offset in offsets.items())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("t,0\n", "line 1 has 2 fields"),
        ("t,0,1\nt,x,1\n", "line 2: 'x' is no partition"),
        ("t,0,-1\n", "line 1: '-1' is no offset"),
        ("t,0,9223372036854775808\n", "is no offset"),
        ("t,0," + "9" * 5000 + "\n", "is no offset"),
        ("t,0,1\nt,0,2\n", "line 2: t-0 is there twice"),
        ("t,0,١\n", "is no offset"),
    ],
)
def test_a_wrong_line_is_named(text: str, reason: str) -> None:
    with pytest.raises(OffsetsFileError, match=reason):
        read_offsets(text, ["g"])
