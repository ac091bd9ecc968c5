"""Models, plans and states as JSON in the shape of Cruise Control's answers (version 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.balance.core.anomalies import Anomaly, AnomalyKind, Detector
from ottla.balance.core.goals import Goal
from ottla.balance.core.model import (
    Broker,
    BrokerState,
    ClusterModel,
    Dimension,
    Load,
    Partition,
    topics_of,
)
from ottla.balance.core.plan import Plan
from ottla.balance.core.rightsizing import Rightsizing
from ottla.balance.execution.journal import Execution
from ottla.balance.execution.runner import Progress
from ottla.balance.planning import Planned, TopicPattern
from ottla.balance.reading import Reading

VERSION: Final = 1
MEGABYTE: Final = 1 << 20
KILOBYTE: Final = 1 << 10
NOT_KNOWN: Final = -1.0
"""Where Cruise Control has a number and none is known: a capacity that nobody has told."""
HARD_WEIGHT: Final = 3.0
NO_LEADER: Final = -1
STATES: Final = {
    BrokerState.ALIVE: "ALIVE",
    BrokerState.NEW: "NEW",
    BrokerState.DEMOTED: "DEMOTED",
    BrokerState.REMOVED: "ALIVE",
    BrokerState.DEAD: "DEAD",
}


def load_body(model: ClusterModel, loads: Mapping[int, Load]) -> dict[str, Any]:
    """The loads of all brokers, and of the hosts that they are on."""
    rows = [_broker_row(one, loads[one.id]) for one in model.brokers]
    hosts: dict[str, dict[str, Any]] = {}
    for row in rows:
        host = hosts.setdefault(row["Host"], {"Host": row["Host"], "Rack": row["Rack"]})
        for name, value in row.items():
            if isinstance(value, int | float) and name not in ("Broker", "DiskPct"):
                host[name] = host.get(name, 0) + value
    return {"brokers": rows, "hosts": list(hosts.values()), "version": VERSION}


def _broker_row(broker: Broker, load: Load) -> dict[str, Any]:
    capacity = broker.capacity
    disk = capacity.disk
    return {
        "Broker": broker.id,
        "Host": broker.host,
        "Rack": broker.rack or broker.host,
        "BrokerState": STATES[broker.state],
        "Replicas": round(load[Dimension.REPLICAS]),
        "Leaders": round(load[Dimension.LEADERS]),
        "DiskMB": load[Dimension.DISK] / MEGABYTE,
        "DiskPct": load[Dimension.DISK] / disk * 100 if disk else NOT_KNOWN,
        "DiskCapacityMB": disk / MEGABYTE if disk else NOT_KNOWN,
        "CpuPct": load[Dimension.CPU],
        "NumCore": round(capacity.cpu / 100) if capacity.cpu else 1,
        "LeaderNwInRate": load[Dimension.LEADER_IN] / KILOBYTE,
        "FollowerNwInRate": (load[Dimension.NW_IN] - load[Dimension.LEADER_IN]) / KILOBYTE,
        "NwOutRate": load[Dimension.NW_OUT] / KILOBYTE,
        "PnwOutRate": load[Dimension.POTENTIAL_OUT] / KILOBYTE,
        "NetworkInCapacity": capacity.nw_in / KILOBYTE if capacity.nw_in else NOT_KNOWN,
        "NetworkOutCapacity": capacity.nw_out / KILOBYTE if capacity.nw_out else NOT_KNOWN,
    }


def partition_load_body(
    reading: Reading,
    resource: Callable[[Partition], float],
    pattern: TopicPattern | None,
    span: tuple[int, int] | None,
    most: int | None,
) -> dict[str, Any]:
    """What partitions cost the brokers that lead them, the largest first. span: first and last partition."""
    partitions = reading.model.partitions
    topics = None if pattern is None else pattern.among(topics_of(reading.model))
    chosen = [
        one
        for one in partitions
        if (topics is None or one.topic in topics) and (span is None or span[0] <= one.partition <= span[1])
    ]
    chosen.sort(key=lambda one: (-resource(one), one.topic, one.partition))
    return {
        "records": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "leader": NO_LEADER if one.leader is None else one.leader,
                "followers": [each for each in one.replicas if each != one.leader],
                "cpu": one.cpu,
                "disk": one.size / MEGABYTE,
                "networkInbound": one.rate_in / KILOBYTE,
                "networkOutbound": _sent(one) / KILOBYTE,
                "msg_in": reading.records_in.get((one.topic, one.partition), 0.0),
            }
            for one in chosen[:most]
        ],
        "version": VERSION,
    }


def _sent(partition: Partition) -> float:
    leader, _ = partition.loads()
    return leader[Dimension.NW_OUT]


RESOURCES: Final[Mapping[str, Callable[[Partition], float]]] = {
    "cpu": lambda one: one.cpu,
    "disk": lambda one: one.size,
    "nw_in": lambda one: one.rate_in,
    "nw_out": _sent,
}
"""What partitions can be sorted by."""


def plan_body(found: Planned, *, verbose: bool) -> dict[str, Any]:
    """A plan. verbose: with all proposals."""
    plan, wish = found.plan, found.wish
    body = {
        "summary": {
            "numReplicaMovements": plan.replica_moves,
            "dataToMoveMB": round(plan.bytes_moved / MEGABYTE),
            "numIntraBrokerReplicaMovements": 0,
            "intraBrokerDataToMoveMB": 0,
            "numLeaderMovements": plan.leader_changes,
            "recentWindows": 1,
            "monitoredPartitionsPercentage": 100.0,
            "excludedTopics": sorted(wish.scope(found.model).fixed_topics),
            "excludedBrokersForLeadership": sorted(wish.demoted),
            "excludedBrokersForReplicaMove": sorted(wish.removed),
            "onDemandBalancednessScoreBefore": _score(plan, before=True),
            "onDemandBalancednessScoreAfter": _score(plan, before=False),
            "provisionStatus": "RIGHT_SIZED" if plan.hard_goals_hold else "UNDER_PROVISIONED",
            "provisionRecommendation": "; ".join((*plan.problems, *found.problems)),
        },
        "goalSummary": [
            {"goal": one.goal.title, "status": _status(one.before, one.after)} for one in plan.goals
        ],
        "loadAfterOptimization": load_body(found.model, plan.after),
        "version": VERSION,
    }
    if verbose:
        body["loadBeforeOptimization"] = load_body(found.model, plan.before)
        body["proposals"] = [
            {
                "topicPartition": {"topic": one.topic, "partition": one.partition},
                "oldLeader": NO_LEADER if one.leader is None else one.leader,
                "oldReplicas": list(one.before),
                "newReplicas": list(one.after),
            }
            for one in plan.changes
        ]
    return body


def _status(before: int, after: int) -> str:
    if after:
        return "VIOLATED"
    return "FIXED" if before else "NO-ACTION"


def _score(plan: Plan, *, before: bool) -> float:
    """How balanced, up to 100: the goals that hold, hard ones three times."""
    weights = {one.goal: HARD_WEIGHT if one.goal.hard else 1.0 for one in plan.goals}
    held = sum(weights[one.goal] for one in plan.goals if not (one.before if before else one.after))
    return 100.0 * held / sum(weights.values())


def size_body(found: Rightsizing) -> dict[str, Any]:
    """What size the cluster should have."""
    return {
        "provisionStatus": found.provision.value,
        "numBrokers": found.brokers,
        "recommendedNumBrokers": found.needed,
        "recommendation": dict(found.reasons),
        "version": VERSION,
    }


def executor_body(execution: Execution | None, progress: Progress | None) -> dict[str, Any]:
    """The state of executions. progress: where this copy carries it out."""
    if execution is None or execution.finished:
        return {"state": "NO_TASK_IN_PROGRESS"}
    body: dict[str, Any] = {
        "state": "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS",
        "triggeredUserTaskId": execution.id,
        "triggeredTaskReason": execution.purpose,
        "owner": execution.owner,
    }
    if progress is not None:
        body |= {
            "numTotalMovements": progress.changes,
            "numFinishedMovements": progress.done,
            "numInProgressMovements": progress.under_way,
            "numFailedMovements": len(progress.problems),
            "totalDataToMove": progress.bytes_total // MEGABYTE,
            "finishedDataMovement": progress.bytes_done // MEGABYTE,
        }
    return body


def analyzer_body(last: Planned | None) -> dict[str, Any]:
    """The state of planning."""
    return {
        "isProposalReady": last is not None,
        "readyGoals": [goal.title for goal in Goal],
        "goalReadiness": [
            {"name": goal.title, "modelCompleteRequirement": {}, "status": "ready"} for goal in Goal
        ],
    }


_RECENT: Final = {
    AnomalyKind.GOAL_VIOLATION: "recentGoalViolations",
    AnomalyKind.BROKER_FAILURE: "recentBrokerFailures",
    AnomalyKind.DISK_FAILURE: "recentDiskFailures",
}
_UNWATCHED: Final = {
    "METRIC_ANOMALY": "recentMetricAnomalies",
    "TOPIC_ANOMALY": "recentTopicAnomalies",
    "MAINTENANCE_EVENT": "recentMaintenanceEvents",
}
"""Kinds of Cruise Control's that nobody looks for here."""


