"""The controller's records alone give the same metadata again, whatever clients request."""

from __future__ import annotations

import uuid
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.core.decisions.config_changes import Operation, change_configs, replace_configs
from ottla.core.decisions.decision import Decision, record_version
from ottla.core.decisions.elections import elect_leaders
from ottla.core.decisions.feature_updates import update_features
from ottla.core.decisions.partitions import create_partitions
from ottla.core.decisions.producer_ids import allocate_producer_ids
from ottla.core.decisions.topics import create_topics, delete_topics
from ottla.core.image.features import INITIAL_FEATURES
from ottla.core.image.image import NO_LEADER, EndpointImage, MetadataDelta, MetadataImage
from ottla.core.image.snapshot_records import image_records
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.framing import decode_metadata_record, encode_metadata_record
from ottla.protocol.schema import Message
from support.core.metadata import (
    DEFAULTS,
    NOTHING_CONFIGURED,
    RULES,
    SeededRandomness,
    directory_of,
    image_with_brokers,
    started_broker,
    stopped_broker,
    topic,
)

NAMES = st.sampled_from(["a", "b", "c", "a.b", "a_b", "d" * 249, "", "not good", "__consumer_offsets"])
# Mostly valid requests: an empty state proves nothing.
COUNTS = st.sampled_from([-1, 1, 2, 3, -1, 1, 2, 3, 0, -2])
FACTORS = st.sampled_from([-1, 1, 1, 2, -1, 1, 0, 4])
BROKERS = st.integers(1, 3)
CONFIG_NAMES = st.sampled_from(["retention.ms", "cleanup.policy", "min.insync.replicas", "nonsense"])
CONFIG_VALUES = st.sampled_from(["1", "compact", "delete", "soon", ""])
ASSIGNMENTS = st.one_of(
    st.just({}),
    st.just({}),
    st.just({0: [1], 1: [1]}),
    st.dictionaries(st.integers(0, 2), st.lists(BROKERS, max_size=3), min_size=1, max_size=3),
)
CONFIGS = st.one_of(
    st.just({}),
    st.just({"retention.ms": "1"}),
    st.dictionaries(
        st.sampled_from(["retention.ms", "nonsense"]), st.sampled_from(["1", "soon"]), max_size=2
    ),
)
RESOURCES = st.one_of(
    st.tuples(st.just(2), NAMES),
    st.tuples(st.just(4), st.sampled_from(["", "1", "9", "x"])),
    st.tuples(st.just(32), st.sampled_from(["", "group"])),
    st.tuples(st.just(16), st.sampled_from(["", "metrics"])),
)


