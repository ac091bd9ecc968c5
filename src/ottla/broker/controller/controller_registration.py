"""Registers this controller with the active one: other nodes learn where it listens, and its features."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.core.image.features import SUPPORTED_FEATURES
from ottla.core.image.image import EndpointImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.controller_registration_response import ControllerRegistrationResponse

if TYPE_CHECKING:
    from ottla.broker.controller.controller_channel import ControllerChannel

log = logging.getLogger("ottla.broker")

FIRST_RETRY_SECONDS: Final = 0.1
LAST_RETRY_SECONDS: Final = 5.0


async def register_controller(
    node_id: int, channel: ControllerChannel, endpoints: Sequence[EndpointImage]
) -> None:
    """Ask, without a limit, until the active controller has taken the registration: nothing waits for it."""
    request = ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=uuid.uuid4(),
        zk_migration_ready=False,
        listeners=[
            Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in endpoints
        ],
        features=[
            Feature(name=name, min_supported_version=smallest, max_supported_version=largest)
            for name, (smallest, largest) in SUPPORTED_FEATURES.items()
        ],
    )
    pause = FIRST_RETRY_SECONDS
    while True:
        try:
            answer = await channel.ask(request)
            assert isinstance(answer, ControllerRegistrationResponse)
            if answer.error_code == ErrorCode.NONE:
                return
            problem = ErrorCode(answer.error_code).name
        except KafkaError as error:
            problem = str(error)
        log.info("controller not registered yet reason=%s", problem)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LAST_RETRY_SECONDS)
