"""`ottla mirror status`: the flows of a mirror that runs, and how far behind they are."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.connect.session import access_of
from ottla.cli.frame.cluster import mode_of, output_options
from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.output import Output
from ottla.cli.frame.rest_client import credential_options
from ottla.cli.frame.table import Column
from ottla.cli.frame.terminal import Style
from ottla.client.connect_api import ConnectApi
from ottla.client.errors import ClusterError
from ottla.client.rest_access import RestAccess
from ottla.mirror.run.settings import DEFAULT_LISTEN, URL_VARIABLE

DEFAULT_URL: Final = f"http://{DEFAULT_LISTEN}"
SOURCE: Final = "MirrorSourceConnector"
RUNNING: Final = "RUNNING"
_STATES: Final = ("failed", "down", "restarting", "unassigned", "paused", "stopped", "idle", "running")
"""The worst first: the state of a flow is the worst of its parts."""


def _rounded(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return f"{value:.1f}"


def _style(state: str) -> str:
    return {"running": Style.GREEN, "idle": "", "failed": Style.RED, "down": Style.RED}.get(
        state, Style.YELLOW
    )


FLOWS: Final = (
    Column("flow"),
    Column("state", style=_style),
    Column("tasks", right=True),
    Column("partitions", right=True, show=lambda found: str(len(found))),
    Column("lag", right=True, show=_rounded),
    Column("lag_seconds", "seconds", right=True, show=_seconds),
    Column("records_per_second", "records/s", right=True, show=_rounded),
    Column("bytes_per_second", "bytes/s", right=True, show=_rounded),
    Column("delivery"),
    Column("problem"),
)
PARTITIONS: Final = (
    Column("flow"),
    Column("partition"),
    Column("position", right=True),
    Column("lag", right=True, show=_rounded),
    Column("lag_seconds", "seconds", right=True, show=_seconds),
    Column("records", right=True, show=_rounded),
    Column("bytes", right=True, show=_rounded),
    Column("dead_letters", "dead letters", right=True, show=_rounded),
    Column("lost_offsets", "lost", right=True, show=_rounded),
)


@command(
    "status",
    examples=[
        "ottla mirror status",
        "ottla mirror status --partitions",
        "ottla mirror status --json --url http://mirror-1:8084",
        "ottla mirror status --fail-on not-running",
    ],
)
@click.option("--partitions", is_flag=True, help="Show each partition that is copied, in place of flows.")
@click.option(
    "--fail-on",
    type=click.Choice(("not-running",)),
    help=f"End with exit code {ExitCode.FOUND.value} if an enabled flow is in another state than running.",
)
@click.option(
    "--url",
    metavar="URL,…",
    help=f"Mirrors to ask, one after the other. [or {URL_VARIABLE}; default: {DEFAULT_URL}]",
)
@credential_options
@output_options
def status(
    partitions: bool,
    fail_on: str | None,
    url: str | None,
    command_config: Path | None,
    set_words: tuple[str, ...],
    json: bool,
    quiet: bool,
) -> int:
    """Show the flows of a mirror: state, lag in records and seconds, throughput.

    Tasks that other copies of the process run are asked there.
    """
    access = access_of(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL, command_config, set_words)
    output = Output(mode_of(json, quiet))
    server = ConnectApi(access).server()
    rows = [_flow(access, each) for each in server.get("flows", ())]
    if partitions:
        found = [part for row in rows for part in row["partitions"]]
        output.listing(found, PARTITIONS, empty="no partition is copied")
    else:
        output.listing(rows, FLOWS, empty="no flow runs here")
    is_bad = any(row["enabled"] and row["state"] not in ("running", "idle") for row in rows)
    return ExitCode.FOUND if fail_on and is_bad else ExitCode.DONE


def _flow(access: RestAccess, told: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a flow, with its partitions."""
    name = f"{told['source']}->{told['target']}"
    row: dict[str, Any] = {
        "flow": name,
        "source": told["source"],
        "target": told["target"],
        "enabled": bool(told.get("enabled")),
        "state": "down",
        "tasks": 0,
        "lag": 0,
        "lag_seconds": 0.0,
        "records_per_second": 0.0,
        "bytes_per_second": 0.0,
        "delivery": None,
        "partitions": [],
        "problem": told.get("problem"),
    }
    if told.get("problem"):
        return row
    try:
        connectors = _api(access, told["path"]).connectors()
    except ClusterError as problem:
        return {**row, "problem": str(problem)}
    row["state"], row["problem"] = _state(connectors.values())
    tasks = (connectors.get(SOURCE, {}).get("status") or {}).get("tasks", [])
    row["tasks"] = len(tasks)
    for task in _with_figures(access, told["path"], tasks):
        _add(row, task.get("figures") or {})
    return row


def _api(access: RestAccess, path: str) -> ConnectApi:
    urls = tuple(f"{each}{path.rstrip('/')}" for each in access.urls)
    return ConnectApi(dataclasses.replace(access, urls=urls))


def _with_figures(
    access: RestAccess, path: str, tasks: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The tasks, those without figures as the copy tells them that runs them."""
    found: list[Mapping[str, Any]] = []
    scheme = access.urls[0].partition("://")[0]
    told: dict[str, dict[int, Mapping[str, Any]]] = {}
    for task in tasks:
        worker = str(task.get("worker_id", ""))
        if task.get("figures") or not worker or task.get("state") != RUNNING:
            found.append(task)
            continue
        if worker not in told:
            there = dataclasses.replace(access, urls=(f"{scheme}://{worker}",))
            try:
                asked = _api(there, path).status(SOURCE)["tasks"]
            except ClusterError:
                asked = []
            told[worker] = {each["id"]: each for each in asked}
        found.append(told[worker].get(task["id"], task))
    return found


def _add(row: dict[str, Any], figures: Mapping[str, Any]) -> None:
    """Add a task's figures to those of its flow."""
    row["lag"] += int(figures.get("lag-records", 0))
    row["lag_seconds"] = max(row["lag_seconds"], figures.get("lag-seconds", 0.0))
    row["records_per_second"] += figures.get("record-rate", 0.0)
    row["bytes_per_second"] += figures.get("byte-rate", 0.0)
    if "exactly-once" in figures:
        row["delivery"] = "exactly once" if figures["exactly-once"] else "at least once"
    for partition, each in sorted(figures.get("partitions", {}).items()):
        row["partitions"].append(
            {
                "flow": row["flow"],
                "partition": partition,
                "position": int(each.get("position", 0)),
                "lag": int(each.get("lag-records", 0)),
                "lag_seconds": each.get("lag-seconds", 0.0),
                "records": int(each.get("record-count", 0)),
                "bytes": int(each.get("byte-count", 0)),
                "dead_letters": int(each.get("dead-letters", 0)),
                "lost_offsets": int(each.get("lost-offsets", 0)),
            }
        )


def _state(connectors: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """The worst state of a flow's connectors and tasks, and the first line of a trace."""
    states, problem = set(), None
    for each in connectors:
        found = each.get("status") or {}
        for part in (found.get("connector") or {}, *found.get("tasks", [])):
            states.add(str(part.get("state", "")).lower())
            problem = problem or str(part.get("trace") or "").partition("\n")[0] or None
    worst = next((state for state in _STATES if state in states), "idle")
    return worst, problem
