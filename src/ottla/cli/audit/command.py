"""`ottla audit`: the services that count and answer, and the report of what they know."""

from __future__ import annotations

from typing import Final

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

ENTRIES: Final[dict[str, Entry]] = {
    "count": Entry("ottla.cli.servers.audit:count", "Count a cluster, a tier of the audit, as a service"),
    "serve": Entry("ottla.cli.servers.audit:serve", "Show the audit on a page, and tell of losses"),
    "report": Entry("ottla.cli.audit.report:report", "Tell how complete each topic is, and what is missing"),
    "interceptor": Entry(
        "ottla.cli.audit.interceptor:interceptor", "Make the jar with which Java's producers report"
    ),
}

audit: Final = LazyGroup(
    "audit",
    entries=ENTRIES,
    help="""Count every message from its producer through each cluster, and name what is lost or doubled.

Producers report what they send (`from ottla.audit import AuditedProducer`), `count` counts what is there.""",
    examples=(
        "ottla audit count --bootstrap 127.0.0.1:9092 --set tier=app",
        "ottla audit serve --bootstrap 127.0.0.1:9092",
        "ottla audit report",
        "ottla audit report --json --since 2h",
    ),
)
