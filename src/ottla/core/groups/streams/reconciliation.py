"""A member's steps from the tasks it holds to its target, one with each heartbeat.

Theory of operation. A member first revokes the tasks that are not in its target, and confirms that by no
longer naming them as its own (UNREVOKED_TASKS until then, in its old epoch). Then it enters the target's
epoch and gets the new tasks that are free; it waits for tasks that other members still hold
(UNRELEASED_TASKS). An active task is free when no member has it in that role and no other member of the same
process has it in another one; a standby or warm-up when no other member of the same process has it in any
role. So a task is active at one member at a time, and a process's state directory is used by one task at a
time. A member that has the task in another role changes the role, and need not close the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ottla.core.groups.streams.group import MemberState, StreamsGroup, StreamsMember
from ottla.core.groups.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    TargetTasks,
    TaskId,
    TaskRole,
    Tasks,
    union,
)


class MustRejoin(Exception):
    """The member's state is of an unknown version. Answered FENCED_MEMBER_EPOCH."""


def reconcile(
    group: StreamsGroup,
    member: StreamsMember,
    target_epoch: int,
    target: TargetTasks,
    owned: TargetTasks | None,
) -> StreamsMember:
    """The member after one step towards `target`; `owned`
    are the tasks it names, None if its heartbeat names none.
    """
    if member.is_reconciled_to(target_epoch):
        return member
    match member.state:
        case MemberState.STABLE | MemberState.UNRELEASED_TASKS:
            return _next_step(group, member, member.epoch, target_epoch, target, owned)
        case MemberState.UNREVOKED_TASKS:
            if owned is None or owned.has_any_of(member.pending_revocation):
                return member
            return _next_step(group, member, member.epoch + 1, target_epoch, target, owned)
        case MemberState.UNKNOWN:
            if owned is None or not owned.is_empty():
                raise MustRejoin(
                    "The streams group member is in a unknown state. "
                    "The member must abandon all its tasks and rejoin."
                )
            return _next_step(group, member, target_epoch, target_epoch, target, owned)


