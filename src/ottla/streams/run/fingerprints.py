"""The identity of a query's state, kept beside its checkpoint, so that changed code is told in one line.

Spark refuses some changed state with a stack trace, and overlooks other changes (another window size over
old windows). A fingerprint names all that the state's meaning hangs on: the operator, its
windows, key and value types, the number of parts. It is written before a query's first start and compared at
every later one; a fingerprint without a checkpoint means nothing and is replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.config.errors import UserError
from ottla.streams.host.keyed_host import describe_state
from ottla.streams.plan.node import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Fingerprint = Mapping[str, str]


class StateChanged(UserError):
    """A checkpoint's state does not fit the code any more; the message says what changed and what to do."""


def fingerprint(
    node: Node, inputs: Sequence[DataFrame], written: DataFrame, partitions: int, *, heartbeats: bool
) -> Fingerprint:
    """The identity of the state of `node`; the frames before it and behind it say the types.

    `heartbeats`: whether they are among the query's sources, whose number a checkpoint keeps for good.
    """
    common = {
        "node": node.name,
        "key": written.schema["key"].dataType.simpleString(),
        "value": written.schema["value"].dataType.simpleString(),
        "parts": str(partitions),
        "heartbeats": str(heartbeats),
    }
    state = node.facts.state
    assert state is not None, f"{node.name} has no state"
    if state.operator is None:
        return {**common, **state.identity}
    types = [frame.schema["value"].dataType for frame in inputs]
    kept = describe_state(state.operator, inputs[0].schema["key"].dataType, types, partitions)
    return {**common, **kept, **state.identity}


def remembered_heartbeats(path: Path) -> bool | None:
    """Whether the query has heartbeats among its sources; None without a fingerprint. Raises StateChanged."""
    before = _remembered(path)
    return None if before is None else before.get("heartbeats") == str(True)


def _remembered(path: Path) -> Fingerprint | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
        raise ValueError("it is no object")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StateChanged(f"{path} can't be read ({error}): restore it, or reset the application") from error


def check_fingerprint(path: Path, now: Fingerprint, *, has_checkpoint: bool) -> None:
    """Compare with the fingerprint at `path`; write `now` where there is none. Raises StateChanged."""
    before = _remembered(path)
    if not has_checkpoint or before is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        with beside.open("w", encoding="utf-8") as file:
            file.write(json.dumps(dict(now), indent=1))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        return
    changed = [
        f"{name} was {before.get(name)} and is {now.get(name)}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise StateChanged(
            f"the state of {now['node']} does not fit the code any more: {'; '.join(changed)}. Give the "
            "application a new name, or start anew with `ottla streams reset`"
        )
