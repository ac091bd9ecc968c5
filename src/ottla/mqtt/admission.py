"""Finds out whether a client may connect, and what it may publish.

The names of the rules (ottla.access.rules) are topics of MQTT here: `User:dev write sensors/dev/*`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from ottla.mqtt.core.messages import SYS
from ottla.mqtt.core.packets import Connect
from ottla.mqtt.core.reason_codes import ReasonCode
from ottla.mqtt.core.routing import Routing
from ottla.mqtt.core.topics import ALL, ONE, SHARED
from ottla.web.access_rules import Action, Grants
from ottla.web.authentication import Unauthenticated
from ottla.web.security import Security

log = logging.getLogger("ottla.mqtt")

_REASONS: Final = {403: ReasonCode.NOT_AUTHORIZED, 503: ReasonCode.SERVER_UNAVAILABLE}


class NotAdmitted(Exception):
    """The client may not connect; the reason is told to it."""

    def __init__(self, reason: ReasonCode, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


@dataclass(frozen=True, slots=True)
class Admission:
    """The door of a service."""

    security: Security
    routing: Routing

    async def admit(self, connect: Connect, certificate: bytes | None, peer: str) -> Grants:
        """What the client of this CONNECT may do. Raises NotAdmitted."""
        try:
            password = (connect.password or b"").decode()
        except UnicodeDecodeError:
            raise NotAdmitted(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "the password is not UTF-8") from None
        try:
            caller = await self.security.prove(connect.user_name or "", password, certificate)
        except Unauthenticated as problem:
            log.warning("authentication failed: client=%s: %s", peer, problem.reason)
            reason = _REASONS.get(problem.status, ReasonCode.BAD_USER_NAME_OR_PASSWORD)
            raise NotAdmitted(reason, problem.reason) from None
        grants = self.security.grants(caller)
        if connect.will is not None:
            refusal = self.refusal(connect.will.topic, grants)
            if refusal is not None:
                raise NotAdmitted(refusal, f"a will can't be left in {connect.will.topic}")
        return grants

    def subscription_refusal(self, filter_: str, grants: Grants) -> ReasonCode | None:
        """Why a client with these grants may not subscribe to a filter; None if it may."""
        if filter_.startswith(SHARED):
            return ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
        begin = filter_.partition(ONE)[0].partition(ALL)[0]
        allowed = (
            grants.allow(Action.READ, filter_)
            if begin == filter_
            else grants.allow_prefix(Action.READ, begin)
        )
        return None if allowed else ReasonCode.NOT_AUTHORIZED

    def refusal(self, topic: str, grants: Grants) -> ReasonCode | None:
        """Why a client with these grants may not publish there; None if it may."""
        if topic.startswith(SYS):
            return ReasonCode.NOT_AUTHORIZED
        if self.routing.kafka_topic(topic) is None:
            return ReasonCode.TOPIC_NAME_INVALID
        if not grants.allow(Action.WRITE, topic):
            return ReasonCode.NOT_AUTHORIZED
        return None