def detector_body(detector: Detector, last: Planned | None) -> dict[str, Any]:
    """The state of self-healing: what is mended, and what was seen."""
    healed = [kind.value for kind in AnomalyKind if kind in detector.healed]
    others = [kind.value for kind in AnomalyKind if kind not in detector.healed]
    body: dict[str, Any] = {"selfHealingEnabled": healed, "selfHealingDisabled": [*others, *_UNWATCHED]}
    for kind, name in _RECENT.items():
        body[name] = [_anomaly(one) for one in detector.recent(kind)]
    body |= {name: [] for name in _UNWATCHED.values()}
    body["metrics"] = {
        "numSelfHealingStarted": detector.started,
        "numSelfHealingFailedToStart": detector.refused,
    }
    if detector.fixing is not None:
        body["ongoingSelfHealingAnomaly"] = detector.fixing.id
    if last is not None:
        body["balancednessScore"] = _score(last.plan, before=True)
    return body


def _anomaly(anomaly: Anomaly) -> dict[str, Any]:
    body: dict[str, Any] = {
        "anomalyId": anomaly.id,
        "detectionMs": anomaly.detected_ms,
        "status": anomaly.status.value,
        "statusUpdateMs": anomaly.status_ms,
    }
    match anomaly.kind:
        case AnomalyKind.BROKER_FAILURE:
            body["failedBrokersByTimeMs"] = {str(one): at for one, at in anomaly.brokers.items()}
        case AnomalyKind.DISK_FAILURE:
            body["failedDisksByTimeMs"] = {str(one): dict(disks) for one, disks in anomaly.disks.items()}
        case AnomalyKind.GOAL_VIOLATION:
            body["fixableViolatedGoals"] = list(anomaly.fixable)
            body["unfixableViolatedGoals"] = list(anomaly.unfixable)
    return body
