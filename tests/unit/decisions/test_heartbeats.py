"""Brokers are unfenced, fenced when they are silent, and stop."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.decisions.heartbeats import BrokerHeartbeats
from ottla.core.image.image import NO_LEADER, MetadataImage, PartitionImage
from ottla.protocol.errors import StaleBrokerEpoch
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from support.core.metadata import RULES, apply, create, image_with_brokers, topic

SESSION_MS = 9_000


class Controller:
    """An active controller at a settable time."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.image.last_offset = 500
        self.now_ms = 0
        self.heartbeats = BrokerHeartbeats.of_new_controller(image, SESSION_MS, 0)

    def hear(
        self, broker_id: int, *, offset: int | None = None, fence: bool = False, stop: bool = False
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].broker_epoch,
            current_metadata_offset=self.image.last_offset if offset is None else offset,
            want_fence=fence,
            want_shut_down=stop,
        )
        decision = self.heartbeats.on_broker_heartbeat(self.image, request, self.now_ms, RULES)
        apply(self.image, decision.records)
        self.image.last_offset += len(decision.records)
        return decision.response

    def fence_expired(self) -> int | None:
        decision = self.heartbeats.fence_expired(self.image, self.now_ms, RULES)
        apply(self.image, decision.records)
        return decision.response

    def fence(self, broker_id: int) -> None:
        epoch = self.image.brokers[broker_id].broker_epoch
        apply(self.image, [BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=1)])

    @property
    def orders(self) -> PartitionImage:
        return self.image.topics["orders"].partitions[0]


@pytest.fixture
def controller() -> Controller:
    image = image_with_brokers([1, 2, 3])
    create(image, topic("orders", assignments={0: [1, 2]}))
    return Controller(image)


def test_it_is_unfenced_when_it_has_applied_its_registration(controller: Controller) -> None:
    controller.fence(3)
    answer = controller.hear(3, offset=102)
    assert (answer.is_caught_up, answer.is_fenced) == (False, True)
    answer = controller.hear(3, offset=103)
    assert (answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (True, False, False)
    assert not controller.image.brokers[3].fenced


def test_a_broker_that_asks_to_stay_fenced_stays_so(controller: Controller) -> None:
    controller.fence(3)
    assert controller.hear(3, fence=True).is_fenced
    assert controller.image.brokers[3].fenced


def test_an_unfenced_broker_leads_partitions_without_a_leader(controller: Controller) -> None:
    controller.hear(1, fence=True)
    controller.hear(2, fence=True)
    assert controller.orders.leader == NO_LEADER
    controller.hear(2)
    assert (controller.orders.leader, controller.orders.isr) == (2, (2,))


def test_a_broker_that_asks_for_it_is_fenced(controller: Controller) -> None:
    assert controller.hear(1, fence=True).is_fenced
    assert (controller.orders.leader, controller.orders.isr) == (2, (2,))


def test_another_run_is_refused(controller: Controller) -> None:
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=7, current_metadata_offset=0)
    with pytest.raises(StaleBrokerEpoch):
        controller.heartbeats.on_broker_heartbeat(controller.image, request, 0, RULES)


def test_silent_brokers_are_fenced_one_at_a_time(controller: Controller) -> None:
    controller.now_ms = 1_000
    controller.hear(3)
    controller.now_ms = SESSION_MS - 1
    assert controller.fence_expired() is None
    assert controller.heartbeats.next_wake_ms(controller.image) == SESSION_MS
    controller.now_ms = SESSION_MS
    assert controller.fence_expired() == 1
    assert (controller.orders.leader, controller.orders.isr) == (2, (2,))
    assert controller.fence_expired() == 2
    assert controller.orders.leader == NO_LEADER
    assert controller.fence_expired() is None
    assert controller.heartbeats.next_wake_ms(controller.image) == 1_000 + SESSION_MS


