"""Parameters of requests, by Cruise Control's names, and what each request takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.balance.core.anomalies import AnomalyKind
from ottla.balance.core.goals import Goal
from ottla.balance.core.scope import GoalError, goals_named
from ottla.balance.planning import TopicPattern, WishError
from ottla.web.errors import ApiError

BROKERS: Final = "brokerid"
_COMMON: Final = frozenset({"json", "reason"})
_NO_EFFECT: Final = frozenset(
    {"allow_capacity_estimation", "data_from", "fast_mode", "use_ready_default_goals"}
)
"""Of windows of metrics, which there are none of here; each goal is always ready."""
_OPTIMIZED: Final = _NO_EFFECT | {
    "excluded_topics",
    "exclude_recently_demoted_brokers",
    "exclude_recently_removed_brokers",
    "goals",
    "skip_hard_goal_check",
    "verbose",
}
_CARRIED_OUT: Final = _OPTIMIZED | {
    "concurrent_partition_movements_per_broker",
    "dryrun",
    "max_partition_movements_in_cluster",
    "replication_throttle",
    "stop_ongoing_execution",
}
_DESTINATIONS: Final = frozenset({"destination_broker_ids"})
_CACHE: Final = frozenset({"ignore_proposal_cache"})
"""Of no effect: there is no cache."""

_TAKEN: Final[Mapping[str, frozenset[str]]] = {
    "state": frozenset({"substates", "verbose", "super_verbose"}),
    "load": frozenset({"allow_capacity_estimation"}),
    "proposals": _OPTIMIZED | _CACHE,
    "user_tasks": frozenset(
        {"client_ids", "endpoints", "entries", "fetch_completed_task", "types", "user_task_ids"}
    ),
    "partition_load": _NO_EFFECT
    | {"avg_load", "entries", "max_load", "min_valid_partition_ratio", "partition", "resource", "topic"},
    "kafka_cluster_state": frozenset({"topic", "verbose"}),
    "rebalance": _CARRIED_OUT | _DESTINATIONS | _CACHE,
    "add_broker": _CARRIED_OUT | {BROKERS},
    "remove_broker": _CARRIED_OUT | _DESTINATIONS | {BROKERS},
    "demote_broker": _CARRIED_OUT - {"goals", "skip_hard_goal_check", "excluded_topics"} | {BROKERS},
    "fix_offline_replicas": _CARRIED_OUT,
    "topic_configuration": _CARRIED_OUT | {"replication_factor", "skip_rack_awareness_check", "topic"},
    "rightsize": frozenset({"growth", "spare"}),
    "admin": frozenset(
        {
            "disable_self_healing_for",
            "drop_recently_demoted_brokers",
            "drop_recently_removed_brokers",
            "enable_self_healing_for",
        }
    ),
    "stop_proposal_execution": frozenset({"force_stop"}),
}
"""What each request takes beside `json` and `reason`. Others are refused: what is not understood might say
what is not to move.
"""


class Parameters:
    """The parameters of one request; their names are read in any case. Raises ApiError for unknown ones."""

    def __init__(self, request: str, query: Mapping[str, str]) -> None:
        taken = _TAKEN[request] | _COMMON
        self._values = {name.lower(): value for name, value in query.items()}
        if unknown := sorted(self._values.keys() - taken):
            raise ApiError(
                400, 400, f"{request} takes no parameter {unknown[0]}; it takes {', '.join(sorted(taken))}"
            )

    def text(self, name: str) -> str | None:
        """A parameter as it stands; None without it."""
        return self._values.get(name)

    def flag(self, name: str, default: bool) -> bool:
        """A parameter that is true or false. Raises ApiError."""
        text = self._values.get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ApiError(400, 400, f"{name}={text}: write true or false")
        return text.lower() == "true"

    def number(self, name: str, default: float) -> float:
        """A parameter that is a number from 0 on. Raises ApiError."""
        text = self._values.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise ApiError(400, 400, f"{name}={text}: write a number")
        return value

    def whole(self, name: str, least: int) -> int | None:
        """A parameter that is a whole number, None without it. Raises ApiError."""
        text = self._values.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) >= least):
            raise ApiError(400, 400, f"{name}={text}: write a whole number from {least} on")
        return int(text)

    def words(self, name: str) -> tuple[str, ...]:
        """A parameter that is words with commas between."""
        return tuple(word.strip() for word in self._values.get(name, "").split(",") if word.strip())

    def brokers(self, name: str, *, required: bool) -> tuple[int, ...]:
        """A parameter that is ids of brokers. Raises ApiError."""
        words = self.words(name)
        is_wanted = required or name in self._values
        if (is_wanted and not words) or not all(_is_id(word) for word in words):
            text = self._values.get(name, "")
            raise ApiError(400, 400, f"{name}={text}: write ids of brokers with commas between")
        return tuple(dict.fromkeys(map(int, words)))

    def span(self, name: str) -> tuple[int, int] | None:
        """A parameter that is a number, or two with a dash between; None without it. Raises ApiError."""
        text = self._values.get(name)
        if text is None:
            return None
        first, dash, last = text.partition("-")
        if not _is_id(first) or not _is_id(last if dash else first):
            raise ApiError(400, 400, f"{name}={text}: write a number, or two with - between")
        return int(first), int(last if dash else first)

    def pattern(self, name: str) -> TopicPattern | None:
        """A parameter that is a regular expression of topics; None without it. Raises ApiError."""
        text = self._values.get(name)
        try:
            return TopicPattern.of(text) if text else None
        except WishError as problem:
            raise ApiError(400, 400, f"{name}: {problem}") from None

    def anomalies(self, name: str) -> tuple[AnomalyKind, ...]:
        """A parameter that is kinds of anomalies. Raises ApiError."""
        known = {kind.value: kind for kind in AnomalyKind}
        words = [word.upper() for word in self.words(name)]
        if unknown := [word for word in words if word not in known]:
            raise ApiError(400, 400, f"{name}: nothing is done about {unknown[0]}; about {', '.join(known)}")
        return tuple(known[word] for word in words)

    def goals(self) -> frozenset[Goal]:
        """The goals that are meant, all where none is named. Raises ApiError."""
        try:
            skipped = self.flag("skip_hard_goal_check", False)
            return goals_named(self.words("goals"), skip_hard_goal_check=skipped)
        except GoalError as problem:
            raise ApiError(400, 400, f"goals: {problem}") from None


def _is_id(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= 10
