"""Parts of a snapshot as they are read: a value that grows, sentences on its gaps, or the reason for none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from ottla.client.errors import ClusterError
from ottla.doctor.snapshot import Gap, NotRead, Part, WhyNot
from ottla.protocol.errors import ErrorCode

K = TypeVar("K")
V = TypeVar("V")

NOT_ALLOWED: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
NOT_OFFERED: Final = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
TIME_OVER: Final = "the time was over"


class Draft:
    """A part that is being read. `value` may be set early, and grow; at the deadline it counts as it is."""

    __slots__ = ("gap", "left_out", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.gap: Gap | None = None
        self.left_out: list[str] = []

    def part(self) -> Part[Any]:
        """The part as it is now."""
        return Part(self.value, None if self.value is not None else self.gap, tuple(self.left_out))

    def fail(self, problem: Exception) -> None:
        """Note why the reading ended; a value that is there already stays, as an incomplete one."""
        gap = gap_of(problem)
        if self.value is None:
            self.gap = gap
        else:
            self.left_out.append(gap.reason)


def gap_of(problem: Exception) -> Gap:
    """The reason for an error of a request."""
    match problem:
        case NotRead():
            return problem.gap
        case TimeoutError():
            return Gap(WhyNot.OUT_OF_TIME, TIME_OVER)
        case ClusterError(code=code) if code in NOT_ALLOWED:
            return Gap(WhyNot.NOT_ALLOWED, str(problem))
        case ClusterError(code=code) if code in NOT_OFFERED:
            return Gap(WhyNot.NOT_OFFERED, str(problem))
        case _:
            return Gap(WhyNot.FAILED, str(problem) or type(problem).__name__)


def answered(found: Mapping[K, V | ClusterError], noun: str, draft: Draft) -> dict[K, V]:
    """The answers without the errors, which are told as left out. Raises one if there is nothing else.

    noun: of the keys, `broker`.
    """
    good: dict[K, V] = {}
    failed: list[tuple[K, ClusterError]] = []
    for key, one in found.items():
        if isinstance(one, ClusterError):
            failed.append((key, one))
        else:
            good[key] = one
    if failed and not good:
        raise failed[0][1]
    tell_failed(failed, noun, draft)
    return good


def tell_failed(failed: list[tuple[K, ClusterError]], noun: str, draft: Draft) -> None:
    """Note which keys gave errors: one sentence for each kind of error."""
    kinds = Counter(_kind(problem) for _, problem in failed)
    for kind, count in kinds.most_common(3):
        first = next(key for key, problem in failed if _kind(problem) == kind)
        more = f" and {count - 1:,} more" if count > 1 else ""
        draft.left_out.append(f"{noun} {first}{more}: {kind}")


def _kind(problem: ClusterError) -> str:
    if problem.code in NOT_ALLOWED:
        return "not allowed"
    if problem.code is not None and problem.code in ErrorCode.__members__.values():
        return ErrorCode(problem.code).message
    return str(problem)