def test_without_unfenced_brokers_there_is_no_wake_time(controller: Controller) -> None:
    for broker_id in (1, 2, 3):
        controller.fence(broker_id)
    assert controller.heartbeats.next_wake_ms(controller.image) is None
    controller.now_ms = 10 * SESSION_MS
    assert controller.fence_expired() is None


def test_a_session_belongs_to_one_run(controller: Controller) -> None:
    heartbeats, image = controller.heartbeats, controller.image
    assert heartbeats.is_alive(image, 1, SESSION_MS - 1)
    assert not heartbeats.is_alive(image, 1, SESSION_MS)
    assert not heartbeats.is_alive(image, 9, 0)
    image.brokers[1] = image.brokers[1]._replace(broker_epoch=700, incarnation_id=uuid.UUID(int=7))
    assert not heartbeats.is_alive(image, 1, 0)


def test_a_new_controller_believes_those_unfenced_alive(controller: Controller) -> None:
    controller.fence(3)
    heartbeats = BrokerHeartbeats.of_new_controller(controller.image, SESSION_MS, 5_000)
    assert heartbeats.is_alive(controller.image, 1, 5_000)
    assert not heartbeats.is_alive(controller.image, 3, 5_000)
    assert heartbeats.next_wake_ms(controller.image) == 5_000 + SESSION_MS


def test_a_leader_stops_when_the_others_know_who_leads_now(controller: Controller) -> None:
    controller.hear(2)
    controller.hear(3)
    answer = controller.hear(1, stop=True)
    assert (answer.is_fenced, answer.should_shut_down) == (False, False)
    assert controller.image.brokers[1].in_controlled_shutdown
    assert (controller.orders.leader, controller.orders.isr) == (2, (2,))
    assert not controller.hear(1, stop=True).should_shut_down  # no broker was heard since
    controller.hear(2)
    assert not controller.hear(1, stop=True).should_shut_down
    controller.hear(3)
    answer = controller.hear(1, stop=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert controller.image.brokers[1].fenced
    assert not controller.heartbeats.is_alive(controller.image, 1, controller.now_ms)


def test_a_broker_that_leads_no_partition_stops_at_once(controller: Controller) -> None:
    answer = controller.hear(3, stop=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)


def test_a_fenced_one_stops_at_once(controller: Controller) -> None:
    controller.fence(1)
    assert controller.hear(1, stop=True).should_shut_down


def test_the_last_one_stops_too(controller: Controller) -> None:
    controller.hear(2, stop=True)
    controller.hear(3, stop=True)
    assert not controller.hear(1, stop=True).should_shut_down
    assert controller.orders.leader == NO_LEADER
    assert controller.hear(1, stop=True).should_shut_down
    assert controller.orders.elr == (1,)


def test_a_controlled_shutdown_outlives_its_controller(controller: Controller) -> None:
    controller.hear(1, stop=True)
    controller.heartbeats = BrokerHeartbeats.of_new_controller(controller.image, SESSION_MS, 0)
    assert not controller.hear(1, stop=True).should_shut_down
    controller.hear(2)
    controller.hear(3)
    assert controller.hear(1, stop=True).should_shut_down


def test_a_controlled_shutdown_that_was_cut_off_goes_on(controller: Controller) -> None:
    # The controller died when only the first of the records was committed.
    begun = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, in_controlled_shutdown=1)
    apply(controller.image, [begun])
    assert controller.orders.leader == 1
    assert not controller.hear(1, stop=True).should_shut_down
    assert (controller.orders.leader, controller.orders.isr) == (2, (2,))
    controller.hear(2)
    controller.hear(3)
    assert controller.hear(1, stop=True).should_shut_down


def test_those_unregistered_are_forgotten(controller: Controller) -> None:
    del controller.image.brokers[1]
    controller.now_ms = 2 * SESSION_MS
    assert controller.fence_expired() == 2
    assert not controller.heartbeats.is_alive(controller.image, 1, 0)
