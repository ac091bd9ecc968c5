"""The book's answers, one story each: what is said, and what is not said yet."""

from __future__ import annotations

import uuid

from ottla.audit.core.book import Book, Key
from ottla.audit.core.counting import PartitionCounter, Rules
from ottla.audit.core.delta import CaughtUp, Mode
from ottla.audit.core.rows import Row, State, row_fields
from ottla.client.audit.mark import HEADER, StreamBucket, mark
from ottla.client.audit.reports import Report
from ottla.protocol.record_batch import NewRecord, encode_batch, parse_batch_header, records_payload
from ottla.protocol.record_columns import decode_columns

MINUTE = 60_000
START = 1_700_000_040_000 // MINUTE * MINUTE
RULES = Rules(MINUTE, 10_000)
OF = StreamBucket(uuid.UUID(int=1), 0, START)
KEY = Key("app", "orders", START)


def report(sent: int, number: int = 1, tier: str = "app") -> Report:
    return Report(tier, "h1", "", "orders", OF, MINUTE, sent, number, START)


def counted(
    book: Book,
    sequences: list[int],
    *,
    offset: int = 0,
    topic: str = "orders",
    by_header: bool = False,
    at_ms: int = START + MINUTE,
) -> None:
    position = book.position("app", topic, 0)
    counter = PartitionCounter("app", topic, 0, position.offset, position.watermark_ms, RULES)
    records = [NewRecord(None, b"v", START + 5, ((HEADER, mark(OF, one)),)) for one in sequences]
    data = encode_batch(records, base_offset=offset)
    header = parse_batch_header(data)
    if by_header:
        counter.count_header(header, at_ms)
    else:
        counter.count_records(header, decode_columns(records_payload(data, 0, header), header), at_ms)
    assert book.counts(counter.take(at_ms))


def judged(book: Book) -> Row:
    book.caught_up(CaughtUp("app", START + MINUTE + 10_000))
    return book.row(KEY)


def test_nothing_is_lost_before_the_counter_has_caught_up() -> None:
    book = Book(10_000)
    book.report(report(5))
    counted(book, [0, 1, 3])
    book.caught_up(CaughtUp("app", START + MINUTE + 9_999))
    assert (book.row(KEY).state, book.row(KEY).lost, book.row(KEY).pending) == (State.PENDING, 0, 2)
    row = judged(book)
    assert (row.state, row.lost, row.percent) == (State.INCOMPLETE, 2, 60.0)
    assert [(one.first, one.last) for one in row.lost_ranges] == [(2, 2), (4, 4)]
    assert row_fields(row, details=True)["hosts"]["h1"] == {"sent": 5, "missing": 2, "unreported": 0}


def test_losses_and_doubles_do_not_cancel() -> None:
    book = Book(10_000)
    book.report(report(6))
    counted(book, [0, 1, 2, 0, 1, 2])
    row = judged(book)
    assert (row.sent, row.counted, row.lost, row.doubled) == (6, 6, 3, 3)


def test_what_is_missing_where_the_log_has_holes_is_unknown() -> None:
    book = Book(10_000)
    book.report(report(10))
    counted(book, [8, 9], offset=6)
    row = judged(book)
    assert (row.lost, row.unknown, row.state) == (2, 6, State.INCOMPLETE)


def test_a_topic_that_is_not_counted_is_not_judged() -> None:
    book = Book(10_000)
    book.report(report(10))
    row = judged(book)
    assert (row.state, row.lost, row.pending) == (State.PENDING, 0, 10)


def test_a_producer_that_was_killed_before_its_report_loses_nothing() -> None:
    book = Book(10_000)
    counted(book, [0, 1, 2, 4])
    row = judged(book)
    assert (row.sent, row.counted, row.unreported, row.lost) == (0, 4, 4, 1)


def test_an_older_report_changes_nothing() -> None:
    book = Book(10_000)
    book.report(report(5, number=3))
    book.report(report(4, number=2))
    book.report(report(5, number=3))
    assert book.row(KEY).sent == 5


def test_records_that_were_derived_from_another_topic_are_not_its_copies() -> None:
    book = Book(10_000)
    book.report(report(3))
    counted(book, [0, 1, 2])
    counted(book, [1], topic="large-orders")
    judged(book)
    assert book.row(Key("app", "large-orders", START)).lost == 0
    counted(book, [1, 1], topic="eu.orders")
    copy = book.row(Key("app", "eu.orders", START))
    assert (copy.sent, copy.lost, copy.doubled) == (3, 2, 1)


def test_a_sum_from_headers_is_an_estimate_until_it_is_counted_again() -> None:
    book = Book(10_000)
    book.report(report(4))
    counted(book, [0, 1, 3], by_header=True)
    row = judged(book)
    assert (row.state, row.counted, row.lost, row.estimated) == (State.RECOUNT, 3, 0, True)
    assert list(book.to_recount("app")) == [("orders", 0, 0, 3)]
    counter = PartitionCounter("app", "orders", 0, 0, -1, RULES)
    data = encode_batch([NewRecord(None, b"v", START + 5, ((HEADER, mark(OF, one)),)) for one in [0, 1, 3]])
    header = parse_batch_header(data)
    counter.count_records(header, decode_columns(records_payload(data, 0, header), header), START + MINUTE)
    recount = counter.take(START + MINUTE)
    recount.mode = Mode.RECOUNT
    assert book.counts(recount)
    assert not book.counts(recount), "twice"
    row = book.row(KEY)
    assert (row.state, row.counted, row.lost, row.estimated) == (State.INCOMPLETE, 3, 1, False)
    assert list(book.to_recount("app")) == []


def test_the_delay_is_that_of_the_last_ones() -> None:
    book = Book(10_000)
    book.report(report(4))
    counted(book, [0, 1, 2], at_ms=START + MINUTE)
    counted(book, [3], offset=3, at_ms=START + MINUTE + 700)
    assert judged(book).delays_ms == (700, 700, 700)


def test_forgotten_buckets_stay_forgotten() -> None:
    book = Book(10_000)
    book.report(report(3))
    counted(book, [0, 1, 2])
    judged(book)
    assert [row.lost for row in book.forget(START + MINUTE)] == [0]
    book.report(report(9, number=9))
    counted(book, [0], offset=3)
    assert list(book.keys()) == []
    assert book.position("app", "orders", 0).offset == 4
