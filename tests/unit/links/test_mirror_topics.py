"""A mirror topic's settings: their texts, and what the controller adds to their changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.decisions.config_changes import Operation, change_configs, replace_configs
from ottla.core.image.image import MetadataDelta, MetadataImage
from ottla.core.links.topic_state import (
    MAX_TOLD,
    AbortedTransaction,
    Loss,
    LossKind,
    MalformedState,
    PartitionEnd,
    is_copied,
    is_mirror,
    mirror_state,
    normalized,
)
from ottla.core.settings.link_settings import (
    LINK_ENDS,
    LINK_EPOCHS,
    LINK_NAME,
    LINK_SOURCE_ID,
    LINK_STATE,
    LINK_TOLD,
    LINK_TOPIC_SETTINGS,
    STOPPED,
)
from ottla.protocol.errors import InvalidConfig, InvalidRequest
from ottla.protocol.records.producer_ids_record import ProducerIdsRecord
from support.core.metadata import NOTHING_CONFIGURED, apply, create, image_with_brokers, topic

MIRROR = {LINK_NAME.name: "berlin", LINK_SOURCE_ID.name: "0" * 32}
SET, DELETE, APPEND = Operation.SET, Operation.DELETE, Operation.APPEND


@pytest.fixture
def image() -> MetadataImage:
    made = image_with_brokers([1])
    create(made, topic("orders", partitions=2, configs=dict(MIRROR)), topic("mine"))
    return made


def change(image: MetadataImage, name: str, *changes: tuple[str, Operation, str | None]) -> None:
    apply(image, change_configs(image, NOTHING_CONFIGURED, 2, name, changes))


def epochs(image: MetadataImage) -> list[int]:
    return [each.leader_epoch for _, each in sorted(image.topics["orders"].partitions.items())]


def end(partition: int, producer_id: int = -1) -> str:
    return PartitionEnd(partition, 10, 11, 5, producer_id, 1, (AbortedTransaction(3, 4),)).encode()


def test_a_topic_that_was_made_as_a_mirror_is_one(image: MetadataImage) -> None:
    assert is_mirror(image, "orders") and is_copied(image, "orders")
    assert not is_mirror(image, "mine") and not is_copied(image, "mine")


def test_an_epoch_of_the_source_raises_that_of_the_partition(image: MetadataImage) -> None:
    change(image, "orders", (LINK_EPOCHS.name, APPEND, "1:7"))
    assert epochs(image) == [0, 7]
    change(image, "orders", (LINK_EPOCHS.name, APPEND, "1:5"))
    assert epochs(image) == [0, 7]
    change(image, "orders", (LINK_EPOCHS.name, APPEND, "0:2"))
    assert epochs(image) == [2, 7]
    assert image.configs[2, "orders"][LINK_EPOCHS.name] == "0:2,1:7"


def test_a_stop_raises_all_epochs_above_the_source(image: MetadataImage) -> None:
    change(image, "orders", (LINK_EPOCHS.name, APPEND, "1:7"))
    change(image, "orders", (LINK_STATE.name, SET, STOPPED), (LINK_EPOCHS.name, SET, "0:12,1:3"))
    assert epochs(image) == [13, 8]
    assert is_mirror(image, "orders") and not is_copied(image, "orders")
    state = mirror_state(image.configs[2, "orders"])
    assert state is not None and state.epochs == {0: 13, 1: 8}


def test_a_stopped_topic_is_never_copied_again(image: MetadataImage) -> None:
    change(image, "orders", (LINK_STATE.name, SET, STOPPED))
    for back in ("mirroring", "promote"):
        with pytest.raises(InvalidRequest):
            change(image, "orders", (LINK_STATE.name, SET, back))
    with pytest.raises(InvalidRequest):
        change(image, "orders", (LINK_STATE.name, DELETE, None))


def test_the_settings_go_when_all_partitions_have_reported_and_ids_rise(image: MetadataImage) -> None:
    away = [(name, DELETE, None) for name in LINK_TOPIC_SETTINGS]
    with pytest.raises(InvalidRequest):
        change(image, "orders", *away)
    change(image, "orders", (LINK_STATE.name, SET, STOPPED))
    change(image, "orders", (LINK_ENDS.name, APPEND, end(1, producer_id=41_234)))
    with pytest.raises(InvalidRequest):
        change(image, "orders", *away)
    change(image, "orders", (LINK_ENDS.name, APPEND, end(0, producer_id=5)))
    records = change_configs(image, NOTHING_CONFIGURED, 2, "orders", away)
    assert [each.next_producer_id for each in records if isinstance(each, ProducerIdsRecord)] == [42_000]
    delta = MetadataDelta()
    for record in records:
        image.apply(record, delta)
    assert delta.producer_ids_skipped
    assert not is_mirror(image, "orders")
    assert image.next_producer_id == 42_000
    assert (2, "orders") not in image.configs or not image.configs[2, "orders"]


def test_ids_that_are_higher_already_stay(image: MetadataImage) -> None:
    apply(image, [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=9_000)])
    change(image, "orders", (LINK_STATE.name, SET, STOPPED))
    change(image, "orders", (LINK_ENDS.name, APPEND, f"{end(0, 5)},{end(1, 6)}"))
    change(image, "orders", *((name, DELETE, None) for name in LINK_TOPIC_SETTINGS))
    assert image.next_producer_id == 9_000


def test_a_topic_with_records_of_its_own_becomes_no_mirror(image: MetadataImage) -> None:
    for name in (LINK_NAME.name, LINK_STATE.name):
        with pytest.raises(InvalidRequest):
            change(image, "mine", (name, SET, "stopped"))
    with pytest.raises(InvalidRequest):
        change(image, "orders", (LINK_NAME.name, SET, "paris"))
    with pytest.raises(InvalidRequest):
        change(image, "orders", (LINK_SOURCE_ID.name, SET, "1" * 32))


def test_a_replacement_of_all_settings_leaves_a_mirror_one(image: MetadataImage) -> None:
    apply(image, replace_configs(image, NOTHING_CONFIGURED, 2, "orders", {"retention.ms": "5"}))
    assert image.configs[2, "orders"] == {**MIRROR, "retention.ms": "5"}
    with pytest.raises(InvalidRequest):
        replace_configs(image, NOTHING_CONFIGURED, 2, "orders", {LINK_STATE.name: STOPPED})


@pytest.mark.parametrize(
    ("name", "value"),
    [(LINK_ENDS.name, "x"), (LINK_EPOCHS.name, "1"), (LINK_TOLD.name, "1:2"), (LINK_STATE.name, "asleep")],
)
def test_settings_that_no_link_writes_are_refused(image: MetadataImage, name: str, value: str) -> None:
    with pytest.raises(InvalidConfig):
        change(image, "orders", (name, SET, value))


numbers = st.integers(0, 2**62)
losses = st.builds(
    Loss, st.integers(0, 30), st.sampled_from(LossKind), numbers, numbers, st.integers(0, 2**41)
)


@given(losses)
def test_a_loss_comes_back_as_it_was(loss: Loss) -> None:
    assert Loss.decode(loss.encode()) == loss


@given(
    st.integers(0, 999), numbers, numbers, st.integers(0, 2**31 - 1), st.integers(-1, 2**62),
    st.lists(st.builds(AbortedTransaction, numbers, numbers), max_size=20),
)  # fmt: skip
def test_an_end_comes_back_as_it_was(
    partition: int, mirrored: int, whole: int, epoch: int, producer: int, aborted: list[AbortedTransaction]
) -> None:
    made = PartitionEnd(partition, mirrored, whole, epoch, producer, len(aborted), tuple(aborted))
    assert PartitionEnd.decode(made.encode()) == made


@given(st.lists(losses, max_size=150))
def test_losses_are_kept_once_within_bounds_and_failures_always(told: list[Loss]) -> None:
    values = {**MIRROR, LINK_TOLD.name: ",".join(each.encode() for each in told)}
    after = normalized(values)
    assert normalized(after) == after
    before, state = mirror_state(values), mirror_state(after)
    assert before is not None and state is not None
    for partition in range(31):
        failed, kept = before.failure_of(partition), state.failure_of(partition)
        assert (failed is None) == (kept is None)
    failures = {(e.partition, e.kind, e.from_offset, e.to_offset) for e in told if e.kind.ends_mirroring}
    assert len(state.told) <= max(MAX_TOLD, len(failures) + 31)


@pytest.mark.parametrize("text", ["", "1", "1:gap:x:2:3", "1:nothing:1:2:3", "1:gap:1:2:3:4"])
def test_a_malformed_loss_is_refused(text: str) -> None:
    with pytest.raises(MalformedState):
        Loss.decode(text)
