"""The missing internal topics of streams groups: requests to create them, and the errors of these."""

from __future__ import annotations

from ottla.core.coordination.api import TopicPermits
from ottla.core.groups.context import ShardContext
from ottla.core.groups.streams.api import CreateInternalTopics, InternalTopic, InternalTopicsCreated
from ottla.core.groups.streams.configured import ConfiguredTopology, Problem
from ottla.core.groups.streams.group import StreamsGroup

ERRORS_SHOWN = 3


class InternalTopics:
    """Requests internal topics for all streams groups of a shard."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._outbox = context.outbox

    def ask_for(
        self, group: StreamsGroup, configured: ConfiguredTopology, permits: TopicPermits | None
    ) -> None:
        """Request the missing internal topics, but for those under way or refused just now.

        None are requested for a client that may not create all of them.
        """
        if _forbidden(configured, permits):
            return
        missing = tuple(
            topic
            for topic in configured.missing_topics
            if topic.name not in group.creating_topics and not self._creation_error(group, topic)
        )
        if missing:
            group.creating_topics.update(topic.name for topic in missing)
            self._outbox.emit(CreateInternalTopics(group.group_id, missing))

    def _creation_error(self, group: StreamsGroup, topic: InternalTopic) -> str | None:
        error = group.creation_errors.get(topic.name)
        if error is None or error[1] <= self._outbox.now.steady_ms:
            return None
        return error[0]

    def on_created(self, event: InternalTopicsCreated) -> None:
        """Note the errors of a request; another event brings the topics that were created."""
        group = self._context.streams.get(event.group_id)
        if group is None:
            return
        group.creating_topics.difference_update(event.topics)
        until_ms = (
            event.at.steady_ms + 2 * self._context.settings.of(group.group_id).streams_heartbeat_interval_ms
        )
        for name in event.topics:
            group.creation_errors.pop(name, None)
        for name, message in event.errors.items():
            group.creation_errors[name] = message, until_ms

    def explained(
        self,
        group: StreamsGroup,
        configured: ConfiguredTopology,
        problem: Problem,
        permits: TopicPermits | None,
    ) -> Problem:
        """The problem, with the reason why topics are not created, or could not be just now."""
        forbidden = _forbidden(configured, permits)
        if forbidden:
            names = ", ".join(forbidden)
            return problem._replace(detail=f"{problem.detail}; Unauthorized to CREATE on topics {names}.")
        errors = [
            f"{topic.name} ({error})"
            for topic in configured.missing_topics
            if (error := self._creation_error(group, topic))
        ]
        if not errors:
            return problem
        shown = ", ".join(errors[:ERRORS_SHOWN])
        if len(errors) > ERRORS_SHOWN:
            shown += f" and {len(errors) - ERRORS_SHOWN} more"
        return problem._replace(detail=f"{problem.detail}; Creation failed: {shown}.")


def _forbidden(configured: ConfiguredTopology, permits: TopicPermits | None) -> list[str]:
    """The missing topics that may not be made for the client."""
    if permits is None:
        return []
    return [topic.name for topic in configured.missing_topics if not permits.may_create(topic.name)]
