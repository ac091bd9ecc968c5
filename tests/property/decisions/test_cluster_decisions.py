"""No decision of the controller loses a committed record, whatever brokers and administrators do.

A small cluster with a model of its logs: the number of records that each replica has, and that are committed
(in sync everywhere, on enough replicas). Brokers crash, lose the tails of their logs, stop, restart and
change in-sync sets; administrators elect and reassign; the controller fails over.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.decisions.balance import balance_leaders, elect_missing_leaders
from ottla.core.decisions.config_changes import Operation, change_configs
from ottla.core.decisions.decision import Decision, record_version
from ottla.core.decisions.directories import assign_replicas_to_dirs, wanted_assignment
from ottla.core.decisions.elections import elect_leaders
from ottla.core.decisions.heartbeats import BrokerHeartbeats
from ottla.core.decisions.in_sync import alter_partition
from ottla.core.decisions.partition_changes import RECOVERING, TopicRules, topic_rules
from ottla.core.decisions.reassignments import alter_partition_reassignments, is_reassigning
from ottla.core.decisions.registration import register_broker
from ottla.core.decisions.topics import create_topics
from ottla.core.decisions.unregistration import unregister_broker
from ottla.core.image.features import INITIAL_FEATURES, SUPPORTED_FEATURES
from ottla.core.image.image import (
    NO_LEADER,
    TOPIC_RESOURCE,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    PartitionKey,
    TopicImage,
)
from ottla.protocol.errors import DuplicateBrokerRegistration, ErrorCode
from ottla.protocol.messages import alter_partition_reassignments_request as reassignments
from ottla.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.framing import decode_metadata_record, encode_metadata_record
from ottla.protocol.schema import Message
from support.core.metadata import DEFAULTS, NOTHING_CONFIGURED, SeededRandomness, topic
from support.exploration import examples

SESSION_MS = 9_000
BROKERS = st.integers(1, 4)
CHOICES = st.integers(0, 1_000)


def directory_of(broker_id: int, number: int = 0) -> uuid.UUID:
    return uuid.UUID(int=1_000 * (number + 1) + broker_id)


class Cluster(RuleBasedStateMachine):
    """A controller's image, its brokers as processes, and the content of their logs."""

    @initialize(seed=st.integers(0, 2**16), elr=st.booleans())
    def start(self, seed: int, elr: bool) -> None:
        self.image = MetadataImage()
        self.now_ms = 0
        self.heartbeats = BrokerHeartbeats(SESSION_MS)
        self.logs: dict[PartitionKey, dict[int, int]] = {}
        self.committed: dict[PartitionKey, int] = {}
        self.targets: dict[PartitionKey, tuple[int, ...]] = {}
        #: Running processes, with the epoch that they know.
        self.running: dict[int, int] = {}
        #: The epoch of the last run, for brokers that can prove that it ended cleanly.
        self.ended_cleanly: dict[int, int] = {}
        self.incarnations = 0
        self.unclean_by_hand = False
        self.not_eligible: set[int] = set()
        #: Replicas that a leader has just declared to be in sync.
        self.proposed: list[int] = []
        #: The last leader epoch that a living leader has seen, and partitions elected uncleanly since.
        self.led: dict[PartitionKey, int] = {}
        self.may_lose: set[PartitionKey] = set()
        # Without eligible leader replicas the last one in sync leads again, even if it has lost records.
        self.may_crash_with_loss = elr
        levels = dict(INITIAL_FEATURES)
        levels["eligible.leader.replicas.version"] = int(elr)
        self.append([FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()])
        for broker_id in (1, 2, 3, 4):
            self.register(broker_id)
            self.heartbeat(broker_id)
        request = CreateTopicsRequest(
            topics=[
                topic("safe", 1, 3, configs={"min.insync.replicas": "2"}),
                topic("strict", 1, 3, configs={"min.insync.replicas": "3"}),
                topic("single", 1, 1),
                topic("unclean", 1, 2, configs={"unclean.leader.election.enable": "true"}),
            ]
        )
        decision = create_topics(self.image, request, DEFAULTS, NOTHING_CONFIGURED, SeededRandomness(seed))
        self.append(decision.records)
        for made in self.image.topics.values():
            for partition in made.partitions.values():
                key = (made.topic_id, partition.partition_id)
                self.logs[key] = dict.fromkeys(partition.replicas, 3)
                self.committed[key] = 3
                self.led[key] = 0

    # -- the controller -------------------------------------------------------------------------------

    @property
    def now_rules(self) -> TopicRules:
        return topic_rules(self.image, NOTHING_CONFIGURED)

    def append(self, records: list[Message]) -> None:
        """Apply records as they come back from the log, and check each change."""
        for record in records:
            before = self.image.copy()
            data = encode_metadata_record(record, record_version(record))
            delta = MetadataDelta()
            self.image.apply(decode_metadata_record(data), delta)
            self.image.last_offset += 1
            for topic_id, index in delta.changed_partitions:
                made = self.image.topics_by_id[topic_id]
                if topic_id in before.topics_by_id and record.API_KEY == 5:
                    old = before.topics_by_id[topic_id].partitions[index]
                    self.check_change(made, old, made.partitions[index])

    def decide(self, decision: Decision[object]) -> None:
        self.append(decision.records)
        self.leaders_begin()
        for made in self.image.topics.values():
            for partition in made.partitions.values():
                if partition.leader != NO_LEADER:
                    assert self.image.brokers[partition.leader].active, "a leader is fenced or stops"

    def check_change(self, made: TopicImage, old: PartitionImage, new: PartitionImage) -> None:
        key = (made.topic_id, new.partition_id)
        removed = set(old.replicas) - set(new.replicas)
        assert new.partition_epoch == old.partition_epoch + 1
        assert new.leader_epoch == old.leader_epoch + int(new.leader != old.leader or bool(removed))
        if is_reassigning(old) and not is_reassigning(new) and key in self.targets:
            was_cancelled = set(new.replicas) == set(old.replicas).difference(old.adding_replicas)
            assert new.replicas == self.targets.pop(key)
            assert was_cancelled or set(new.isr) == set(new.replicas), "it ended before all were in sync"
        logs = self.logs[key]
        for replica in removed:
            logs.pop(replica, None)  # its log is deleted
        for replica in new.replicas:
            logs.setdefault(replica, 0)
        if new.leader in (NO_LEADER, old.leader, *old.isr, *old.elr, *self.proposed):
            return
        # After a return without records, or an unregistration, only the last known leader may be left.
        last_known = old.last_known_elr == (new.leader,) and {*old.elr, *old.isr} <= self.not_eligible
        allowed = self.unclean_by_hand or self.now_rules.may_elect_uncleanly(made.name)
        assert allowed or last_known, "an unclean election that nobody allowed"
        assert new.leader_recovery_state == RECOVERING
        assert new.isr == (new.leader,)
        self.may_lose.add(key)

    def leaders_begin(self) -> None:
        """Each living leader notices that it leads: it must have all committed records."""
        for made in self.image.topics.values():
            for partition in made.partitions.values():
                key = (made.topic_id, partition.partition_id)
                if partition.leader_epoch <= self.led[key] or not self.is_current(partition.leader):
                    continue
                self.led[key] = partition.leader_epoch
                logs = self.logs[key]
                if key in self.may_lose:
                    self.may_lose.discard(key)
                    self.committed[key] = min(self.committed[key], logs[partition.leader])
                assert logs[partition.leader] >= self.committed[key], "a committed record is lost"
                for replica in logs:  # followers cut the records that the leader does not have
                    logs[replica] = min(logs[replica], logs[partition.leader])

    # -- brokers --------------------------------------------------------------------------------------

    def register(self, broker_id: int) -> None:
        self.incarnations += 1
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="cluster",
            incarnation_id=uuid.UUID(int=self.incarnations),
            listeners=[Listener(name="PLAINTEXT", host="host", port=9_000 + broker_id, security_protocol=0)],
            features=[
                Feature(name=name, min_supported_version=smallest, max_supported_version=largest)
                for name, (smallest, largest) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[directory_of(broker_id), directory_of(broker_id, 1)],
            previous_broker_epoch=self.ended_cleanly.pop(broker_id, -1),
        )
        decision = register_broker(
            self.image,
            request,
            self.now_rules,
            cluster_id="cluster",
            is_alive=self.heartbeats.is_alive(self.image, broker_id, self.now_ms),
            api_version=4,
        )
        epoch = decision.response.broker_epoch
        assert epoch == self.image.last_offset + len(decision.records)
        self.not_eligible = {broker_id}
        self.decide(decision)
        self.not_eligible = set()
        assert self.image.brokers[broker_id].broker_epoch == epoch
        self.running[broker_id] = epoch

    def heartbeat(self, broker_id: int, want_shut_down: bool = False, offset: int | None = None) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.running[broker_id],
            current_metadata_offset=self.image.last_offset if offset is None else offset,
            want_fence=False,
            want_shut_down=want_shut_down,
        )
        decision = self.heartbeats.on_broker_heartbeat(self.image, request, self.now_ms, self.now_rules)
        self.decide(decision)
        assert self.image.brokers[broker_id].fenced == decision.response.is_fenced
        if decision.response.should_shut_down:
            self.ended_cleanly[broker_id] = self.running.pop(broker_id)

    def is_current(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and self.running.get(broker_id) == broker.broker_epoch

    @rule(broker_id=BROKERS, want_shut_down=st.sampled_from([False, False, True]), caught_up=st.booleans())
    def heartbeats_come(self, broker_id: int, want_shut_down: bool, caught_up: bool) -> None:
        if self.is_current(broker_id):
            self.heartbeat(broker_id, want_shut_down, None if caught_up else 0)

    @rule(broker_id=BROKERS, lost=st.sampled_from([0, 1, 9]))
    def crashes(self, broker_id: int, lost: int) -> None:
        self.crash(broker_id, lost)

    def crash(self, broker_id: int, lost: int) -> None:
        """The process dies, and its unsynced records are lost."""
        if self.running.pop(broker_id, None) is not None:
            for logs in self.logs.values():
                if broker_id in logs:
                    logs[broker_id] = max(0, logs[broker_id] - lost * self.may_crash_with_loss)

    @rule(broker_id=BROKERS)
    def restarts(self, broker_id: int) -> None:
        self.restart(broker_id)

    def restart(self, broker_id: int) -> None:
        if broker_id not in self.running:
            with suppress(DuplicateBrokerRegistration):
                self.register(broker_id)
                self.heartbeat(broker_id)

    @rule(broker_id=BROKERS, others_die_too=st.booleans())
    def crash_and_restart(self, broker_id: int, others_die_too: bool) -> None:
        """A broker restarts without the tail of its log, perhaps as the last one."""
        self.crash(broker_id, 9)
        self.a_session_passes(())
        self.restart(broker_id)
        if others_die_too:
            for other in list(self.running):
                if other != broker_id:
                    self.crash(other, 0)
            self.a_session_passes(())

    @rule(silent=st.sampled_from([(), (), (1,), (2, 3), (1, 2, 3, 4)]))
    def time_passes(self, silent: tuple[int, ...]) -> None:
        self.a_session_passes(silent)

    def a_session_passes(self, silent: tuple[int, ...]) -> None:
        """Dead processes are fenced, and those that could not be heard."""
        self.now_ms += SESSION_MS
        for broker_id in list(self.running):
            if broker_id not in silent and self.is_current(broker_id):
                self.heartbeat(broker_id)
        while True:
            decision = self.heartbeats.fence_expired(self.image, self.now_ms, self.now_rules)
            self.decide(decision)
            if decision.response is None:
                break
            assert self.image.brokers[decision.response].fenced
        wake_ms = self.heartbeats.next_wake_ms(self.image)
        assert wake_ms is None or wake_ms > self.now_ms

    @rule()
    def another_controller(self) -> None:
        self.heartbeats = BrokerHeartbeats.of_new_controller(self.image, SESSION_MS, self.now_ms)

    @rule(broker_id=BROKERS)
    @precondition(lambda self: len(self.running) < 4)
    def unregister(self, broker_id: int) -> None:
        if broker_id in self.image.brokers and broker_id not in self.running:
            request = UnregisterBrokerRequest(broker_id=broker_id)
            self.not_eligible = {broker_id}
            self.decide(unregister_broker(self.image, request, self.now_rules))
            self.not_eligible = set()
            self.ended_cleanly.pop(broker_id, None)

    @rule(broker_id=BROKERS, number=st.integers(0, 1))
    def a_directory_fails(self, broker_id: int, number: int) -> None:
        if not self.is_current(broker_id) or len(self.image.brokers[broker_id].log_dirs) < 2:
            return
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.running[broker_id],
            current_metadata_offset=self.image.last_offset,
            offline_log_dirs=[directory_of(broker_id, number)],
        )
        self.decide(self.heartbeats.on_broker_heartbeat(self.image, request, self.now_ms, self.now_rules))

    @rule(broker_id=BROKERS, number=st.integers(0, 1))
    def replicas_are_placed(self, broker_id: int, number: int) -> None:
        if self.is_current(broker_id):
            request = wanted_assignment(self.image, broker_id, directory_of(broker_id, number))
            if request is not None:
                self.decide(assign_replicas_to_dirs(self.image, request, self.now_rules))
                assert wanted_assignment(self.image, broker_id, directory_of(broker_id, number)) is None

    # -- partitions -----------------------------------------------------------------------------------

    def some_partition(self, choice: int) -> tuple[TopicImage, PartitionImage, PartitionKey]:
        found = [
            (made, partition, (made.topic_id, partition.partition_id))
            for made in self.image.topics.values()
            for partition in made.partitions.values()
        ]
        return found[choice % len(found)]

    def commit(self, made: TopicImage, partition: PartitionImage, key: PartitionKey) -> None:
        """The leader's high watermark: the records that all
        in-sync replicas have, if there are enough of these.
        """
        enough = min(self.now_rules.min_insync_replicas(made.name), len(partition.replicas))
        if len(partition.isr) >= enough:
            reached = min(self.logs[key][replica] for replica in partition.isr)
            self.committed[key] = max(self.committed[key], reached)

    @rule(choice=CHOICES, count=st.integers(1, 3), followers=st.booleans())
    def write(self, choice: int, count: int, followers: bool) -> None:
        made, partition, key = self.some_partition(choice)
        if self.is_current(partition.leader):
            self.logs[key][partition.leader] += count
            if followers:
                self.replicate(partition, key)
            self.commit(made, partition, key)

    def replicate(self, partition: PartitionImage, key: PartitionKey) -> None:
        for replica in partition.replicas:
            if self.is_current(replica):
                self.logs[key][replica] = self.logs[key][partition.leader]

    @rule(
        choice=CHOICES,
        keep=st.sampled_from([0, 1, 2, 4, 15, 15]),
        stale=st.sampled_from([False, False, False, True]),
    )
    def change_in_sync_set(self, choice: int, keep: int, stale: bool) -> None:
        """The leader adds replicas that have all its records, and removes some that have not."""
        made, partition, key = self.some_partition(choice)
        leader, logs = partition.leader, self.logs[key]
        if not self.is_current(leader):
            return
        isr = [
            replica
            for position, replica in enumerate(partition.replicas)
            if replica == leader
            or (logs[replica] == logs[leader] and self.is_current(replica) and keep >> position & 1)
        ]
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.running[leader],
            topics=[
                TopicData(
                    topic_id=made.topic_id,
                    partitions=[
                        PartitionData(
                            partition_index=partition.partition_id,
                            leader_epoch=partition.leader_epoch,
                            partition_epoch=partition.partition_epoch - int(stale),
                            leader_recovery_state=0,
                            new_isr_with_epochs=[
                                BrokerState(broker_id=each, broker_epoch=self.running.get(each, -1))
                                for each in isr
                            ],
                        )
                    ],
                )
            ],
        )
        decision = alter_partition(self.image, request, self.now_rules)
        answer = decision.response.topics[0].partitions[0]
        if stale:
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
            assert not decision.records
        self.proposed = isr
        self.decide(decision)
        self.proposed = []
        after = self.current(key)
        if answer.error_code == ErrorCode.NONE:
            assert (answer.isr, answer.partition_epoch) == (list(after.isr), after.partition_epoch)
            assert set(after.isr) == set(isr) & set(after.replicas)
            self.commit(made, after, key)

    def current(self, key: PartitionKey) -> PartitionImage:
        return self.image.topics_by_id[key[0]].partitions[key[1]]

    @rule(choice=CHOICES, wanted=st.one_of(st.none(), st.lists(BROKERS, min_size=1, max_size=3, unique=True)))
    def reassign(self, choice: int, wanted: list[int] | None) -> None:
        made, partition, key = self.some_partition(choice)
        request = reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                reassignments.ReassignableTopic(
                    name=made.name,
                    partitions=[
                        reassignments.ReassignablePartition(
                            partition_index=partition.partition_id, replicas=wanted
                        )
                    ],
                )
            ]
        )
        decision = alter_partition_reassignments(self.image, request, self.now_rules)
        error = decision.response.responses[0].partitions[0].error_code
        if error == ErrorCode.NONE:
            original = [each for each in partition.replicas if each not in partition.adding_replicas]
            self.targets[key] = tuple(original if wanted is None else wanted)
        self.decide(decision)
        after = self.current(key)
        if error == ErrorCode.NONE and not is_reassigning(after):
            assert after.replicas == self.targets.pop(key, after.replicas)

    @rule(kind=st.integers(0, 1))
    def elect(self, kind: int) -> None:
        self.unclean_by_hand = kind == 1
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        self.decide(elect_leaders(self.image, request, self.now_rules))
        self.unclean_by_hand = False

    @rule(decide=st.sampled_from([balance_leaders, elect_missing_leaders]), at_most=st.integers(1, 3))
    def background(
        self, decide: Callable[[MetadataImage, TopicRules, int], Decision[bool]], at_most: int
    ) -> None:
        decision = decide(self.image, self.now_rules, at_most)
        assert len(decision.records) <= at_most
        self.decide(decision)

    @rule(name=st.sampled_from(["safe", "strict", "single", "unclean"]), min_isr=st.integers(1, 3))
    def change_min_isr(self, name: str, min_isr: int) -> None:
        changes = [("min.insync.replicas", Operation.SET, str(min_isr))]
        self.append(change_configs(self.image, NOTHING_CONFIGURED, TOPIC_RESOURCE, name, changes))

    # -- always ---------------------------------------------------------------------------------------

    @invariant()
    def partitions_make_sense(self) -> None:
        has_elr = bool(self.image.features.get("eligible.leader.replicas.version"))
        for made in self.image.topics.values():
            for partition in made.partitions.values():
                replicas = set(partition.replicas)
                assert len(replicas) == len(partition.replicas) == len(partition.directories)
                assert len(set(partition.isr)) == len(partition.isr)
                assert set(partition.isr) <= replicas
                assert set(partition.elr) <= replicas - set(partition.isr)
                assert {*partition.adding_replicas, *partition.removing_replicas} <= replicas
                if partition.leader != NO_LEADER:
                    assert partition.leader in partition.isr
                if partition.elr:
                    assert has_elr
                    wanted = min(self.now_rules.min_insync_replicas(made.name), len(replicas))
                    assert len(partition.isr) < wanted

    @invariant()
    def indexes_are_right(self) -> None:
        everything = [
            (made.name, partition)
            for made in self.image.topics.values()
            for partition in made.partitions.values()
        ]
        for broker_id in (1, 2, 3, 4):
            found = [(made.name, each) for made, each in self.image.partitions_of_broker(broker_id)]
            expected = [each for each in everything if broker_id in each[1].replicas]
            assert sorted(found) == sorted(expected)
        found = [(made.name, each) for made, each in self.image.leaderless_partitions()]
        assert sorted(found) == sorted(each for each in everything if each[1].leader == NO_LEADER)


Cluster.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestCluster = Cluster.TestCase