class ControllerRequests(RuleBasedStateMachine):
    """A controller's image, and all records that it was made of, as bytes."""

    @initialize(seed=st.integers(0, 2**16))
    def start(self, seed: int) -> None:
        self.image = MetadataImage()
        self.written: list[bytes] = []
        self.random = SeededRandomness(seed)
        self.epoch = 0
        self.append([FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL_FEATURES])
        for broker_id in (1, 2):
            self.start_broker(broker_id)
        request = CreateTopicsRequest(topics=[topic("first", 2, 1), topic("second", 1, 2)])
        self.decide(create_topics(self.image, request, DEFAULTS, NOTHING_CONFIGURED, self.random))

    def append(self, records: list[Message]) -> None:
        delta = MetadataDelta()
        for record in records:
            self.written.append(encode_metadata_record(record, record_version(record)))
            self.image.apply(record, delta)

    def decide(self, decision: Decision[object]) -> None:
        self.append(decision.records)

    @rule(broker_id=BROKERS)
    def start_broker(self, broker_id: int) -> None:
        self.epoch += 1
        endpoints = [EndpointImage("PLAINTEXT", "host", 9092)]
        directory, incarnation = directory_of(broker_id), uuid.UUID(int=self.epoch)
        self.append(
            started_broker(self.image, broker_id, self.epoch, incarnation, endpoints, None, directory)
        )

    @rule(broker_id=BROKERS)
    def stop_broker(self, broker_id: int) -> None:
        if broker_id in self.image.brokers and self.image.brokers[broker_id].active:
            self.append(stopped_broker(self.image, broker_id))

    @rule(
        names=st.lists(NAMES, min_size=1, max_size=3),
        partitions=COUNTS,
        factor=FACTORS,
        assignments=ASSIGNMENTS,
        config=CONFIGS,
        validate_only=st.booleans(),
    )
    def create(
        self,
        names: list[str],
        partitions: int,
        factor: int,
        assignments: dict[int, list[int]],
        config: dict[str, str | None],
        validate_only: bool,
    ) -> None:
        topics = [topic(name, partitions, factor, configs=config, assignments=assignments) for name in names]
        request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
        self.decide(create_topics(self.image, request, DEFAULTS, NOTHING_CONFIGURED, self.random))

    @rule(names=st.lists(NAMES, max_size=3))
    def delete(self, names: list[str]) -> None:
        self.decide(delete_topics(self.image, DeleteTopicsRequest(topic_names=names), None))

    @rule(name=NAMES, count=COUNTS)
    def grow(self, name: str, count: int) -> None:
        asked = CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[asked])
        self.decide(create_partitions(self.image, request, self.random))

    @rule(
        resource=RESOURCES,
        name=CONFIG_NAMES,
        operation=st.sampled_from(Operation),
        value=st.one_of(st.none(), CONFIG_VALUES),
    )
    def change(self, resource: tuple[int, str], name: str, operation: Operation, value: str | None) -> None:
        changes = [(name, operation, value)]
        with suppress(KafkaError):
            self.append(change_configs(self.image, NOTHING_CONFIGURED, *resource, changes))

    @rule(resource=RESOURCES, values=st.dictionaries(CONFIG_NAMES, CONFIG_VALUES, max_size=2))
    def replace(self, resource: tuple[int, str], values: dict[str, str | None]) -> None:
        with suppress(KafkaError):
            self.append(replace_configs(self.image, NOTHING_CONFIGURED, *resource, values))

    @rule(kind=st.integers(0, 1))
    def elect(self, kind: int) -> None:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        self.decide(elect_leaders(self.image, request, RULES))

    @rule(level=st.integers(0, 3), kind=st.integers(1, 3))
    def update_transactions(self, level: int, kind: int) -> None:
        key = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
        self.decide(update_features(self.image, UpdateFeaturesRequest(feature_updates=[key]), 2))

    @rule()
    def take_producer_ids(self) -> None:
        if 1 in self.image.brokers:
            self.decide(allocate_producer_ids(self.image, 1, self.image.brokers[1].broker_epoch))

    @invariant()
    def records_make_the_same_image(self) -> None:
        replayed = MetadataImage()
        delta = MetadataDelta()
        for data in self.written:
            replayed.apply(decode_metadata_record(data), delta)
        assert replayed == self.image

    @invariant()
    def a_snapshot_makes_the_same_image(self) -> None:
        restored = MetadataImage()
        delta = MetadataDelta()
        for record in image_records(self.image):
            restored.apply(
                decode_metadata_record(encode_metadata_record(record, record_version(record))), delta
            )
        assert restored == self.image

    @invariant()
    def partitions_make_sense(self) -> None:
        for made in self.image.topics.values():
            assert self.image.topics_by_id[made.topic_id] is made
            assert sorted(made.partitions) == list(range(len(made.partitions)))
            for partition in made.partitions.values():
                assert len(set(partition.replicas)) == len(partition.replicas) == len(partition.directories)
                assert set(partition.isr) <= set(partition.replicas)
                assert not set(partition.elr) & set(partition.isr)
                if partition.leader != NO_LEADER:
                    assert partition.leader in partition.isr


ControllerRequests.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestControllerRequests = ControllerRequests.TestCase


@given(st.integers(0, 2**63 - 1001))
def test_blocks_of_producer_ids_never_overlap(first: int) -> None:
    image = image_with_brokers([1])
    image.next_producer_id = first
    decision = allocate_producer_ids(image, 1, 101)
    delta = MetadataDelta()
    for record in decision.records:
        image.apply(record, delta)
    assert decision.response.first == first
    assert image.next_producer_id == first + decision.response.size
