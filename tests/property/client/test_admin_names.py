"""Which topics a command means by names, patterns and expressions, for any set of names."""

from __future__ import annotations

import fnmatch
import re
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.client.admin.names import BadPattern, choose, is_pattern

NAMES = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=8)
PATTERNS = st.text("ab.-*?[]!", min_size=1, max_size=6).filter(is_pattern)


@given(st.sets(NAMES), st.lists(NAMES), st.lists(PATTERNS))
def test_words_mean_the_names_that_they_name_or_match(
    known: set[str], plain: list[str], patterns: list[str]
) -> None:
    assume(plain or patterns)
    chosen = choose([*plain, *patterns], known)
    assert list(chosen.found) == sorted(
        name
        for name in known
        if name in plain or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )
    assert list(chosen.missing) == [name for name in dict.fromkeys(plain) if name not in known]


@given(st.sets(NAMES))
def test_no_words_mean_all_names(known: set[str]) -> None:
    assert choose([], known).found == tuple(sorted(known))


@given(st.sets(NAMES), st.text(max_size=8))
def test_an_expression_matches_whole_names_or_is_refused(known: set[str], regex: str) -> None:
    try:
        found = choose([], known, regex).found
    except BadPattern:
        return
    expression = re.compile(f"(?:{regex})")
    assert found == tuple(sorted(name for name in known if expression.fullmatch(name)))


@given(NAMES)
def test_no_topic_s_name_is_a_pattern(name: str) -> None:
    assert not is_pattern(name)


def test_an_expression_that_python_frowns_upon_warns_nobody(recwarn: pytest.WarningsRecorder) -> None:
    choose(["[[a]*"], ["a"], "[[a]b")
    assert not recwarn.list
