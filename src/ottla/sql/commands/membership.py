"""How the servers of a service elect the one that writes commands and runs queries: by a Kafka group.

A member's metadata is its URL, and whether it is the primary; the group's leader gives all the URL of the
primary: the present one if it is still there, else the lowest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from ottla.replicated.group_member import Generation
from ottla.replicated.leadership import Leadership

PROTOCOL_TYPE: Final = "ottla-sql"
PROTOCOL: Final = "v1"

log = logging.getLogger("ottla.sql")


def elected(members: Mapping[str, bytes]) -> str | None:
    """The primary's URL, by the metadata of each member; None while no member can be it."""
    found: list[tuple[bool, str]] = []
    for metadata in members.values():
        try:
            match orjson.loads(metadata):
                case {"url": str(url), "primary": bool(primary)}:
                    found.append((not primary, url))
        except orjson.JSONDecodeError:
            continue  # of another version: it can't be the primary for members that don't understand it
    urls = [url for _, url in found]
    if len(set(urls)) < len(urls):
        return None  # two servers at one URL can't both be reached
    return min(found)[1] if found else None


class ServerGroup:
    """Satisfies GroupProtocol: the server at `url`, which tells `leadership` who the primary is."""

    protocol_type = PROTOCOL_TYPE

    def __init__(self, url: str, leadership: Leadership) -> None:
        self._url = url
        self._leadership = leadership
        self.urls: tuple[str, ...] = ()
        """Of all servers, as the group had them last."""

    def subscriptions(self) -> Sequence[tuple[str, bytes]]:
        """This server, and whether it is the primary."""
        return [(PROTOCOL, orjson.dumps({"url": self._url, "primary": self._leadership.is_here}))]

    async def assign(self, generation: Generation, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The same for all: the primary, and every server."""
        urls = sorted(_urls(members))
        assignment = orjson.dumps({"primary": elected(members), "urls": urls})
        return dict.fromkeys(members, assignment)

    def assigned(self, generation: Generation, assignment: bytes) -> None:
        """Learn the primary. Raises ValueError."""
        match orjson.loads(assignment):
            case {"primary": str() | None as primary, "urls": list(urls)}:
                if primary is None:
                    log.error("two servers say that they are at one URL: set ksql.advertised.listener")
                self.urls = tuple(map(str, urls))
                self._leadership.learn(primary, primary == self._url)
            case _:
                raise ValueError("not an assignment of this group")

    def lost(self) -> None:
        """The others may have elected another primary."""
        self._leadership.learn(None, False)


def _urls(members: Mapping[str, bytes]) -> list[str]:
    found = []
    for metadata in members.values():
        try:
            match orjson.loads(metadata):
                case {"url": str(url)}:
                    found.append(url)
        except orjson.JSONDecodeError:
            continue
    return found
