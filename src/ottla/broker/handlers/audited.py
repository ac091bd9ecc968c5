"""The handlers of administrative requests with the audit log behind them; others are as they are.

A change is recorded when it has been made and before it is answered. One whose outcome this node does not get
to know (it stopped being the controller, or the request was given up) is recorded as such.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.network.error_answers import says_not_controller
from ottla.core.audit.changes import BY_BROKER, BY_CONTROLLER, Before, Describe, changes_of
from ottla.core.decisions.delegation_tokens import token_of_record
from ottla.core.security.delegation_tokens import find_token
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import NotController

if TYPE_CHECKING:
    from ottla.broker.audit.audit_log import AuditLog
    from ottla.broker.handlers.node import Node
    from ottla.broker.handlers.table import HandlerTable
    from ottla.broker.network.context import RequestContext
    from ottla.broker.network.dispatch import Handler, RawHandler
    from ottla.protocol.schema import Message

#: The client ids by which transaction coordinators write their markers: ottla's, and Apache Kafka's.
_COORDINATORS: Final = re.compile(r"ottla-\d+|broker-\d+-txn-marker-sender")


class AuditedHandlers:
    """A table whose administrative handlers tell of their changes."""

    def __init__(
        self,
        table: HandlerTable,
        described: Mapping[ApiKey, Describe],
        audit: AuditLog,
        *,
        is_controller: bool,
    ) -> None:
        """described: the changes of each administrative API."""
        self._table = table
        self._described = described
        self._audit = audit
        self._is_controller = is_controller
        self.loaded: dict[int, Handler[Node]] = table.loaded
        self.loaded_raw: dict[int, RawHandler[Node]] = table.loaded_raw

    @property
    def apis(self) -> Iterable[ApiKey]:
        """The APIs of the table."""
        return self._table.apis

    def load(self, key: int) -> None:
        """Import the handler of an API of the table."""
        self._table.load(key)
        describe = self._described.get(ApiKey(key))
        if describe is not None:
            self.loaded[key] = self._audited(ApiKey(key), self.loaded[key], describe)

    def handler(self, key: int) -> Handler[Node]:
        """The handler of an API that takes a decoded request."""
        if key not in self.loaded:
            self.load(key)
        return self.loaded[key]

    def _audited(self, api: ApiKey, handler: Handler[Node], describe: Describe) -> Handler[Node]:
        audit, is_controller = self._audit, self._is_controller

        async def audited(node: Node, context: RequestContext, request: Any) -> Message:
            if api is ApiKey.WRITE_TXN_MARKERS and _COORDINATORS.fullmatch(context.client_id or ""):
                return await _answer(handler, node, context, request)
            if is_controller and audit.stopped:
                raise NotController("the node is stopping")
            before = _before(node, api, request)
            was_active = node.controller.active
            try:
                answer = await _answer(handler, node, context, request)
            except (NotController, asyncio.CancelledError):
                if was_active or not is_controller:
                    for event in changes_of(describe, api, request, None, before):
                        audit.add(context, event)
                raise
            known = None if was_active and says_not_controller(answer) else answer
            await audit.administered(context, changes_of(describe, api, request, known, before))
            return answer

        return audited


def audited_broker(table: HandlerTable, audit: AuditLog) -> AuditedHandlers:
    """The handlers of a broker's listeners; changes that they pass on are recorded by the controller."""
    return AuditedHandlers(table, BY_BROKER, audit, is_controller=False)


def audited_controller(table: HandlerTable, audit: AuditLog) -> AuditedHandlers:
    """The handlers of a controller's listeners, which have those of envelopes too."""
    return AuditedHandlers(table, BY_CONTROLLER, audit, is_controller=True)


async def _answer(handler: Handler[Node], node: Node, context: RequestContext, request: Any) -> Message:
    response: Message | Awaitable[Message] = handler(node, context, request)
    return await response if inspect.isawaitable(response) else response


def _before(node: Node, api: ApiKey, request: Any) -> Before:
    """The names of what a request means by an id or a key, which may be gone afterwards."""
    match api:
        case ApiKey.DELETE_TOPICS:
            known = node.image.topics_by_id
            ids = [each.topic_id for each in request.topics if not each.name]
            return Before({each: known[each].name for each in ids if each in known})
        case ApiKey.RENEW_DELEGATION_TOKEN | ApiKey.EXPIRE_DELEGATION_TOKEN:
            from ottla.broker.token_settings import token_rules

            secret = token_rules(node.config.layers).secret
            if secret is not None:
                tokens = (token_of_record(each) for each in node.image.delegation_tokens.values())
                token = find_token(tokens, secret, request.hmac)
                return Before(token_id=None if token is None else token.token_id)
    return Before()
