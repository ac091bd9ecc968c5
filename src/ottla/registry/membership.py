"""The registry's group protocol: how instances present themselves, and which one becomes the primary.

The group's protocol type is `sr`, its protocol `v0`. A member's metadata is its identity as JSON; the group's
leader (any member) gives all of them the same assignment: the id and identity of the primary. Both
formats are Confluent's, so its instances and ours may be members of one group.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from ottla.replicated.group_member import Generation
from ottla.replicated.leadership import Leadership

log = logging.getLogger("ottla.registry")

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
VERSION: Final = 1


class AssignmentError(enum.IntEnum):
    """Why an assignment names no primary."""

    NONE = 0
    DUPLICATE_URLS = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """One instance: where others reach it, whether it may be the primary, and whether it is (`leader`)."""

    host: str
    port: int
    eligible: bool = True
    scheme: str = "http"
    leader: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def with_role(self, leader: bool) -> Identity:
        """The same instance, now the primary or not."""
        return replace(self, leader=leader)

    def as_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
            "leader": self.leader,
        }

    @classmethod
    def from_json(cls, found: Any) -> Identity:
        """Raises ValueError for JSON that is not an instance's identity."""
        match found:
            case {"host": str(host), "port": int(port), "master_eligibility": bool(eligible)}:
                scheme = found.get("scheme") or "http"
                return cls(host, port, eligible, str(scheme), found.get("leader") is True)
        raise ValueError("not the identity of a registry's instance")


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of every member. Without a primary no instance writes."""

    error: AssignmentError
    primary_member_id: str | None
    primary: Identity | None

    def encode(self) -> bytes:
        """The JSON that Confluent's instances read."""
        return orjson.dumps(
            {
                "version": VERSION,
                "error": int(self.error),
                "master": self.primary_member_id,
                "master_identity": None if self.primary is None else self.primary.as_json(),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Assignment:
        """Raises ValueError for bytes that are not an assignment."""
        match orjson.loads(data):
            case {"error": int(error), **rest}:
                member, primary = rest.get("master"), rest.get("master_identity")
                return cls(
                    AssignmentError(error),
                    member if isinstance(member, str) else None,
                    None if primary is None else Identity.from_json(primary),
                )
        raise ValueError("not an assignment of a registry's group")


def encode_identity(identity: Identity) -> bytes:
    """A member's metadata."""
    return orjson.dumps(identity.as_json())


def assign(members: Mapping[str, bytes]) -> Assignment:
    """The assignment for these members (id -> metadata), decided by the group's leader.

    The present primary stays if it is eligible; else the eligible member of the lowest URL becomes it. Two
    members of one URL can't both be reached: there is no primary until one of them leaves.
    """
    known: dict[str, Identity] = {}
    for member_id, metadata in members.items():
        try:
            known[member_id] = Identity.from_json(orjson.loads(metadata))
        except ValueError:
            continue  # of another version: it can't be the primary for members that don't understand it
    if len({identity.url for identity in known.values()}) < len(known):
        return Assignment(AssignmentError.DUPLICATE_URLS, None, None)
    eligible = [(not one.leader, one.url, member_id) for member_id, one in known.items() if one.eligible]
    if not eligible:
        return Assignment(AssignmentError.NONE, None, None)
    chosen = min(eligible)[2]
    return Assignment(AssignmentError.NONE, chosen, known[chosen])


class RegistryGroup:
    """Satisfies GroupProtocol: the instance `identity` in the group, which tells `leadership` the primary."""

    protocol_type = PROTOCOL_TYPE

    def __init__(self, identity: Identity, leadership: Leadership) -> None:
        self._identity = identity
        self._leadership = leadership

    def subscriptions(self) -> Sequence[tuple[str, bytes]]:
        """This instance, and whether it is the primary."""
        return [(PROTOCOL, encode_identity(self._identity.with_role(self._leadership.is_here)))]

    async def assign(self, generation: Generation, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The same primary for all."""
        assignment = assign(members).encode()
        return dict.fromkeys(members, assignment)

    def assigned(self, generation: Generation, assignment: bytes) -> None:
        """Learn the primary. Raises ValueError."""
        found = Assignment.decode(assignment)
        if found.error is AssignmentError.DUPLICATE_URLS:
            log.error("two instances of the registry say that they are at one URL: set host.name")
        url = None if found.primary is None else found.primary.url
        self._leadership.learn(url, url == self._identity.url)

    def lost(self) -> None:
        """The others may have elected another primary."""
        self._leadership.learn(None, False)
