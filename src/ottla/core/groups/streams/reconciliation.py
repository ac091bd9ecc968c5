"""A member's steps from the tasks it holds to its target, one with each heartbeat.

Theory of operation. A member first revokes the tasks that are not in its target, and confirms that by no
longer naming them as its own (UNREVOKED_TASKS until then, in its old epoch). Then it enters the target's
epoch and gets the new tasks that are free; it waits for tasks that other members still hold
(UNRELEASED_TASKS). An active task is free when no member has it in that role and no member of the same
process has it in another one; a standby or warm-up when no member of the same process has it in any role. So
a task is active at one member at a time, and a process's state directory is used by one task at a time.
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
    process_id = member.process_id

    def active_is_free(task: TaskId) -> bool:
        return (
            not group.is_held(TaskRole.ACTIVE, task)
            and not group.is_held_in(process_id, TaskRole.STANDBY, task)
            and not group.is_held_in(process_id, TaskRole.WARMUP, task)
        )

    def copy_is_free(task: TaskId) -> bool:
        return not any(group.is_held_in(process_id, role, task) for role in TaskRole)

    held = member.assigned
    kept_active, revoked_active = _split_active(held.active, target.active)
    kept_standby, revoked_standby = _split(held.standby, target.standby)
    kept_warmup, revoked_warmup = _split(held.warmup, target.warmup)
    new_active, waits_active = _new(kept_active, target.active, active_is_free)
    new_standby, waits_standby = _new(kept_standby, target.standby, copy_is_free)
    new_warmup, waits_warmup = _new(kept_warmup, target.warmup, copy_is_free)
    kept = HeldTasks(kept_active, kept_standby, kept_warmup)
    revoked = HeldTasks(revoked_active, revoked_standby, revoked_warmup)
    if not revoked.is_empty() and (owned is None or owned.has_any_of(revoked)):
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


def _split(
    held: Mapping[str, frozenset[int]], target: Mapping[str, frozenset[int]]
) -> tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]:
    """The tasks of `held` that stay, and those that go."""
    kept = {name: stays for name in held if (stays := held[name] & target.get(name, frozenset()))}
    revoked = {name: goes for name in held if (goes := held[name] - target.get(name, frozenset()))}
    return kept, revoked


def _new(
    kept: Mapping[str, Iterable[int]], target: Mapping[str, frozenset[int]], is_free: Callable[[TaskId], bool]
) -> tuple[dict[str, frozenset[int]], bool]:
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
