"""Whether a broker answers: `python healthcheck.py HOST:PORT [SECONDS]`; 0 if it does, 1 with a line if not.

It asks for the broker's API versions, the one request that every version of Kafka answers, without security,
too. Python's standard library is all that it needs, and nothing of ottla, so that a probe costs 20 ms.
"""

from __future__ import annotations

import socket
import struct
import sys

CORRELATION_ID = 7
#: ApiVersions, version 0: API key, version, correlation id, client id (none).
REQUEST = struct.pack(">hhih", 18, 0, CORRELATION_ID, -1)
MAX_ANSWER_BYTES = 65_536


def check(host: str, port: int, timeout_seconds: float) -> None:
    """Raises OSError or ValueError unless the broker answers."""
    with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
        connection.sendall(struct.pack(">i", len(REQUEST)) + REQUEST)
        (size,) = struct.unpack(">i", receive(connection, 4))
        if not 6 <= size <= MAX_ANSWER_BYTES:
            raise ValueError(f"an answer of {size} bytes")
        correlation_id, error_code = struct.unpack(">ih", receive(connection, size)[:6])
        if correlation_id != CORRELATION_ID or error_code != 0:
            raise ValueError(f"an answer to request {correlation_id} with error {error_code}")


def receive(connection: socket.socket, count: int) -> bytes:
    """So many bytes. Raises ValueError if the connection ends before."""
    found = b""
    while len(found) < count:
        data = connection.recv(count - len(found))
        if not data:
            raise ValueError("the connection was closed")
        found += data
    return found


def main(words: list[str]) -> int:
    """Check the broker that the words name."""
    host, _, port = words[0].rpartition(":")
    try:
        check(host, int(port), float(words[1]) if len(words) > 1 else 4.0)
    except (OSError, ValueError) as problem:
        print(f"{words[0]} does not answer: {problem}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
