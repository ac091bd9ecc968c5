"""The effect by which a group shard asks the share coordinator, and the event with the answer.

The shell sends the request through the persister (broker/share/share_persister.py) and feeds back its
response, which has an error code for every partition in the request. If the broker ends in between, no answer
comes: the partitions are in the group's records, and the request is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.core.coordination.api import Moment
from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from ottla.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse

ShareStateRequest: TypeAlias = InitializeShareGroupStateRequest | DeleteShareGroupStateRequest
ShareStateResponse: TypeAlias = InitializeShareGroupStateResponse | DeleteShareGroupStateResponse


@dataclass(frozen=True, slots=True)
class AskShareCoordinator:
    """Effect: begin or end the delivery state of share partitions, and report with `call_id`."""

    call_id: int
    request: ShareStateRequest


@dataclass(frozen=True, slots=True)
class ShareCoordinatorAnswered:
    """Event: the answer to an `AskShareCoordinator`. Answers come in any order."""

    at: Moment
    call_id: int
    response: ShareStateResponse
