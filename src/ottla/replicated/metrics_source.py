"""The metrics of an instance's replicated states, from the figures of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.metrics.exposition import Family
from ottla.metrics.tables import replicated as table
from ottla.replicated.figures import ForwardOutcome, WriteOutcome
from ottla.replicated.forwarding import Forwarder
from ottla.replicated.group_member import GroupMember
from ottla.replicated.leadership import Leadership
from ottla.replicated.primary import Primary
from ottla.replicated.topic import ReplicatedTopic


@dataclass(frozen=True, slots=True)
class StateParts:
    """The parts of one state. primary, forwarder: None where a state has none."""

    topic: ReplicatedTopic
    primary: Primary | None = None
    forwarder: Forwarder | None = None


def state_families(states: Sequence[StateParts]) -> Iterator[Family]:
    """The metrics of these states."""
    topics = [(each.topic.spec.name, each.topic) for each in states]
    places = [(name, topic, topic.offsets) for name, topic in topics]
    yield Family(
        table.OFFSET,
        [((name, one), offset) for name, _, offsets in places for one, offset in offsets.items()],
    )
    yield Family(
        table.END_OFFSET,
        [((name, one), end) for name, topic, _ in places for one, end in topic.read_figures.ends.items()],
    )
    yield Family(table.LAG, [((name,), topic.lag) for name, topic in topics])
    yield Family(table.REPLAYED, [((name,), topic.read_figures.replayed) for name, topic in topics])
    yield Family(table.READ_FAILURES, [((name,), topic.read_figures.failures) for name, topic in topics])
    yield Family(table.LOST, [((name,), int(topic.loss is not None)) for name, topic in topics])
    writers = [(each.topic.spec.name, each.primary.figures) for each in states if each.primary is not None]
    yield Family(table.WRITTEN, [((name,), figures.written) for name, figures in writers])
    yield Family(
        table.WRITES,
        [((name, one), figures.outcomes[one]) for name, figures in writers for one in WriteOutcome],
    )
    yield Family(table.WRITE_SECONDS, [((name,), figures.times) for name, figures in writers])
    yield Family(table.TAKEOVERS, [((name,), figures.takeovers) for name, figures in writers])
    forwarders = [
        (each.topic.spec.name, each.forwarder.outcomes) for each in states if each.forwarder is not None
    ]
    yield Family(
        table.FORWARDED,
        [((name, one), outcomes[one]) for name, outcomes in forwarders for one in ForwardOutcome],
    )


def group_families(leadership: Leadership, member: GroupMember) -> Iterator[Family]:
    """The metrics of an instance in its group."""
    group = (leadership.group_id,)
    yield Family(table.PRIMARY, [(group, int(leadership.is_here))])
    yield Family(table.PRIMARY_KNOWN, [(group, int(leadership.url is not None))])
    yield Family(table.ELECTIONS, [(group, leadership.changes)])
    yield Family(table.JOINS, [(group, member.joins)])
