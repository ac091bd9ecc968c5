"""Subscriptions by regular expression: matching topics are found in the background and kept in the log.

Theory of operation. The topics that match an expression are in a record, so a new coordinator knows them at
once. They are found anew when a member brings a new expression, when topics were created, and every
group.consumer.regex.refresh.interval.ms; a heartbeat starts that, at most every 10 seconds. Matching goes
through the topics in slices of a timer, so it never blocks the event loop for long, however many topics there
are; the result is a decision of its own, with a new group epoch if topics have come or gone. Until then a new
expression matches no topics. Topics that the client whose heartbeat starts the search may not know of do not
match.

The version in the record is that of Apache Kafka's metadata image; 0 here, which makes Kafka match again.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

from ottla.core.coordination.api import TopicPermits
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.regex import InvalidRegex, Regex
from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.consumer import records
from ottla.core.groups.consumer.epochs import Decision, Epochs
from ottla.core.groups.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.core.groups.consumer.refusal import Refused
from ottla.core.groups.context import ShardContext
from ottla.protocol.errors import ErrorCode

REGEX_TIMER = "consumer-regex"
SHORTEST_REFRESH_INTERVAL_MS = 10_000
MATCHES_A_SLICE = 500
"""At about 20 microseconds for a match, a slice takes ten milliseconds."""
NODES_A_MATCH = 60
"""This many visited nodes cost as much as a match: an expression may have thousands, at every character."""
SLICE_INTERVAL_MS = 1
METADATA_VERSION = 0


class RegexChange(enum.Enum):
    """A heartbeat's change of its member's expression."""

    NONE = enum.auto()
    UPDATED = enum.auto()
    """To an expression whose topics are not known yet."""
    UPDATED_AND_RESOLVED = enum.auto()
    """To an expression whose topics are known, or to none."""


@dataclass(slots=True)
class Search:
    """A search for the topics of a group's expressions."""

    regexes: list[Regex]
    names: deque[str]
    permits: TopicPermits | None
    """What the client whose heartbeat started the search may do; None if it may do everything."""
    found: dict[str, set[str]] = field(default_factory=dict)


class Subscriptions:
    """Finds the topics of expressions for the consumer groups of a shard."""

    def __init__(self, context: ShardContext, epochs: Epochs) -> None:
        self._context = context
        self._outbox = context.outbox
        self._groups = context.consumer
        self._epochs = epochs
        self._searches: dict[str, Search] = {}
        self._outdated: set[str] = set()
        """The groups whose expressions may match topics that were created since the last search."""

    def note_regex(self, decision: Decision) -> RegexChange:
        """The change of the member's expression; ends the record of one that is no longer used."""
        group, before, after = decision.group, decision.before.regex, decision.member.regex
        if before == after:
            return RegexChange.NONE
        counts = group.regexes()
        if before and counts.get(before) == 1:
            decision.changes.append(records.regular_expression_tombstone(group.group_id, before))
        if not after:
            return RegexChange.UPDATED_AND_RESOLVED
        if after not in counts:
            check_regex(after)
            return RegexChange.UPDATED
        if after in group.resolved:
            return RegexChange.UPDATED_AND_RESOLVED
        return RegexChange.UPDATED

    def refresh_if_due(self, decision: Decision, permits: TopicPermits | None) -> None:
        """Start a search if one is due."""
        group = decision.group
        group_id = group.group_id
        is_used = decision.member.regex or any(member.regex for member in group.members.values())
        if not is_used or group_id in self._searches:
            return
        now_ms = self._outbox.now.wall_ms
        last_ms = next((each.timestamp_ms for each in group.resolved.values()), None)
        if last_ms is not None and last_ms <= now_ms <= last_ms + SHORTEST_REFRESH_INTERVAL_MS:
            return
        wanted = {member.regex for member in decision.members().values() if member.regex}
        settings = self._context.settings.of(group_id)
        is_due = (
            group_id in self._outdated
            or wanted != set(group.resolved)
            or last_ms is None
            or not last_ms <= now_ms <= last_ms + settings.consumer_regex_refresh_interval_ms
        )
        if wanted and is_due:
            self._start(group_id, wanted, permits)

    def on_loaded(self, group_id: str) -> None:
        """Topics may have been created while the group had no coordinator."""
        self._outdated.add(group_id)

    def on_topics_created(self) -> None:
        for group_id, group in self._groups.items():
            if group.resolved:
                self._outdated.add(group_id)

    def forget(self, group_id: str) -> None:
        """The group is gone: end its search."""
        self._searches.pop(group_id, None)
        self._outdated.discard(group_id)
        self._outbox.timers.cancel(TimerKey(REGEX_TIMER, group_id))

    def _start(self, group_id: str, wanted: set[str], permits: TopicPermits | None) -> None:
        self._outdated.discard(group_id)
        compiled = []
        for pattern in sorted(wanted):
            try:
                compiled.append(Regex(pattern))
            except InvalidRegex as problem:  # Apache Kafka accepted the expression and recorded it.
                self._outbox.note("expression ignored group=%s regex=%s: %s", group_id, pattern, problem)
        found: dict[str, set[str]] = {pattern: set() for pattern in wanted}
        search = Search(compiled, deque(self._context.topics.names()), permits, found)
        self._searches[group_id] = search
        self._outbox.set_timer(TimerKey(REGEX_TIMER, group_id), SLICE_INTERVAL_MS)

    def on_timer(self, group_id: str) -> None:
        """Match the next slice of topics; after the last, apply the result when the group has the turn."""
        search = self._searches.get(group_id)
        if search is None:
            return
        budget = MATCHES_A_SLICE
        while search.names and budget > 0:
            name = search.names.popleft()
            for regex in search.regexes:
                before = regex.visited_nodes
                if regex.matches(name) and (search.permits is None or search.permits.may_describe(name)):
                    search.found[regex.pattern].add(name)
                budget -= 1 + (regex.visited_nodes - before) // NODES_A_MATCH
        if search.names:
            self._outbox.set_timer(TimerKey(REGEX_TIMER, group_id), SLICE_INTERVAL_MS)
        else:
            self._context.turns.run(group_id, lambda: self._finish(group_id, search))

    def _finish(self, group_id: str, search: Search) -> None:
        if self._searches.get(group_id) is search:
            del self._searches[group_id]
        group = self._groups.get(group_id)
        if group is None:
            return
        changes = self._changes(group, search)
        if changes:
            self._context.turns.append(
                group_id, changes, lambda: None, lambda error: self._outdated.add(group_id)
            )

    def _changes(self, group: ConsumerGroup, search: Search) -> list[CoordinatorRecord]:
        now_ms = self._outbox.now.wall_ms
        in_use = group.regexes()
        resolved = dict(group.resolved)
        changes: list[CoordinatorRecord] = []
        bump = False
        for regex, topics in search.found.items():
            if regex not in in_use:
                continue
            before = group.resolved.get(regex)
            bump |= topics != (before.topics if before is not None else frozenset())
            resolved[regex] = ResolvedRegex(frozenset(topics), METADATA_VERSION, now_ms)
            changes.append(
                records.regular_expression(group.group_id, regex, topics, METADATA_VERSION, now_ms)
            )
        metadata_hash = self._epochs.hash_of(group.members, resolved)
        if bump or metadata_hash != group.metadata_hash:
            changes.append(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        return changes


def check_regex(pattern: str) -> None:
    """Raise Refused for an invalid expression."""
    try:
        Regex(pattern)
    except InvalidRegex as problem:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}.",
        ) from None
