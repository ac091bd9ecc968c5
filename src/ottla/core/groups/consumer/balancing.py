"""The assignor `uniform` for different subscriptions: loads as even as the subscriptions allow.

Theory of operation. Every member keeps its partitions of the topics that it wants. Free partitions go to the
least loaded subscriber, topic by topic, the hardest to place first: those with the most partitions for each
of their subscribers. Then the topics are balanced repeatedly: within one topic, a partition moves from its
most loaded owner to its least loaded subscriber as long as their loads differ by more than one. A round
without a move is the last, or a limit of rounds is: the last few moves are not worth the time.
"""

from __future__ import annotations

import heapq
import uuid

from ottla.core.groups.consumer.specs import GroupSpec, Target

MAX_ROUNDS = 16
"""The most rounds, as in Apache Kafka."""


def balance(group: GroupSpec) -> Target:
    """The target of every member."""
    return _Balancer(group).run()


class _Balancer:
    """One assignment under way. Members are identified by their index in `_members`."""

    def __init__(self, group: GroupSpec) -> None:
        self._counts = group.partition_counts
        self._members = list(group.members)
        self._subscribers: dict[uuid.UUID, list[int]] = {}
        self._loads = [0] * len(self._members)
        self._owned: dict[uuid.UUID, dict[int, list[int]]] = {}
        """Topic -> owner -> partitions, in ascending order."""
        self._free: dict[uuid.UUID, list[int]] = {}
        for index, member_id in enumerate(self._members):
            for topic_id in group.members[member_id].topics:
                self._subscribers.setdefault(topic_id, []).append(index)
        for topic_id in self._subscribers:
            self._keep(group, topic_id)

    def _keep(self, group: GroupSpec, topic_id: uuid.UUID) -> None:
        """Let the topic's subscribers keep their partitions of it; the rest is free."""
        free = set(range(self._counts[topic_id]))
        owned = self._owned[topic_id] = {}
        for index in self._subscribers[topic_id]:
            current = group.members[self._members[index]].current.get(topic_id, frozenset())
            kept = sorted(free & current)
            if kept:
                owned[index] = kept
                self._loads[index] += len(kept)
                free.difference_update(kept)
        self._free[topic_id] = sorted(free)

    def run(self) -> Target:
        topics = sorted(self._subscribers, key=self._difficulty)
        for topic_id in topics:
            self._place(topic_id)
        movable = [topic_id for topic_id in topics if len(self._subscribers[topic_id]) > 1]
        for _ in range(MAX_ROUNDS):
            if not sum(self._even_out(topic_id) for topic_id in movable):
                break
        target: dict[str, dict[uuid.UUID, frozenset[int]]] = {name: {} for name in self._members}
        for topic_id, owned in self._owned.items():
            for index, partitions in owned.items():
                if partitions:
                    target[self._members[index]][topic_id] = frozenset(partitions)
        return {**target}

    def _difficulty(self, topic_id: uuid.UUID) -> tuple[float, int, uuid.UUID]:
        subscribers = len(self._subscribers[topic_id])
        return -self._counts[topic_id] / subscribers, subscribers, topic_id

    def _place(self, topic_id: uuid.UUID) -> None:
        """Give the topic's free partitions to its least loaded subscribers."""
        if not self._free[topic_id]:
            return
        heap = [(self._loads[index], index) for index in self._subscribers[topic_id]]
        heapq.heapify(heap)
        for partition in self._free[topic_id]:
            load, index = heap[0]
            heapq.heapreplace(heap, (load + 1, index))
            self._owned[topic_id].setdefault(index, []).append(partition)
            self._loads[index] = load + 1

    def _even_out(self, topic_id: uuid.UUID) -> int:
        """Move the topic's partitions from the most to the
        least loaded subscribers; return the number of moves.
        """
        owned, loads = self._owned[topic_id], self._loads
        light = [(loads[index], index) for index in self._subscribers[topic_id]]
        heavy = [(-loads[index], index) for index, partitions in owned.items() if partitions]
        heapq.heapify(light)
        heapq.heapify(heavy)
        moved = 0
        while heavy:
            load, source = heavy[0]
            if -load != loads[source]:
                heapq.heapreplace(heavy, (-loads[source], source))
                continue
            while light[0][0] != loads[light[0][1]]:
                heapq.heapreplace(light, (loads[light[0][1]], light[0][1]))
            target = light[0][1]
            if loads[source] - loads[target] <= 1:
                break
            owned.setdefault(target, []).append(owned[source].pop())
            loads[source] -= 1
            loads[target] += 1
            moved += 1
            if not owned[source]:
                heapq.heappop(heavy)
        return moved
