"""Brings mirror topics to their end: stops fail-overs, makes topics writable whose partitions are ready.

This needs no source, so it goes on while a link's source is gone, and for topics whose link was deleted. The
answer (where each partition stood) is in the status topic before the topic's settings go: a kill in between
costs another round, which writes the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.links.mirror_settings import change_topics, set_to
from ottla.broker.links.status_log import StatusLog
from ottla.core.image.image import TOPIC_RESOURCE
from ottla.core.links.status import FAILED_OVER, PROMOTED, end_status
from ottla.core.links.topic_state import MirrorState, mirror_state
from ottla.core.settings.link_settings import (
    CUT_OFF,
    FAIL_OVER,
    LINK_EPOCHS,
    LINK_STATE,
    LINK_TOPIC_SETTINGS,
)

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode

log = logging.getLogger("ottla.broker.links")


class Sources(Protocol):
    """The sources of links, as far as they can be reached."""

    def known_epochs(self, link: str, topic: str) -> dict[int, int]:
        """The leader epochs of the source's partitions as they were seen last; empty for none."""
        ...

    async def ends(self, link: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The ends of the source's partitions: now, else as they were seen last; those that are known."""
        ...


def all_mirrors(node: LinksNode) -> dict[str, MirrorState]:
    """All mirror topics of this cluster."""
    image = node.image
    found: dict[str, MirrorState] = {}
    for (resource_type, name), values in image.configs.items():
        if resource_type == TOPIC_RESOURCE and name in image.topics:
            state = mirror_state(values)
            if state is not None:
                found[name] = state
    return found


async def stop_topics(node: LinksNode, topics: Mapping[str, Mapping[int, int]], state: str) -> dict[str, str]:
    """Have topics leave their source, by a promotion (STOPPED) or a fail-over (CUT_OFF).

    topics: the source's leader epochs by partition, as far as known. Returns the refusals. Raises KafkaError.
    """
    changes = {}
    for topic, epochs in topics.items():
        values: dict[str, str | None] = {LINK_STATE.name: state}
        if epochs:
            values[LINK_EPOCHS.name] = ",".join(f"{index}:{epoch}" for index, epoch in sorted(epochs.items()))
        changes[topic] = set_to(values)
    return await change_topics(node, changes) if changes else {}


async def end_topics(node: LinksNode, status: StatusLog, sources: Sources) -> None:
    """Go on with all topics that are on their way to being writable. Raises KafkaError."""
    mirrors = all_mirrors(node)
    failing_over = {
        name: sources.known_epochs(each.link, name)
        for name, each in mirrors.items()
        if each.state == FAIL_OVER
    }
    for topic, refusal in (await stop_topics(node, failing_over, CUT_OFF)).items():
        log.warning("a mirror topic was not stopped topic=%s reason=%s", topic, refusal)
    for topic, state in mirrors.items():
        known = node.image.topics.get(topic)
        ends = state.ends or {}
        if not state.is_stopped or known is None or any(index not in ends for index in known.partitions):
            continue
        how = FAILED_OVER if state.state == CUT_OFF else PROMOTED
        source_ends = await sources.ends(state.link, topic, list(known.partitions))
        answer = end_status(state.link, topic, state, ends, source_ends, how)
        await status.write({(state.link, topic): {**answer, "at_ms": node.now_ms()}})
        gone: dict[str, str | None] = dict.fromkeys(LINK_TOPIC_SETTINGS)
        for name, refusal in (await change_topics(node, {topic: set_to(gone)})).items():
            log.warning("a mirror topic did not become writable topic=%s reason=%s", name, refusal)
        log.info("a mirror topic is writable link=%s topic=%s how=%s", state.link, topic, how)
