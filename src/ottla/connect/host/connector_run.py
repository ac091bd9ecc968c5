"""A run of a connector itself: its settings are tried, a source's partitions looked at from time to time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from ottla.connect.data.record import SourcePartition
from ottla.connect.host.control import Control
from ottla.connect.host.messages import Partitions, Paused, Running, Start
from ottla.connect.host.offset_records import key_bytes
from ottla.connect.host.runner import Tell
from ottla.connect.plugins.api import RetriableError, SourceConnector

LOOK_SECONDS: Final = 5.0
_REST_SECONDS: Final = 3600.0

_log = logging.getLogger(__name__)


def run_source(start: Start, tell: Tell, control: Control, connector: SourceConnector) -> None:
    """Tell a source's partitions now and whenever they change. Raises what the connector raises."""
    known: set[bytes] | None = None
    is_told_paused: bool | None = None
    while not control.stopping:
        if control.paused != is_told_paused:
            is_told_paused = control.paused
            tell(Paused(start.run) if is_told_paused else Running(start.run))
        try:
            partitions = connector.partitions()
            names = {key_bytes("", each) for each in partitions}
        except RetriableError as problem:
            _log.warning("the source partitions can't be looked at now: %s", problem)
        else:
            if names != known:
                known = names
                tell(Partitions(start.run, [dict(each) for each in _once(partitions)]))
        control.wait(LOOK_SECONDS)


def run_sink(start: Start, tell: Tell, control: Control, connector: Any) -> None:
    """A sink has nothing to look at: its topics are its tasks' affair."""
    told: bool | None = None
    while not control.stopping:
        if control.paused != told:
            told = control.paused
            tell(Paused(start.run) if told else Running(start.run))
        control.wait(_REST_SECONDS)


def _once(partitions: Sequence[SourcePartition]) -> list[SourcePartition]:
    """Each partition once, in order."""
    return list({key_bytes("", each): each for each in partitions}.values())
