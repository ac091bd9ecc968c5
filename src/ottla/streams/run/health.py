"""The health of an application: whether its Spark lives, and whether its queries run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.metrics.health import Check, Health, Verdict
from ottla.pipeline.query.query import PipelineQuery, QueryState
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams.run.ending import Ending


@dataclass(slots=True)
class ApplicationState:
    """The application as the checks see it.

    planned: the names of all queries, those that wait for their start too. session: None until Spark runs.
    """

    planned: Sequence[str]
    ending: Ending
    queries: Callable[[], Sequence[PipelineQuery]]
    session: SparkPipelineSession | None = None
    has_started: bool = False


def add_checks(health: Health, state: ApplicationState) -> None:
    """/healthz fails once Spark is gone, which a new start alone mends; /readyz until every query runs."""
    health.alive.append(Check("spark", lambda: _spark(state)))
    health.ready.append(Check("application", lambda: _application(state)))
    health.ready.append(Check("queries", lambda: _queries(state)))


def _spark(state: ApplicationState) -> Verdict:
    if state.session is None:
        return Verdict(True, "Spark has not been started yet")
    if not state.session.alive:
        return Verdict(False, "the Java process that Spark runs in has ended")
    return Verdict(True, f"Spark runs on {state.session.runtime}")


def _application(state: ApplicationState) -> Verdict:
    if state.ending.failure is not None:
        return Verdict(False, f"it ends by a failure: {state.ending.failure}")
    if state.ending.requested:
        return Verdict(False, "it is being stopped")
    return Verdict(state.has_started, "it runs" if state.has_started else "it starts")


def _queries(state: ApplicationState) -> Verdict:
    started = {query.name: query for query in state.queries()}
    problems = []
    for name in state.planned:
        query = started.pop(name, None)
        problems += [f"{name} has not been started yet"] if query is None else _problem(query)
    for query in started.values():  # those of dead letters
        problems += _problem(query)
    if problems:
        return Verdict(False, "; ".join(problems))
    return Verdict(True, f"all run: {', '.join(query.name for query in state.queries())}")


def _problem(query: PipelineQuery) -> list[str]:
    """Why a query does not run; nothing where it does."""
    match query.state:
        case QueryState.FAILED:
            return [f"{query.name} has failed: {query.failure}"]
        case QueryState.STOPPED:
            return [f"{query.name} has stopped"]
    waits = query.waits_to_restart
    return [] if waits is None else [f"{query.name} is started again soon: {waits}"]
