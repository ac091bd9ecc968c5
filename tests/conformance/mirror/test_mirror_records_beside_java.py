"""MirrorMaker 2's records and its translation of offsets, by its own classes and by ours."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

from ottla.mirror.core.offset_sync_store import OffsetSyncStore
from ottla.mirror.core.record_formats import Checkpoint, Heartbeat, OffsetSync
from ottla.mirror.core.sparse_syncs import SparseSyncs, SyncedOffsets
from support.java.mirror_oracle import ask_mirror, base64_of

pytestmark = pytest.mark.java

LETTERS = "abcäöß漢字🙂 .-_"


def _text(dice: random.Random) -> str:
    return "".join(dice.choice(LETTERS) for _ in range(dice.randint(1, 40)))


def _offset(dice: random.Random) -> int:
    return dice.choice((0, 1, 2**63 - 1, dice.getrandbits(62), dice.randint(0, 10_000)))


def test_records_are_the_bytes_that_java_writes_and_reads(tmp_path: Path) -> None:
    dice = random.Random()
    drawn: list[OffsetSync | Checkpoint | Heartbeat] = []
    for _ in range(200):
        drawn.append(OffsetSync(_text(dice), dice.randint(0, 2**31 - 1), _offset(dice), _offset(dice)))
        partition = dice.randint(0, 999)
        metadata = dice.choice(("", _text(dice)))
        drawn.append(Checkpoint(_text(dice), _text(dice), partition, _offset(dice), _offset(dice), metadata))
        drawn.append(Heartbeat(_text(dice), _text(dice), _offset(dice)))
    questions: list[tuple[str | int, ...]] = []
    for one in drawn:
        match one:
            case OffsetSync():
                ends = (one.upstream_offset, one.downstream_offset)
                questions.append(("sync", base64_of(one.topic), one.partition, *ends))
            case Checkpoint():
                ends = (one.upstream_offset, one.downstream_offset)
                where = (base64_of(one.group), base64_of(one.topic), one.partition)
                questions.append(("checkpoint", *where, *ends, base64_of(one.metadata)))
            case Heartbeat():
                names = (base64_of(one.source_alias), base64_of(one.target_alias))
                questions.append(("heartbeat", *names, one.timestamp_ms))
    for one, answer in zip(drawn, ask_mirror(questions, tmp_path), strict=True):
        key, value, last = answer.split("\t")
        assert (one.key(), one.value()) == (base64.b64decode(key), base64.b64decode(value))
        assert type(one).read(base64.b64decode(key), base64.b64decode(value)) == one
        assert int(last) == (one.timestamp_ms if isinstance(one, Heartbeat) else one.downstream_offset)


def test_offsets_are_translated_as_by_java_and_never_behind_it(tmp_path: Path) -> None:
    dice = random.Random()
    cases = []
    for _ in range(150):
        upstream, downstream = dice.choice((0, dice.randint(0, 5_000))), dice.randint(0, 5_000)
        syncs = []
        for _ in range(dice.randint(1, 300)):
            syncs.append(SyncedOffsets(upstream, downstream))
            step = dice.choice((1, 2, dice.randint(1, 101), dice.randint(1, 5_000)))
            upstream += step
            downstream += dice.randint(1, step)
            if dice.random() < 0.005:
                upstream = dice.randint(0, upstream)  # the source lost records
        wanted = [dice.randint(0, upstream + 10) for _ in range(100)] + [each.upstream for each in syncs[:20]]
        cases.append((syncs, wanted))
    questions = [
        (
            "store",
            ",".join(f"{each.upstream}:{each.downstream}" for each in syncs),
            ",".join(map(str, wanted)),
        )
        for syncs, wanted in cases
    ]
    for (syncs, wanted), answer in zip(cases, ask_mirror(questions, tmp_path), strict=True):
        sparse, store = SparseSyncs(syncs[0]), OffsetSyncStore()
        for each in syncs[1:]:
            sparse.add(each)
        for each in syncs:
            store.replay(OffsetSync("t", 3, *each))
        for offset, theirs in zip(wanted, map(int, answer.split(",")), strict=True):
            found = sparse.at_or_before(offset)
            as_java = -1 if found is None else found.downstream + (offset > found.upstream)
            assert as_java == theirs, (syncs, offset)
            ours = store.translate("t", 3, offset)
            assert (-1 if ours is None else ours) >= theirs or syncs != sorted(syncs, key=lambda it: it[1])
