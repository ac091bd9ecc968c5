"""The cluster's topics for group coordinators: names, ids, partitions and the replicas' racks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class TopicDescription(NamedTuple):
    """One topic. `racks[p]` are the known racks of partition p's replicas."""

    topic_id: uuid.UUID
    name: str
    racks: tuple[frozenset[str], ...]

    @property
    def partition_count(self) -> int:
        return len(self.racks)


class TopicsView:
    """All topics at one time; replaced as a whole, never changed."""

    __slots__ = ("_by_id", "_by_name")

    def __init__(self, topics: Mapping[str, TopicDescription]) -> None:
        self._by_name = dict(topics)
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}

    def with_changes(self, changed: Mapping[str, TopicDescription | None]) -> TopicsView:
        """These topics with some of them replaced, or removed where the value is None."""
        view = TopicsView.__new__(TopicsView)
        view._by_name, view._by_id = self._by_name.copy(), self._by_id.copy()
        for name, topic in changed.items():
            before = view._by_name.pop(name, None)
            if before is not None:
                del view._by_id[before.topic_id]
            if topic is not None:
                view._by_name[name] = topic
                view._by_id[topic.topic_id] = topic
        return view

    def named(self, name: str) -> TopicDescription | None:
        return self._by_name.get(name)

    def with_id(self, topic_id: uuid.UUID) -> TopicDescription | None:
        return self._by_id.get(topic_id)

    def names(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


NO_TOPICS = TopicsView({})
