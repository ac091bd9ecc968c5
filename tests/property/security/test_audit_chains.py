"""Whatever is done to a record of an audit log is found; what nodes write, crashes included, is not."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security.audit_chain import (
    CHAIN_ENDED,
    CHAIN_RESUMED,
    CHAIN_STARTED,
    ChainEnd,
    canonical,
    content_hash,
    read_record,
)
from ottla.security.audit_verification import AuditVerifier
from support.core.audit_chains import DrawnLog, LogRecord, drawn_log, told

KEY = b"sixteen bytes or more"
SEEDS = st.integers(0, 2**32)
KEYS = st.sampled_from([None, KEY])


def verified(
    records: list[LogRecord], *, keys: tuple[bytes, ...] = (), start: int | None = 0, offsets: bool = True
) -> AuditVerifier:
    verifier = AuditVerifier(keys, log_start_offset=start)
    for each in records:
        verifier.add(each.key, each.value, each.offset if offsets else None)
    verifier.finish()
    return verifier


def is_last_of_its_chain(log: DrawnLog, at: int) -> bool:
    return all(each.key != log.records[at].key for each in log.records[at + 1 :])


@settings(max_examples=60)
@given(SEEDS, KEYS)
def test_a_log_as_nodes_write_it_is_whole(seed: int, key: bytes | None) -> None:
    log = drawn_log(seed, key)
    found = verified(log.records, keys=() if key is None else (b"another key of mine", key))
    assert found.broken.first == []
    assert {node: chain.end for node, chain in found.chains.items()} == log.ends
    assert sum(chain.records for chain in found.chains.values()) == len(log.records)
    assert verified(log.records, offsets=False, start=None).broken.first == []


@settings(max_examples=60)
@given(SEEDS, KEYS, st.data())
def test_a_changed_byte_is_found(seed: int, key: bytes | None, data: st.DataObject) -> None:
    log = drawn_log(seed, key)
    record = data.draw(st.sampled_from(log.records))
    changed = bytearray(record.value)
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    record.value = bytes(changed)
    broken = verified(log.records).broken.first
    assert record.offset in [each.offset for each in broken]


@settings(max_examples=60)
@given(SEEDS, st.data())
def test_a_changed_record_with_a_new_hash_is_found(seed: int, data: st.DataObject) -> None:
    """The record is sound in itself; the one behind it has the former hash."""
    log = drawn_log(seed, None)
    record = data.draw(st.sampled_from(log.records))
    if is_last_of_its_chain(log, record.offset):
        return
    fields = {**read_record(record.value).fields, "principal": "User:nobody"}
    record.value = canonical({**fields, "hash": content_hash(fields)})
    assert verified(log.records).broken.count
    assert verified(log.records, offsets=False, start=None).broken.count


@settings(max_examples=60)
@given(SEEDS, st.data())
def test_a_removed_record_is_found(seed: int, data: st.DataObject) -> None:
    log = drawn_log(seed, None)
    at = data.draw(st.integers(0, len(log.records) - 1))
    if is_last_of_its_chain(log, at):
        return  # nothing follows that could tell: a former verification does, see below
    left = log.records[:at] + log.records[at + 1 :]
    assert verified(left).broken.count
    assert verified(left, start=None).broken.count or is_first_of_its_chain(log, at)
    # as if it had never been there: the records behind it move up
    for offset, each in enumerate(left):
        each.offset = offset
    assert verified(left).broken.count


def is_first_of_its_chain(log: DrawnLog, at: int) -> bool:
    return all(each.key != log.records[at].key for each in log.records[:at])


@settings(max_examples=60)
@given(SEEDS, st.data())
def test_a_removed_end_is_found_with_the_ends_of_a_former_verification(
    seed: int, data: st.DataObject
) -> None:
    log = drawn_log(seed, KEY)
    node = data.draw(st.sampled_from(sorted(log.ends)))
    own = [each for each in log.records if each.key == str(node).encode()]
    gone = own[-data.draw(st.integers(1, len(own))) :]
    verifier = AuditVerifier((KEY,), log_start_offset=0, known_ends=log.ends)
    for each in log.records:
        if each not in gone:
            verifier.add(each.key, each.value, each.offset)
    verifier.finish()
    assert node in [each.node for each in verifier.broken.first]


@settings(max_examples=60)
@given(SEEDS, st.data())
def test_records_of_one_chain_that_change_places_are_found(seed: int, data: st.DataObject) -> None:
    log = drawn_log(seed, None)
    first, second = sorted(data.draw(st.lists(st.sampled_from(log.records), min_size=2, max_size=2)), key=of)
    if first.key != second.key or first is second:
        return
    first.value, second.value = second.value, first.value
    assert verified(log.records).broken.count
    assert verified(log.records, offsets=False, start=None).broken.count


def of(record: LogRecord) -> int:
    return record.offset


@settings(max_examples=60)
@given(SEEDS, st.data())
def test_a_record_that_comes_twice_is_found(seed: int, data: st.DataObject) -> None:
    """Behind the end of its run it may look like the first one after a loss: that is told as a gap."""
    log = drawn_log(seed, None)
    before = verified(log.records, start=None, offsets=False)
    record = data.draw(st.sampled_from(log.records))
    at = data.draw(st.integers(record.offset, len(log.records) - 1))
    twice = [*log.records[: at + 1], LogRecord(record.key, record.value, at + 1), *log.records[at + 1 :]]
    found = verified(twice, start=None, offsets=False)
    assert found.broken.count or found.gaps.count > before.gaps.count


@settings(max_examples=60)
@given(SEEDS, st.data())
def test_a_record_that_is_put_in_is_found(seed: int, data: st.DataObject) -> None:
    """A sound record that fits no chain, and bytes that are no record.

    The first record of a run may stand at the end before it says what it follows: that is told as a gap.
    """
    log, other = drawn_log(seed, None), drawn_log(seed + 1, None)
    at = data.draw(st.integers(1, len(log.records)))
    strange = data.draw(
        st.sampled_from([each.value for each in other.records if each.value not in values_of(log)])
        | st.binary(max_size=40)
    )
    key = log.records[0].key
    put_in = [*log.records[:at], LogRecord(key, strange, at), *log.records[at:]]
    before = verified(log.records, start=None, offsets=False)
    found = verified(put_in, start=None, offsets=False)
    assert found.broken.count or found.gaps.count > before.gaps.count


def values_of(log: DrawnLog) -> list[bytes]:
    return [each.value for each in log.records]


@settings(max_examples=60)
@given(SEEDS, st.data())
def test_a_log_that_is_written_anew_lacks_the_signatures(seed: int, data: st.DataObject) -> None:
    """Without the key: all records of a chain from one on, with new hashes, and signatures of another key."""
    log = drawn_log(seed, KEY)
    forged = DrawnLog(random.Random(seed), data.draw(st.sampled_from([None, b"a key of the forger's"])))
    again = drawn_log(seed, forged.key)
    node = data.draw(st.sampled_from(sorted(log.ends)))
    own = [each for each in log.records if each.key == str(node).encode()]
    kept = own[: data.draw(st.integers(0, len(own) - 1))]
    end = None
    if kept:
        last = read_record(kept[-1].value)
        end = ChainEnd(last.sequence, last.hash, kept[-1].offset)
    forged.records = list(kept)
    if end is None:
        rest = [each for each in again.records if each.key == str(node).encode()]
    else:
        forged.ends[node] = end
        forged.write(node, "forged", [told(CHAIN_ENDED)])
        rest = []
    assert verified([*forged.records, *rest], keys=(KEY,), start=None, offsets=False).broken.count


@settings(max_examples=60)
@given(SEEDS, st.data())
def test_expired_records_are_no_break(seed: int, data: st.DataObject) -> None:
    log = drawn_log(seed, None)
    start = data.draw(st.integers(0, len(log.records) - 1))
    batches = [each.offset for each in log.records if begins_batch(each)]
    start = max(each for each in [0, *batches] if each <= start)
    assert verified(log.records[start:], start=start).broken.first == []


def begins_batch(record: LogRecord) -> bool:
    return read_record(record.value).previous_offset is not None or record.offset == 0


@settings(max_examples=60)
@given(SEEDS)
def test_the_canonical_form_is_that_of_the_text(seed: int) -> None:
    for each in drawn_log(seed, KEY).records:
        assert canonical(dict(read_record(each.value).fields)) == each.value
        assert each.value.isascii()


def test_a_chain_that_was_signed_stays_signed() -> None:
    """A record without a signature behind one with it, as one writes who lacks the key."""
    log = DrawnLog(random.Random(0), None)
    log.write(1, "a", [told(CHAIN_STARTED)])
    assert [each.node for each in verified(log.records, keys=(KEY,)).broken.first] == [1]
    log.key = KEY  # the operator sets a key
    log.write(1, "b", [told(CHAIN_RESUMED)])
    assert verified(log.records, keys=(KEY,)).broken.first == []
    log.key = None
    log.write(1, "b", [told(CHAIN_ENDED)])
    (broken,) = verified(log.records, keys=(KEY,)).broken.first
    assert (broken.offset, broken.text) == (2, "it is not signed, records before it are")
    assert verified(log.records).broken.first == []
