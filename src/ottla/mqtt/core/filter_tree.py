"""Subscriptions by their filters, as a tree of levels: which of many match a topic, without trying each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from ottla.mqtt.core.topics import ALL, ONE

T = TypeVar("T")


class _Node(Generic[T]):
    __slots__ = ("below", "values")

    def __init__(self) -> None:
        self.below: dict[str, _Node[T]] = {}
        self.values: set[T] = set()


class FilterTree(Generic[T]):
    """Values under filters; each value once under one filter."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def __bool__(self) -> bool:
        return bool(self._root.below)

    def add(self, filter_: str, value: T) -> None:
        """Put a value under a filter."""
        node = self._root
        for level in filter_.split("/"):
            node = node.below.setdefault(level, _Node())
        node.values.add(value)

    def discard(self, filter_: str, value: T) -> None:
        """Take a value from under a filter, and levels under which nothing is left."""
        path = [self._root]
        levels = filter_.split("/")
        for level in levels:
            below = path[-1].below.get(level)
            if below is None:
                return
            path.append(below)
        path[-1].values.discard(value)
        for level, above, node in zip(reversed(levels), reversed(path[:-1]), reversed(path), strict=False):
            if node.values or node.below:
                return
            del above.below[level]

    def matching(self, topic: str) -> set[T]:
        """The values under all filters that match a topic, each once."""
        found: set[T] = set()
        for node in self._nodes(topic.split("/"), topic.startswith("$")):
            found |= node.values
        return found

    def _nodes(self, levels: list[str], is_reserved: bool) -> Iterator[_Node[T]]:
        nodes = [self._root]
        for depth, level in enumerate(levels):
            if not nodes:
                return
            wildcards = depth > 0 or not is_reserved
            following: list[_Node[T]] = []
            for node in nodes:
                exact = node.below.get(level)
                if exact is not None:
                    following.append(exact)
                if wildcards:
                    one = node.below.get(ONE)
                    if one is not None:
                        following.append(one)
                    rest = node.below.get(ALL)
                    if rest is not None:
                        yield rest
            nodes = following
        for node in nodes:
            yield node
            rest = node.below.get(ALL)
            if rest is not None:
                yield rest