def _next_step(
    group: StreamsGroup,
    member: StreamsMember,
    epoch: int,
    target_epoch: int,
    target: TargetTasks,
    owned: TargetTasks | None,
) -> StreamsMember:
    free = _Free(group, member)
    held = member.assigned
    kept_active, revoked_active = _split_active(held.active, target.active)
    kept_standby, revoked_standby = _split(held.standby, target.standby)
    kept_warmup, revoked_warmup = _split(held.warmup, target.warmup)
    new_active, waits_active = _new(kept_active, target.active, free.as_active)
    new_standby, waits_standby = _new(kept_standby, target.standby, free.as_standby)
    new_warmup, waits_warmup = _new(kept_warmup, target.warmup, free.as_warmup)
    # A task changes its role at the member without being closed. An active task becomes a standby at once, as
    # do standbys and warm-ups the other; one that is to be active stays a copy until it is the member's.
    held_active = {name: frozenset(epochs) for name, epochs in held.active.items()}
    demoted = _common(held_active, new_standby)
    to_warmup, to_standby = _common(held.standby, new_warmup), _common(held.warmup, new_standby)
    kept_standby = union(union(kept_standby, demoted), to_standby)
    kept_warmup = union(kept_warmup, to_warmup)
    new_standby = _without(_without(new_standby, demoted), to_standby)
    new_warmup = _without(new_warmup, to_warmup)
    revoked = HeldTasks(
        revoked_active,
        _without(_without(revoked_standby, to_warmup), target.active),
        _without(_without(revoked_warmup, to_standby), target.active),
    )
    must_revoke = not revoked.is_empty() and (owned is None or owned.has_any_of(revoked))
    granted: Tasks = {} if must_revoke else new_active
    kept = HeldTasks(
        kept_active,
        union(kept_standby, _without(_common(held.standby, target.active), granted)),
        union(kept_warmup, _without(_common(held.warmup, target.active), granted)),
    )
    if must_revoke:
        return replace(
            member,
            state=MemberState.UNREVOKED_TASKS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    new = HeldTasks(
        {name: dict.fromkeys(sorted(partitions), target_epoch) for name, partitions in new_active.items()},
        new_standby,
        new_warmup,
    )
    waits = waits_active or waits_standby or waits_warmup
    return replace(
        member,
        state=MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=kept.merged_with(new),
        pending_revocation=NOTHING_HELD,
    )


class _Free:
    """Which tasks a member may take now in each role."""

    def __init__(self, group: StreamsGroup, member: StreamsMember) -> None:
        self._group = group
        self._process_id = member.process_id
        self._own = set(member.assigned)

    def as_active(self, task: TaskId) -> bool:
        return (
            not self._group.is_held(TaskRole.ACTIVE, task)
            and not self._is_at_another(TaskRole.STANDBY, task)
            and not self._is_at_another(TaskRole.WARMUP, task)
        )

    def as_standby(self, task: TaskId) -> bool:
        return (
            not self._is_at_another(TaskRole.ACTIVE, task)
            and not self._is_here(TaskRole.STANDBY, task)
            and not self._is_at_another(TaskRole.WARMUP, task)
        )

    def as_warmup(self, task: TaskId) -> bool:
        return (
            not self._is_here(TaskRole.ACTIVE, task)
            and not self._is_at_another(TaskRole.STANDBY, task)
            and not self._is_here(TaskRole.WARMUP, task)
        )

    def _is_here(self, role: TaskRole, task: TaskId) -> bool:
        """Whether a member of the process has the task in the role, this one included."""
        return self._group.is_held_in(self._process_id, role, task)

    def _is_at_another(self, role: TaskRole, task: TaskId) -> bool:
        """Whether another member of the process has the task in the role."""
        return (role, task) not in self._own and self._is_here(role, task)


def _common(some: Tasks, others: Tasks) -> Tasks:
    """The tasks that both have."""
    return {name: both for name in some if (both := some[name] & others.get(name, frozenset()))}


def _without(some: Tasks, others: Tasks) -> Tasks:
    """The tasks of `some` that `others` lacks."""
    return {name: rest for name in some if (rest := some[name] - others.get(name, frozenset()))}


def _split_active(
    held: Mapping[str, Mapping[int, int]], target: Mapping[str, frozenset[int]]
) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
    """The tasks of `held` that stay, and those that go; each with the epoch in which it was given."""
    kept, revoked = {}, {}
    for name, epochs in held.items():
        wanted = target.get(name, frozenset())
        stays = {partition: epoch for partition, epoch in epochs.items() if partition in wanted}
        goes = {partition: epoch for partition, epoch in epochs.items() if partition not in wanted}
        if stays:
            kept[name] = stays
        if goes:
            revoked[name] = goes
    return kept, revoked


def _split(held: Mapping[str, frozenset[int]], target: Mapping[str, frozenset[int]]) -> tuple[Tasks, Tasks]:
    """The tasks of `held` that stay, and those that go."""
    kept = {name: stays for name in held if (stays := held[name] & target.get(name, frozenset()))}
    revoked = {name: goes for name in held if (goes := held[name] - target.get(name, frozenset()))}
    return kept, revoked


def _new(
    kept: Mapping[str, Iterable[int]], target: Mapping[str, frozenset[int]], is_free: Callable[[TaskId], bool]
) -> tuple[Tasks, bool]:
    """The new tasks of `target` that are free, and whether there are others that are not."""
    new = {}
    waits = False
    for name, partitions in target.items():
        wanted = partitions.difference(kept.get(name, ()))
        free = frozenset(partition for partition in wanted if is_free(TaskId(name, partition)))
        waits = waits or len(free) < len(wanted)
        if free:
            new[name] = free
    return new, waits
