"""Audit logs as nodes write them, drawn at random: several chains in one partition, crashes, late records."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from ottla.security.audit_chain import (
    ADMINISTRATION,
    AUTHENTICATION,
    AUTHORIZATION,
    CHAIN_ENDED,
    CHAIN_RESUMED,
    CHAIN_STARTED,
    AuditEvent,
    ChainEnd,
    TimedEvent,
    seal,
)

_TEXTS = ("alice", "Ünïcode", "\ud800", 'quo"te\\', "", "{}", "orders-1", None)


@dataclass(slots=True)
class LogRecord:
    """A record as it lies in the log."""

    key: bytes
    value: bytes
    offset: int


@dataclass(slots=True)
class DrawnLog:
    """One partition and the chains in it."""

    random: random.Random
    key: bytes | None
    records: list[LogRecord] = field(default_factory=list)
    ends: dict[int, ChainEnd] = field(default_factory=dict)
    running: dict[int, str] = field(default_factory=dict)

    def append(self, node: int, values: list[bytes], end: ChainEnd | None) -> None:
        """Append a batch."""
        assert end is not None
        for value in values:
            self.records.append(LogRecord(str(node).encode(), value, len(self.records)))
        self.ends[node] = end._replace(offset=len(self.records) - 1)

    def write(self, node: int, run: str, events: list[TimedEvent]) -> None:
        """Write a batch of a run."""
        self.append(node, *seal(events, node, run, self.ends.get(node), self.key))

    def event(self) -> TimedEvent:
        """Any event."""
        draw = self.random
        event = AuditEvent(
            draw.choice((AUTHENTICATION, AUTHORIZATION, ADMINISTRATION)),
            principal=draw.choice(_TEXTS),
            resource_name=draw.choice(_TEXTS),
            details=(("a", draw.randrange(-(2**63), 2**63)), ("b", [draw.choice(_TEXTS), True])),
        )
        return TimedEvent(event, draw.randrange(2**41), draw.randrange(1, 5))

    def run(self, node: int, number: int) -> None:
        """One run of a node: it starts, writes, and stops or crashes."""
        draw, run = self.random, f"{self.random.randrange(2**64):x}-{number}"
        end = self.ends.get(node)
        if end is None:
            self.write(node, run, [told(CHAIN_STARTED)])
        else:
            self.write(node, run, [told(CHAIN_RESUMED)])
        for _ in range(draw.randrange(4)):
            if draw.random() < 0.3:  # another node writes in between
                other = draw.choice(sorted(self.ends))
                if other != node and other in self.running:
                    self.write(other, self.running[other], [self.event()])
            self.write(node, run, [self.event() for _ in range(draw.randrange(1, 4))])
        self.running[node] = run
        if draw.random() < 0.3:
            return  # it runs on beside others, and crashes without a trace in the end
        del self.running[node]
        if draw.random() < 0.5:
            self.write(node, run, [told(CHAIN_ENDED)])
        elif draw.random() < 0.4:
            self.late(node, run, f"{run}-next")

    def late(self, node: int, run: str, next_run: str) -> None:
        """A batch of a killed run reaches the log only before its next run's first record, unread by it."""
        before = self.ends[node]
        self.write(node, run, [self.event() for _ in range(self.random.randrange(1, 4))])
        late = self.ends[node]
        values, end = seal([told(CHAIN_RESUMED)], node, next_run, before, self.key)
        self.append(node, values, end)
        named = (("late", [[late.sequence, late.hash]]),)
        self.write(node, next_run, [TimedEvent(AuditEvent(CHAIN_RESUMED, details=named), 1)])


def told(event: str) -> TimedEvent:
    """An event of the chain itself."""
    return TimedEvent(AuditEvent(event), 1)


def drawn_log(seed: int, key: bytes | None) -> DrawnLog:
    """Two to four nodes with some runs each."""
    draw = random.Random(seed)
    log = DrawnLog(draw, key)
    for number in range(draw.randrange(2, 7)):
        log.run(draw.randrange(1, 4), number)
    return log
