"""Broken cores: each violates one rule, to show that the simulation notices.

A mutation breaks one rule of the real core, or of the simulated shell if the shell has to keep the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.core.decisions import in_sync, partition_changes
from ottla.core.quorum import election, leader, voting
from ottla.core.quorum.api import Effect, SaveElection
from ottla.core.quorum.node import Node
from ottla.core.replica.leader import PartitionLeader
from ottla.protocol.errors import ErrorCode
from ottla.storage.producer_states import ProducerStates
from simulation import broker_node, controller_node
from simulation.quorum_node import QuorumNode


class Patch(Protocol):
    """The part of pytest's monkeypatch that mutations need."""

    def setattr(self, target: Any, name: str, value: Any) -> None:
        """Replace an attribute."""


Mutation = Callable[[Patch], None]


# -- the quorum ----------------------------------------------------------------------------------------------


def vote_counted_twice(patch: Patch) -> None:
    """A granted vote counts for two."""
    patch.setattr(election.Tally, "won", property(_won_twice))


def _won_twice(tally: election.Tally) -> bool:
    return 2 * len(tally.granted) >= tally.majority


def vote_given_twice(patch: Patch) -> None:
    """A voter grants every request, even if it has voted in the epoch."""
    patch.setattr(voting, "may_vote_for", lambda election, candidate: True)


def vote_not_durable(patch: Patch) -> None:
    """The content of quorum-state is lost with the process."""
    perform = QuorumNode._perform

    def forgetful(self: QuorumNode, effect: Effect) -> None:
        if isinstance(effect, SaveElection):
            self.host.promised()
        if not isinstance(effect, SaveElection):
            perform(self, effect)

    patch.setattr(QuorumNode, "_perform", forgetful)


def vote_for_a_shorter_log(patch: Patch) -> None:
    """A voter ignores the candidate's log."""
    patch.setattr(voting, "log_is_up_to_date", lambda log, last_epoch, end_offset: True)


def old_epochs_answered(patch: Patch) -> None:
    """A request of an older epoch is carried out."""
    patch.setattr(Node, "is_over", lambda self, epoch: False)


def committed_by_a_minority(patch: Patch) -> None:
    """One replica less than a majority commits."""

    def committed(end_offsets: Any, epoch_start_offset: int) -> int | None:
        reached = int(sorted(end_offsets, reverse=True)[max(len(end_offsets) // 2 - 1, 0)])
        return reached if reached > epoch_start_offset else None

    patch.setattr(leader, "committed_offset", committed)


def synced_before_it_is(patch: Patch) -> None:
    """A sync ends before the disk has any of the bytes."""
    begin = QuorumNode._sync_soon

    def at_once(self: QuorumNode) -> None:
        begin(self)
        end = self.log.log_end_offset
        self.feed(lambda: self.quorum.on_flushed(self.host.steady_ms, end))

    patch.setattr(QuorumNode, "_sync_soon", at_once)


# -- replication ---------------------------------------------------------------------------------------------


def leader_epoch_not_checked(patch: Patch) -> None:
    """A leader answers a follower that follows another leader."""
    patch.setattr(broker_node, "check_leader_epoch", lambda known, named: None)


def divergent_tail_kept(patch: Patch) -> None:
    """A leader ignores the epoch of the follower's last record."""
    patch.setattr(broker_node, "find_divergence", lambda epoch, offset, own: None)


def acknowledged_before_committed(patch: Patch) -> None:
    """acks=all is answered when only the leader has the records."""
    patch.setattr(PartitionLeader, "acknowledgement", lambda self, end_offset: ErrorCode.NONE)


def shrunk_before_the_controller_says_so(patch: Patch) -> None:
    """A lagging replica is no longer waited for once the controller has been asked to remove it."""
    tick = PartitionLeader.on_tick

    def impatient(self: PartitionLeader, now_ms: int) -> Any:
        update = tick(self, now_ms)
        if update is not None:
            self._maximal_isr = frozenset(member.node_id for member in update.isr)
            self._move_high_watermark()
        return update

    patch.setattr(PartitionLeader, "on_tick", impatient)


def high_watermark_of_the_leader_alone(patch: Patch) -> None:
    """The high watermark is the leader's own log end."""

    def alone(self: PartitionLeader) -> None:
        self.high_watermark = self.log_end_offset

    patch.setattr(PartitionLeader, "_move_high_watermark", alone)


def min_isr_ignored(patch: Patch) -> None:
    """The high watermark moves, however few replicas are in sync."""
    patch.setattr(PartitionLeader, "has_enough_replicas", property(lambda self: True))
    patch.setattr(PartitionLeader, "min_insync_replicas", property(lambda self: 1))


def duplicates_not_recognised(patch: Patch) -> None:
    """An idempotent producer's batch is appended each time that it comes."""
    patch.setattr(ProducerStates, "check", lambda self, header, *more, **names: None)


# -- the controller ------------------------------------------------------------------------------------------


def restarted_broker_joins(patch: Patch) -> None:
    """A broker that has restarted counts as caught up, as before its restart (KIP-903)."""
    patch.setattr(in_sync, "_is_eligible", lambda image, replica, broker_epoch: True)
    patch.setattr(PartitionLeader, "_is_eligible", lambda self, node_id, follower: True)


def any_live_replica_elected(patch: Patch) -> None:
    """Any live replica may lead."""
    rules = partition_changes.topic_rules

    def lax(image: Any, layers: Any) -> Any:
        return rules(image, layers)._replace(may_elect_uncleanly=lambda topic: True)

    patch.setattr(controller_node, "topic_rules", lax)
