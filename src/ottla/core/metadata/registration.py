"""Nodes of the cluster come and go: BrokerRegistration 0-4, ControllerRegistration 0, UnregisterBroker 0.

A broker that (re)starts registers with a new incarnation. It is fenced until its heartbeats say that it has
caught up (`heartbeats`). Its broker epoch is the offset of its registration's record, so a later one is larger.
A registration that comes twice (the answer was lost) changes nothing. v2 names the data directories (KIP-858),
v3 the epoch of the run that ended cleanly (KIP-966): without that proof the broker may have lost records, so it
is no longer eligible to lead.

Errors of a whole request are raised as KafkaError.
"""

from __future__ import annotations

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.image import MetadataImage
from ottla.core.metadata.partition_changes import TopicRules
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ottla.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ottla.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ottla.protocol.messages.unregister_broker_response import UnregisterBrokerResponse


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    rules: TopicRules,
    *,
    cluster_id: str,
    is_alive: bool,
    api_version: int,
) -> Decision[BrokerRegistrationResponse]:
    """A broker's start. `is_alive` is `BrokerHeartbeats.is_alive(image, request.broker_id, now_ms)`.

    Raises InconsistentClusterId, DuplicateBrokerRegistration (another incarnation is alive),
    BrokerIdNotRegistered (a broker of a ZooKeeper cluster), UnsupportedVersion (its features don't include the
    cluster's levels), InvalidRegistration (directories, listeners).
    """
    raise AssertionError("not yet")


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """A controller's start. Raises InvalidRegistration for listeners that make no sense."""
    raise AssertionError("not yet")


def unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, rules: TopicRules
) -> Decision[UnregisterBrokerResponse]:
    """A broker that is gone for good. Raises BrokerIdNotRegistered."""
    raise AssertionError("not yet")
