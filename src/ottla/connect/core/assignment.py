"""Which worker runs which connectors and tasks: incremental, so that only what moves is stopped (KIP-415).

Theory of operation. Every worker tells, as it joins, what it runs. The leader gives out what nobody runs, to
the workers that have the least. Where workers have too much, the leader takes some away from them: those are
stopped, their workers join again, and the next round gives them out. So a task is never given to one worker
while another may still run it. The tasks of a worker that has gone are given out at once, or, with
scheduled.rebalance.max.delay.ms, kept back for a time for the worker to return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.connect.core.ids import CONNECTOR, TaskId

Member = str


@dataclass(frozen=True, slots=True)
class Memory:
    """What a leader remembers of its last round. generation: -1 where it was not the leader then.

    given: what the workers had after the round. due_ms: when tasks of lost workers are given out; None: none
    are kept back.
    """

    generation: int = -1
    given: frozenset[TaskId] = frozenset()
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """The outcome for each member. delay_ms: until the next round, where something is kept back; 0: none."""

    assigned: Mapping[Member, Sequence[TaskId]]
    revoked: Mapping[Member, Sequence[TaskId]]
    delay_ms: int
    memory: Memory = field(default_factory=Memory)


def assign(
    configured: Sequence[TaskId],
    claims: Mapping[Member, Sequence[TaskId]],
    memory: Memory,
    generation: int,
    now_ms: int,
    max_delay_ms: int,
) -> Round:
    """The assignments of a generation. claims: what each member runs, as it told when it joined."""
    known = frozenset(configured)
    owners = _owners(claims)
    kept: dict[Member, list[TaskId]] = {}
    revoked: dict[Member, list[TaskId]] = {}
    for member in sorted(claims):
        mine = list(dict.fromkeys(claims[member]))
        # What is deleted, and what two members claim, is taken from all.
        kept[member] = [id for id in mine if id in known and len(owners[id]) == 1]
        revoked[member] = [id for id in mine if id not in known or len(owners[id]) > 1]
    missing = [id for id in configured if id not in owners]
    due_ms = _due(missing, memory, generation, now_ms, max_delay_ms)
    lost = set(missing) & memory.given if due_ms is not None else set()
    _give_out([id for id in missing if id not in lost], kept)
    _take_away(known - lost, kept, revoked, owners)
    delay_ms = 0 if due_ms is None else max(1, due_ms - now_ms)
    given = frozenset(id for mine in kept.values() for id in mine) | frozenset(lost)
    return Round(kept, revoked, delay_ms, Memory(generation, given, due_ms))


def _owners(claims: Mapping[Member, Sequence[TaskId]]) -> dict[TaskId, set[Member]]:
    owners: dict[TaskId, set[Member]] = {}
    for member, mine in claims.items():
        for id in mine:
            owners.setdefault(id, set()).add(member)
    return owners


def _due(
    missing: Sequence[TaskId], memory: Memory, generation: int, now_ms: int, max_delay_ms: int
) -> int | None:
    """When tasks that a worker has taken with it are given out; None: at once, or there are none."""
    if not max_delay_ms or memory.generation != generation - 1 or memory.given.isdisjoint(missing):
        return None
    due_ms = now_ms + max_delay_ms if memory.due_ms is None else memory.due_ms
    return due_ms if due_ms > now_ms else None


def _give_out(ids: Sequence[TaskId], kept: dict[Member, list[TaskId]]) -> None:
    """Each to the member that has the least of its kind, then the least in all."""
    if not kept:
        return
    load = {member: [0, 0] for member in kept}
    for member, mine in kept.items():
        for id in mine:
            load[member][id.task != CONNECTOR] += 1
    for id in ids:
        kind = id.task != CONNECTOR
        member = min(kept, key=lambda each: (load[each][kind], sum(load[each]), each))
        kept[member].append(id)
        load[member][kind] += 1


def _take_away(
    known: frozenset[TaskId] | set[TaskId],
    kept: dict[Member, list[TaskId]],
    revoked: dict[Member, list[TaskId]],
    owners: Mapping[TaskId, set[Member]],
) -> None:
    """Take from members what they have above their share, while others have less than theirs."""
    if not kept:
        return
    for is_task in (False, True):
        total = sum(1 for id in known if (id.task != CONNECTOR) is is_task)
        fair, more = divmod(total, len(kept))
        mine = {
            member: [id for id in ids if (id.task != CONNECTOR) is is_task] for member, ids in kept.items()
        }
        lacking = sum(max(0, fair - len(ids)) for ids in mine.values())
        # Some members may have one more than the others.
        rich = sorted(mine, key=lambda member: (-len(mine[member]), member))
        for place, member in enumerate(rich):
            share = fair + (1 if place < more else 0)
            # Only what the member runs already: what was given in this round has not been started.
            movable = [id for id in mine[member] if id in owners]
            excess = max(0, len(mine[member]) - share)
            if lacking <= 0 and len(mine[member]) <= fair + 1:
                excess = 0
            for id in movable[len(movable) - excess :] if excess else []:
                kept[member].remove(id)
                revoked[member].append(id)
                lacking -= 1
