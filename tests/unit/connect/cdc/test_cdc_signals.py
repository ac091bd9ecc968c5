"""Signals as texts, progress in offsets of ours and of Debezium's, and what a snapshot of PostgreSQL saw."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.connect.cdc.core.incremental import IncrementalSnapshot, NoticeType
from ottla.connect.cdc.core.java_keys import BadKey, java_key
from ottla.connect.cdc.core.progress import BadProgress, Collection, Progress, progress_of
from ottla.connect.cdc.core.signals import (
    BadSignal,
    ExecuteSnapshot,
    LogMessage,
    SnapshotKind,
    StopSnapshot,
    matching,
    signal_of,
    signal_of_text,
)
from ottla.connect.cdc.postgres.snapshot_view import SnapshotView, ToldTransactions, reachable

ARRAY = "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870"
LONG = (
    "7372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c75657872"
    "00106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
)
ONE_LONG = f"{ARRAY}00000001{LONG}000000000000002a"
TWO = f"{ARRAY}00000003740003c3bc61{LONG}ffffffffffffffff70"


def test_a_signal_is_read_from_three_texts_or_one() -> None:
    data = {
        "data-collections": [" public.a ", r"public\.b.*"],
        "additional-conditions": [{"data-collection": "PUBLIC.A", "filter": "id > 1"}],
        "surrogate-key": "at",
    }
    found = signal_of("7", "execute-snapshot", json.dumps(data))
    assert isinstance(found, ExecuteSnapshot)
    assert (found.id, found.kind, found.tables) == (
        "7",
        SnapshotKind.INCREMENTAL,
        ("public.a", r"public\.b.*"),
    )
    assert found.conditions[0].tables.matches("public.a") and found.surrogate_key == "at"
    text = json.dumps({"id": 8, "type": "log", "data": {"message": "here is {}"}})
    assert signal_of_text(text) == LogMessage("8", "here is {}")
    assert signal_of("9", "stop-snapshot", None) == StopSnapshot("9")


@pytest.mark.parametrize(
    ("type", "data", "words"),
    [
        ("execute-snapshot", "{}", "data-collections"),
        ("execute-snapshot", '{"data-collections": []}', "data-collections"),
        ("execute-snapshot", '{"data-collections": ["a", 7]}', "texts"),
        ("execute-snapshot", '{"data-collections": ["("]}', "expression"),
        ("execute-snapshot", '{"data-collections": ["a"], "type": "sudden"}', "sudden"),
        ("execute-snapshot", '{"data-collections": ["a"], "additional-conditions": [{}]}', "filter"),
        ("execute-snapshot", '{"data-collections": ["a"], "surrogate-key": 1}', "surrogate-key"),
        ("stop-snapshot", '{"type": "blocking"}', "stopped"),
        ("log", "{}", "message"),
        ("schema-changes", '{"database": "d"}', "changes"),
        ("pause-snapshot", "[" * 100_000, "JSON"),
        ("pause-snapshot", "[]", "object"),
        ("nothing", "{}", "nothing"),
        (None, None, "None"),
    ],
)
def test_a_signal_without_sense_is_refused(type: str | None, data: str | None, words: str) -> None:
    with pytest.raises(BadSignal, match=words):
        signal_of("1", type, data)


def test_expressions_match_whole_names_each_once() -> None:
    tables = ["public.a", "public.ab", "other.a"]
    assert matching([r"public\..*", "public.a", "nowhere"], tables) == ["public.a", "public.ab", "nowhere"]


def test_keys_of_debezium_are_read() -> None:
    assert java_key(ONE_LONG) == ("42",)
    assert java_key(TWO) == ("üa", "-1", None)
    assert java_key("aced000570") is None


@pytest.mark.parametrize("cut", range(0, len(ONE_LONG) - 2, 2))
def test_keys_that_are_cut_short_are_refused(cut: int) -> None:
    with pytest.raises(BadKey):
        java_key(ONE_LONG[:cut])


@pytest.mark.parametrize(
    "text",
    [
        "no hex",
        "00" * 10,
        f"{ARRAY}7fffffff70",
        f"{ARRAY}00000001" + "71007e0009",
        f"{ARRAY}00000001" + "75" * 100,
        "aced0005740001" + "61",
        f"{ARRAY}00000001{LONG.replace('4c6f6e67', '4576696c')}000000000000002a"[:-2],
    ],
)
def test_bytes_that_are_no_key_are_refused(text: str) -> None:
    with pytest.raises(BadKey):
        java_key(text)


def test_progress_comes_back_from_its_offset() -> None:
    progress = Progress(
        (Collection("public.a", "id > 1", None, "7"), Collection('odd."t"', None, "at", "8")),
        ("1", None, "ü"),
        ("9", "x", ""),
        "8",
        True,
        (Collection("public.b"),),
        12,
        "3-4-5",
    )
    offset = {"commit": 17, **json.loads(json.dumps(progress.offset()))}
    assert progress_of(offset).progress == progress
    assert Progress().offset() == {}


def test_progress_of_debezium_is_gone_on_with_or_its_table_begins_anew() -> None:
    offset: dict[str, Any] = {
        "incremental_snapshot_primary_key": ONE_LONG,
        "incremental_snapshot_maximum_key": TWO,
        "incremental_snapshot_correlation_id": "c",
        "incremental_snapshot_collections": json.dumps(
            [
                {
                    "incremental_snapshot_collections_id": "public.a",
                    "incremental_snapshot_collections_additional_condition": None,
                    "incremental_snapshot_collections_surrogate_key": "",
                }
            ]
        ),
    }
    found = progress_of(offset)
    assert found.warning is None and found.progress.last_key == ("42",)
    assert found.progress.collections == (Collection("public.a"),)
    anew = progress_of({**offset, "incremental_snapshot_primary_key": f"{ARRAY}00000001{LONG}"})
    assert anew.warning is not None and anew.progress.last_key is None and anew.progress.maximum_key is None
    with pytest.raises(BadProgress):
        progress_of({"incremental_snapshot_collections": "nonsense"})
    with pytest.raises(BadProgress):
        progress_of({"incremental_snapshot_signal_offset": -1})


def test_signals_of_the_queue_are_told() -> None:
    snapshot = IncrementalSnapshot(Progress())
    tables = ["s.a", "s.b"]
    snapshot.take(signal_of("1", "execute-snapshot", '{"data-collections": ["s[.].*"]}'), tables)
    snapshot.take(signal_of("2", "stop-snapshot", '{"data-collections": ["s.a"]}'), tables)
    assert [each.table for each in snapshot.progress.collections] == ["s.b"]
    snapshot.take(signal_of("3", "stop-snapshot", None), tables)
    assert snapshot.request() is None and not snapshot.progress.is_running
    assert [each.type for each in snapshot.notices] == [
        NoticeType.STARTED,
        NoticeType.ABORTED,
        NoticeType.ABORTED,
    ]
    with pytest.raises(BadSignal, match="wait"):
        for _ in range(10_001):
            snapshot.take(signal_of("4", "execute-snapshot", '{"data-collections": ["s[.].*"]}'), tables)


def test_a_snapshot_of_postgresql_saw_what_was_committed_before_it() -> None:
    view = SnapshotView.of("10:20:10,14")
    assert [each for each in range(5, 25) if not view.includes(each)] == [10, 14, 20, 21, 22, 23, 24]
    assert SnapshotView.of("5:5:").includes(4)
    # Numbers of transactions begin anew after 32 bits.
    wrapped = SnapshotView.of(f"{(1 << 32) - 2}:{(1 << 32) + 3}:{(1 << 32) + 1}")
    assert wrapped.includes((1 << 32) - 1) and wrapped.includes(0) and not wrapped.includes(1)
    assert not wrapped.includes(3)
    told = ToldTransactions()
    told.add(12)
    assert not told.overtake(view)
    told.add(14)
    assert told.overtake(view)


def test_a_place_behind_the_header_of_a_page_is_reached_before_it() -> None:
    assert reachable(8192 * 5 + 24) == 8192 * 5
    assert reachable(8192 * 5 + 40) == 8192 * 5
    assert reachable(8192 * 5 + 48) == 8192 * 5 + 48
