"""Java's properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.java_properties import MalformedProperties, parse_properties


def values(text: str) -> dict[str, str]:
    return {key: value for key, (value, _) in parse_properties(text).items()}


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b ", "a", "b "),
        ("a: b", "a", "b"),
        ("a b", "a", "b"),
        ("  a\t=\tb", "a", "b"),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("a==b", "a", "=b"),
        ("a=b=c", "a", "b=c"),
        ("a\\=b=c", "a=b", "c"),
        ("a\\ b=c", "a b", "c"),
        ("a=b\\nc\\td", "a", "b\nc\td"),
        ("a=C:\\\\logs", "a", "C:\\logs"),
        ("a=\\u00fc\\u20AC", "a", "ü€"),
        ("a=\\ud83e\\udda6", "a", "🦦"),
        ("a=\\x", "a", "x"),
        ("a=PLAINTEXT://:9092,SSL://:9093", "a", "PLAINTEXT://:9092,SSL://:9093"),
    ],
)
def test_a_line(line: str, key: str, value: str) -> None:
    assert values(line) == {key: value}


def test_comments_and_empty_lines_are_nothing() -> None:
    assert values("# a=1\n  ! b=2\n\n \t\nc=3 # not a comment\n") == {"c": "3 # not a comment"}


def test_lines_go_on_after_a_backslash() -> None:
    assert values("a=1,\\\n   2,\\\n   3\nb=\\\\\nc=4") == {"a": "1,2,3", "b": "\\", "c": "4"}
    assert values("a=1\\") == {"a": "1"}
    assert values("a=\\\n# no comment here") == {"a": "# no comment here"}


def test_the_last_value_of_a_key_counts_and_knows_its_line() -> None:
    properties = parse_properties("a=1\r\n# x\r\na=\\\r\n2\r\nb=3")
    assert properties["a"] == ("2", 3)
    assert properties["b"].line == 5


@pytest.mark.parametrize("text", ["x=1\na=\\u12g4", "\na=\\u12"])
def test_a_broken_escape_is_named_with_its_line(text: str) -> None:
    with pytest.raises(MalformedProperties) as refused:
        parse_properties(text)
    assert refused.value.line == 2


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        properties = parse_properties(text)
    except MalformedProperties:
        return
    for _, line in properties.values():
        assert line >= 1


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=12), max_size=4))
def test_what_is_escaped_reads_back(written: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le")).cast("H"))

    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in written.items())
    assert values(text) == written
