"""Rules of columns: which one holds, and what it makes of values; Debezium itself is asked elsewhere."""

from __future__ import annotations

import hashlib

import pytest

from ottla.connect.cdc.core.column_form import ColumnForm
from ottla.connect.cdc.core.column_rules import ColumnFacts, column_rules
from ottla.connect.data.building import REQUIRED
from ottla.connect.data.schema import Type

TEXT = ColumnForm(REQUIRED[Type.STRING], str, "", "placeholder")
BYTES = ColumnForm(REQUIRED[Type.BYTES], bytes.fromhex, b"", b"placeholder")


def column(name: str, length: int = 2_147_483_647, is_text: bool = True) -> ColumnFacts:
    return ColumnFacts("s.t", name, "varchar", length, 0, is_text)


def test_the_first_kind_of_rule_that_matches_holds() -> None:
    rules = column_rules(
        {"with.2.chars": "s.t.(a|b)", "hash.MD5.with.salt.x": "s.t.(a|b|c|d)"},
        {"to.3.chars": "s.t.a"},
        "s.t.(b|c)",
        None,
    )
    assert rules.apply(column("a"), TEXT).form.convert("abcd") == "abc"
    assert rules.apply(column("b"), TEXT).form.convert("abcd") == "**"
    told = rules.apply(column("c", 40), TEXT).form
    assert told.convert("abcd") == "abcd" and told.schema.parameters is not None
    assert told.schema.parameters["__debezium.source.column.length"] == "40"
    assert len(rules.apply(column("d"), TEXT).form.convert("abcd")) == 32
    assert rules.apply(column("e"), TEXT).form is TEXT


def test_masks_stand_for_null_and_what_is_not_sent_and_hashes_leave_the_placeholder() -> None:
    rules = column_rules({"with.3.chars": "s.t.a", "hash.v2.SHA-256.with.salt.x": "s.t.b"}, {}, None, None)
    masked = rules.apply(column("a"), TEXT)
    assert (masked.null, masked.form.unavailable, masked.form.fallback) == ("***", "***", "***")
    hashed = rules.apply(column("b", 10), TEXT)
    assert hashed.null is None and hashed.form.unavailable == "placeholder"
    assert hashed.form.convert("ä") == hashlib.sha256("xä".encode()).hexdigest()[:10]
    number = rules.apply(column("a", is_text=False), TEXT)
    assert number.null is None and number.form.convert("12345") == "12345"
    assert number.form.schema.parameters == {"masked": "true"}


def test_the_older_hash_is_of_javas_serialized_string() -> None:
    rules = column_rules({"hash.MD5.with.salt.x.y": "s.t.a"}, {}, None, None)
    convert = rules.apply(column("a"), TEXT).form.convert
    for text, data in (
        ("a", b"t\x00\x01a"),
        ("\0é", b"t\x00\x04\xc0\x80\xc3\xa9"),
        ("🙂", b"t\x00\x06\xed\xa0\xbd\xed\xb9\x82"),
        ("x" * 70_000, b"|\0\0\0\0\0\x01\x11\x70" + b"x" * 70_000),
    ):
        assert convert(text) == hashlib.md5(b"x.y\xac\xed\x00\x05" + data).hexdigest()


@pytest.mark.parametrize(
    ("text", "cut"), [("abc", "abc"), ("abcd", "abc"), ("ab🙂", "ab"), ("a🙂b", "a🙂"), ("äöüß", "äöü")]
)
def test_texts_are_cut_as_java_counts(text: str, cut: str) -> None:
    rules = column_rules({}, {"to.3.chars": "s.t.a"}, None, None)
    assert rules.apply(column("a"), TEXT).form.convert(text) == cut
    assert rules.apply(column("a"), BYTES).form.convert("0001020304") == b"\0\1\2"
    assert rules.apply(column("a", 3), TEXT).form is TEXT  # no longer ones can be there
