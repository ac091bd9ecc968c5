"""Compare a query's state with the fingerprint that lies beside its checkpoint."""

from __future__ import annotations

from pathlib import Path

from ottla.pipeline.query.checkpoints import Checkpoint
from ottla.pipeline.spark.paths import local_path
from ottla.streams.compile.compiler import Compiled
from ottla.streams.plan.node import event_time_of
from ottla.streams.run.admitted import Admitted
from ottla.streams.run.context import RunContext
from ottla.streams.run.fingerprints import check_fingerprint, fingerprint, remembered_heartbeats


def check_state(context: RunContext, admitted: Admitted, compiled: Compiled, *, heartbeats: bool) -> None:
    """Compare with the last start, or remember. `heartbeats`: they are a source. Raises StateChanged."""
    stateful = admitted.query.stateful
    if stateful is None or compiled.state is None:
        return
    asked = context.settings.watching.heartbeat_ms is not None and event_time_of(stateful) is not None
    check_fingerprint(
        _fingerprint_file(context, admitted.name),
        fingerprint(
            stateful,
            compiled.state.before,
            compiled.state.behind.frame,
            context.settings.spark.partitions,
            heartbeats=heartbeats or asked,
        ),
        has_checkpoint=_has_checkpoint(context, admitted.name),
    )


def has_heartbeats(context: RunContext, name: str) -> bool:
    """Whether heartbeats are among a query's sources: as its checkpoint was made, else as is asked."""
    kept = None
    if _has_checkpoint(context, name):
        kept = remembered_heartbeats(_fingerprint_file(context, name))
    return context.settings.watching.heartbeat_ms is not None if kept is None else kept


def checkpoint_of(context: RunContext, name: str) -> Checkpoint | None:
    """A query's checkpoint; None where it is not on this machine."""
    path = local_path(context.session.checkpoint_of(name))
    return None if path is None else Checkpoint(path)


def _has_checkpoint(context: RunContext, name: str) -> bool:
    checkpoint = checkpoint_of(context, name)
    return checkpoint is not None and checkpoint.exists


def _fingerprint_file(context: RunContext, name: str) -> Path:
    return context.directory / "queries" / f"{name}.json"
