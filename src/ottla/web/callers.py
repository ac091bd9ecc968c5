"""The client that a request comes from, with the identity that it has proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.web.access_rules import UNLIMITED, Action, Grants
from ottla.web.errors import ApiError

CERTIFICATE: Final = "ottla.certificate"
"""Where the state of a request's scope has its client's certificate, in DER, if it showed one."""
DENIED: Final = 40301
"""The error code for an operation that the caller may not have done."""
_CALLER: Final = "ottla.caller"
_GRANTS: Final = "ottla.grants"
"""Where a request's ASGI scope has them."""


@dataclass(frozen=True, slots=True)
class BasicCredentials:
    """A name and a password, as the client sent them."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Caller:
    """A client. principal: `User:alice`, in Kafka's form. credentials: None where it has sent none.

    is_verified: whether the credentials were checked here; if not, they are to be passed on to the cluster,
    which checks them.
    """

    principal: str
    roles: frozenset[str] = frozenset()
    credentials: BasicCredentials | None = None
    is_verified: bool = True


ANONYMOUS: Final = Caller("User:ANONYMOUS")
"""A client that was not asked for an identity."""


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """The client of a request, by its ASGI scope."""
    caller: Caller = scope.get(_CALLER, ANONYMOUS)
    return caller


def grants_of(scope: Mapping[str, Any]) -> Grants:
    """What the client of a request may do."""
    grants: Grants = scope.get(_GRANTS, UNLIMITED)
    return grants


def with_caller(scope: Mapping[str, Any], caller: Caller, grants: Grants) -> dict[str, Any]:
    """The scope of the same request, which now tells its client."""
    return {**scope, _CALLER: caller, _GRANTS: grants}


def denied(scope: Mapping[str, Any], action: Action, target: str) -> ApiError:
    """The refusal of an action on a target, which is named in words."""
    return ApiError(403, DENIED, f"{caller_of(scope).principal} is denied {action.name} on {target}")
