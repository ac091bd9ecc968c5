"""Which event loop the processes of ottla run on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

EVENT_LOOP_VARIABLE = "OTTLA_EVENT_LOOP"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it exists; OTTLA_EVENT_LOOP=asyncio asks for the standard loop."""
    if os.environ.get(EVENT_LOOP_VARIABLE, "") == "asyncio":
        return None
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop
