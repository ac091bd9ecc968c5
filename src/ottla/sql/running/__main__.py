"""The query host's process: orders on stdin, events on stdout, its log on stderr.

The end of stdin means that the server is gone: the process ends at once, whatever its queries do. What they
have not committed, the next host does again.
"""

from __future__ import annotations

import logging
import os
import sys
import threading

from ottla.config.errors import UserError
from ottla.sql.running.host import QueryHost
from ottla.sql.running.messages import (
    MAX_LINE_BYTES,
    Configure,
    Event,
    MessageError,
    Start,
    Stop,
    decode,
    encode,
)

BAD_ORDER = 2
"""The exit code after a line that is no order."""
SERVER_GONE = 3
NO_SPARK = 4

log = logging.getLogger("ottla.sql")


def main() -> None:
    """Run the host up to the end of stdin."""
    # What a library prints must not come between the events, and none may read the orders.
    events, orders = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    logging.basicConfig(
        stream=sys.stderr,
        level=os.environ.get("OTTLA_LOG_LEVEL", "INFO"),
        format="[%(threadName)s] %(levelname)s %(message)s",
        force=True,
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    turn = threading.Lock()

    def tell(event: Event) -> None:
        try:
            with turn:
                events.write(encode(event))
                events.flush()
        except (OSError, ValueError):
            os._exit(SERVER_GONE)

    host = QueryHost(tell)
    code = 0
    while line := orders.readline(MAX_LINE_BYTES + 1):
        if not line.endswith(b"\n"):
            code = BAD_ORDER if len(line) > MAX_LINE_BYTES else 0
            break
        try:
            order = decode(line)
            if not isinstance(order, Configure | Start | Stop):
                raise MessageError(f"a {type(order).__name__} is no order")
            host.take(order)
        except MessageError as problem:
            log.error("the server gave an order that can't be read: %s", problem)
            code = BAD_ORDER
            break
        except UserError as problem:
            log.error("%s", problem)
            code = NO_SPARK
            break
    # Without a word to threads, clients and Spark: the queries go on in another host.
    os._exit(code)


if __name__ == "__main__":
    main()
