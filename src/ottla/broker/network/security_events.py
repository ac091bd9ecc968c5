"""The events that listeners and the authorizer tell to the audit log, where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.network.context import RequestContext, Session
    from ottla.core.security.acls import AclOperation, ResourceType


class SecurityEvents(Protocol):
    """Takes events; never waits, never fails."""

    def authenticated(self, session: Session, mechanism: str) -> None:
        """A client has proved its principal, which is the session's now."""
        ...

    def authentication_failed(self, session: Session, mechanism: str | None, reason: str) -> None:
        """A client has not."""
        ...

    def refused(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> None:
        """The sender of a request may not do the operation on the resource."""
        ...
