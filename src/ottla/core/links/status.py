"""The status of a mirror topic as it is published: partitions, lag, losses, where they stood at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.core.links.plan import Progress
from ottla.core.links.topic_state import Loss, MirrorState, PartitionEnd

PROMOTED: Final = "promoted"
FAILED_OVER: Final = "failed-over"
FAILED: Final = "failed"


def loss_status(loss: Loss) -> dict[str, Any]:
    """A loss, for JSON."""
    return {
        "kind": loss.kind.value,
        "from_offset": loss.from_offset,
        "to_offset": loss.to_offset,
        "at_ms": loss.at_ms,
    }


def topic_status(
    link: str,
    topic: str,
    state: MirrorState,
    partitions: Sequence[int],
    progress: Mapping[int, Progress],
    lag_ms: Mapping[int, int],
) -> dict[str, Any]:
    """A mirror topic's status, for JSON."""
    failures = {index: state.failure_of(index) for index in partitions}
    shown = []
    for index in sorted(partitions):
        known = progress.get(index, Progress(None, None))
        failure = failures[index]
        shown.append(
            {
                "partition": index,
                "state": FAILED if failure is not None else state.state,
                "reason": None if failure is None else reason(failure),
                "end_offset": known.end,
                "source_end_offset": known.source_end,
                "lag": known.lag,
                "lag_ms": lag_ms.get(index),
                "told": [loss_status(each) for each in state.told if each.partition == index],
            }
        )
    failed = any(each is not None for each in failures.values())
    return {
        "link": link,
        "topic": topic,
        "source_topic_id": state.source_id,
        "state": FAILED if failed and not state.is_stopped else state.state,
        "partitions": shown,
    }


def reason(loss: Loss) -> str:
    """Why a partition is copied no further, in a line."""
    match loss.kind.value:
        case "lost":
            return (
                f"the source's log ends at {loss.to_offset}, the mirror's at {loss.from_offset}: the source "
                "has lost records, and has nothing to tell where the logs part"
            )
        case "recreated":
            return (
                f"the source's topic was deleted and another one made with its name; the mirror ends at "
                f"{loss.from_offset}"
            )
        case "deleted":
            return f"the source's topic was deleted; the mirror ends at {loss.from_offset}"
        case _:
            return f"{loss.kind.value} from {loss.from_offset} to {loss.to_offset}"


def end_status(
    link: str,
    topic: str,
    state: MirrorState,
    ends: Mapping[int, PartitionEnd],
    source_ends: Mapping[int, int],
    how: str,
) -> dict[str, Any]:
    """Where the partitions stood when the topic became writable. source_ends: those that are known."""
    shown = []
    for index, end in sorted(ends.items()):
        of_source = source_ends.get(index)
        shown.append(
            {
                "partition": index,
                "state": how,
                "end_offset": end.end_offset,
                "mirrored_end_offset": end.mirrored_end_offset,
                "source_end_offset": of_source,
                "left_behind": None if of_source is None else max(0, of_source - end.mirrored_end_offset),
                "leader_epoch": end.leader_epoch,
                "aborted_transactions": end.aborted_count,
                "aborted": [
                    {"producer_id": each.producer_id, "first_offset": each.first_offset}
                    for each in end.aborted
                ],
                "told": [loss_status(each) for each in state.told if each.partition == index],
            }
        )
    return {
        "link": link,
        "topic": topic,
        "source_topic_id": state.source_id,
        "state": how,
        "partitions": shown,
    }
