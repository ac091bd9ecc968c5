"""TCP ports of 127.0.0.1 that belong to one server over all its restarts, and to no other process meanwhile.

A port that was free a moment ago may be given to any other process, as the near end of an outgoing
connection, too. Here a socket stays bound to the port, and never listens: Linux then gives the number to no
other socket that asks for any port, a client meets "connection refused" while the server is down, and the
server, which binds it with SO_REUSEADDR as servers do, may listen on it. Other systems allow no second
socket: there the port is free from the first start on.
"""

from __future__ import annotations

import socket
import sys
from typing import Final

LOCALHOST: Final = "127.0.0.1"
STAYS_BOUND: Final = sys.platform.startswith("linux")


class ReservedPort:
    """A port of 127.0.0.1, reserved until `release`."""

    def __init__(self, number: int = 0) -> None:
        """`number` 0: any. Raises OSError if another server listens on the port."""
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((LOCALHOST, number))
        except OSError:
            self._socket.close()
            raise
        self.number: Final[int] = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return f"{LOCALHOST}:{self.number}"

    def lend(self) -> int:
        """The number, for a server that is about to listen on it."""
        if not STAYS_BOUND:
            self._socket.close()
        return self.number

    def release(self) -> None:
        """Give the port back to the system."""
        self._socket.close()
