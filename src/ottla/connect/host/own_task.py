"""Tasks that own their transport: they read and write Kafka themselves, record by record or whole batches.

A source connector whose records need neither transforms nor converters can hand out such a task in place of
`read`. The host gives it the order, tells it when to stop or rest, and takes its events; producers, offsets
and their transactions are the task's. It uses the names that the runtime fences by
(`clients.transactional_id`) and Connect's topic of offsets (`offset_store`), so that fencing and the REST
API's offsets hold for it too.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ottla.connect.host.control import Control
from ottla.connect.host.messages import Start
from ottla.connect.host.runner import Tell


class OwnTask(Protocol):
    """One run of a task, in the thread that calls `run`."""

    def run(self, tell: Tell, control: Control) -> None:
        """Run until `control` says stop: Running once it has begun, Paused and Running as `control` says.

        All that is committed stays, the rest is given up. Raises what ends the task.
        """


@runtime_checkable
class RunsItself(Protocol):
    """What a source connector has besides if its tasks may own their transport."""

    def own_task(self, start: Start) -> OwnTask | None:
        """The task of an order; None where its configuration needs the ordinary way, by `read`.

        Raises ConfigError.
        """
