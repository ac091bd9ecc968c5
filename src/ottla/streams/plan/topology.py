"""A topology as data: nodes that name their inputs, from sources to sinks. No Spark in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.streams.plan.node import Node


@dataclass(frozen=True, slots=True)
class Materialized:
    """A table that can be asked by key while the application runs."""

    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Topology:
    """All of an application: its sinks lead to everything else."""

    name: str
    sinks: tuple[Node, ...]
    materialized: tuple[Materialized, ...]

    def nodes(self) -> list[Node]:
        """Every node once, inputs before those that read them."""
        return in_order([*self.sinks, *(each.node for each in self.materialized)])


def in_order(ends: Sequence[Node]) -> list[Node]:
    """All nodes that `ends` depend on, and they themselves, inputs first."""
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in found:
            for each in node.inputs:
                visit(each)
            found[id(node)] = node

    for end in ends:
        visit(end)
    return list(found.values())


def consumers(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    """The nodes that read a node, by the id() of the one that is read."""
    readers: dict[int, list[Node]] = {id(node): [] for node in nodes}
    for node in nodes:
        for each in node.inputs:
            readers[id(each)].append(node)
    return readers
