"""Which instance is the primary, as far as this instance knows."""

from __future__ import annotations

import asyncio
import logging

log = logging.getLogger("ottla.replicated")


class Leadership:
    """Told by the group's protocol at first and at each change; asked by all that depends on it."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._url: str | None = None
        self._is_here = False
        self.changes = 0
        """Times that it learnt of another primary, or of none."""
        self._known = asyncio.Event()

    @property
    def group_id(self) -> str:
        """The group that elects."""
        return self._group_id

    @property
    def url(self) -> str | None:
        """Where the primary is reached; None while there is none."""
        return self._url

    @property
    def is_here(self) -> bool:
        """Whether this instance is the one that writes."""
        return self._is_here

    def learn(self, url: str | None, is_here: bool) -> None:
        """The group has the primary at this address, or none."""
        if self._known.is_set() and (url, is_here) == (self._url, self._is_here):
            return
        self._url, self._is_here = url, is_here
        self.changes += 1
        self._known.set()
        log.info("the primary of group %s is %s", self._group_id, "no instance" if url is None else url)

    async def wait_until_known(self) -> None:
        """Wait until the group has told it for the first time, also that there is none."""
        await self._known.wait()
