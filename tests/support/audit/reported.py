"""What audited producers have sent by the marks of records, and what they have told in their reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Message

from ottla.client.audit.mark import HEADER, StreamBucket, parse_mark
from ottla.client.audit.reports import REPORTS_TOPIC, Report, parse_report
from support.clients.whole_topics import read_everything


def marked(messages: Iterable[Message]) -> Counter[StreamBucket]:
    """How many records each bucket of each stream has, whose sequences count from 0 without a gap."""
    sequences: dict[StreamBucket, list[int]] = {}
    for message in messages:
        (value,) = [value for name, value in message.headers() or () if name == HEADER]
        found = parse_mark(value)
        assert found is not None
        sequences.setdefault(found[0], []).append(found[1])
    assert all(sorted(each) == list(range(len(each))) for each in sequences.values())
    return Counter({of: len(each) for of, each in sequences.items()})


def reported(bootstrap: str, tier: str) -> dict[StreamBucket, Report]:
    """The last report about each bucket of a tier."""
    told: dict[StreamBucket, Report] = {}
    for message in read_everything(bootstrap, REPORTS_TOPIC):
        report = parse_report(message.value() or b"")
        if report is not None and report.tier == tier:
            told[report.of] = report
    return told
