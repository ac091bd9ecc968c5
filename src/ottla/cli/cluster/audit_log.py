"""`ottla audit-log`: the audit log's records are listed, and its chains of hashes verified."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import CommandError, cluster_client
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.options import require_at_most_one
from ottla.cli.frame.table import Column
from ottla.config.errors import UsageError
from ottla.security.audit_chain import EVENTS, ChainEnd, NotAuditRecord, UnusableKey, read_record, signing_key
from ottla.security.audit_verification import AuditVerifier, Chain, Finding

#: Options that name a source other than the cluster.
_SOURCES: Final = (
    click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        help="Read the data directory of a broker that is stopped.",
    ),
    click.option(
        "--file",
        "file",
        type=click.File("r", encoding="utf-8", errors="surrogateescape"),
        help="Read lines of JSON as `ottla audit-log list --json` writes them; - is stdin.",
    ),
)
_COLUMNS: Final = (
    Column("time", "TIME"),
    Column("node", "NODE"),
    Column("event", "EVENT"),
    Column("outcome", "OUTCOME"),
    Column("count", "COUNT"),
    Column("principal", "PRINCIPAL"),
    Column("host", "HOST"),
    Column("operation", "OPERATION"),
    Column("resource", "RESOURCE"),
    Column("details", "DETAILS"),
)


def _sources(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SOURCES):
        function = option(function)
    return function


@group(
    "audit-log",
    examples=(
        "ottla audit-log verify",
        "ottla audit-log list --since -1h --event authorization",
        "ottla audit-log list --follow --json",
    ),
)
def audit_log() -> None:
    """Verify and list the audit log: logins, refusals and administrative changes.

    Brokers write it with ottla.audit.log.enable=true. A user of the log needs READ on its topic,
    __ottla_audit_log.
    """


@audit_log.command(
    "verify",
    examples=(
        "ottla audit-log verify --key-file audit.key",
        "ottla audit-log verify --json > ends.jsonl",
        "ottla audit-log verify --against ends.jsonl",
        "ottla audit-log verify --data /data",
    ),
)
@_sources
@click.option(
    "--key-file",
    "key_files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A key by which records are signed (ottla.audit.log.key.file); may be repeated, for older keys.",
)
@click.option(
    "--against",
    type=click.File("r", encoding="utf-8"),
    help="What `verify --json` wrote before: the chains must still have the ends that they had then.",
)
@click.option("--strict", is_flag=True, help="Gaps are failures too.")
@asks_cluster
async def verify(
    session: Session,
    data: Path | None,
    file: Any | None,
    key_files: Sequence[Path],
    against: Any | None,
    strict: bool,
) -> ExitCode:
    """Check that no record was changed, removed, put in, or moved.

    Each node has a chain of its own. Broken records are told with their offsets, and the exit code is 1. Gaps
    are told too: runs that ended by a crash, and events that a node could not record. With --json each line
    is {"kind": "broken" or "gap", "offset", "node", "sequence", "text"}, or for a chain at the end {"kind":
    "chain", "node", "first_sequence", "last_sequence", "last_hash", "last_offset", "records", "events",
    "runs", "signed", "begins"}.
    """
    require_at_most_one({"--data": data, "--file": file})
    keys = [_key(path) for path in key_files]
    verifier = AuditVerifier(keys, known_ends={} if against is None else _known_ends(against))
    others: list[int] = []
    if data is None and file is None:
        from ottla.cli.cluster.audit_log_sources import from_cluster, further_partitions

        async with cluster_client(session.access) as cluster:
            others = await further_partitions(cluster)
            async for part in from_cluster(cluster, session.access):
                _verify_part(verifier, part)
    else:
        for part in _local(data, file):
            _verify_part(verifier, part)
    verifier.finish()
    for index in others:
        text = f"partition {index} has records, and nodes write to partition 0 alone"
        verifier.broken.add(Finding(None, None, None, text))
    _tell(session, verifier)
    failed = verifier.broken.count or (strict and verifier.gaps.count)
    return ExitCode.FAILED if failed else ExitCode.DONE


def _verify_part(verifier: AuditVerifier, part: Any) -> None:
    verifier.log_start_offset = part.start_offset
    for entry in part.entries:
        verifier.add(entry.key, entry.value, entry.offset)


def _tell(session: Session, verifier: AuditVerifier) -> None:
    output = session.output
    findings = [
        *(("broken", each) for each in verifier.broken.first),
        *(("gap", each) for each in verifier.gaps.first),
    ]
    chains = [_chain(each) for _, each in sorted(verifier.chains.items())]
    if not output.for_people:
        rows = [{"kind": kind, **each._asdict()} for kind, each in findings]
        output.listing([*rows, *chains] if output.is_json else rows, name="offset")
        return
    for kind, each in findings:
        places = [
            f"{name} {value}"
            for name, value in each._asdict().items()
            if name != "text" and value is not None
        ]
        output.say(f"{kind}: {', '.join(places) or 'the log'}: {each.text}")
    left = verifier.broken.count + verifier.gaps.count - len(findings)
    if left:
        output.say(f"and {left} more")
    for chain in chains:
        begins = "" if chain["begins"] else f", those before sequence {chain['first_sequence']} have expired"
        output.say(
            f"node {chain['node']}: {chain['records']} records of {chain['runs']} runs, {chain['signed']} "
            f"signed{begins}; the last one has sequence {chain['last_sequence']}, hash {chain['last_hash']}"
        )
    broken, gaps = verifier.broken.count, verifier.gaps.count
    output.say(f"{broken or 'no'} broken, {gaps or 'no'} gaps" if chains or broken else "the log is empty")


def _chain(chain: Chain) -> dict[str, Any]:
    return {
        "kind": "chain",
        "node": chain.node,
        "first_sequence": chain.first_sequence,
        "last_sequence": chain.end.sequence,
        "last_hash": chain.end.hash,
        "last_offset": chain.end.offset,
        "records": chain.records,
        "events": chain.events,
        "runs": chain.runs,
        "signed": chain.signed,
        "begins": chain.begins,
    }


def _key(path: Path) -> bytes:
    try:
        return signing_key(path.read_bytes())
    except UnusableKey as problem:
        raise CommandError(f"{path}: {problem}") from None


def _known_ends(lines: Iterator[str]) -> Mapping[int, ChainEnd]:
    ends: dict[int, ChainEnd] = {}
    for line in lines:
        try:
            fields = json.loads(line)
            if fields["kind"] == "chain":
                end = ChainEnd(int(fields["last_sequence"]), str(fields["last_hash"]), fields["last_offset"])
                ends[int(fields["node"])] = end
        except (ValueError, KeyError, TypeError):
            raise UsageError("--against: a line is none of `ottla audit-log verify --json`") from None
    return ends


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """The records that a listing shows; None is any."""

    since_ms: int | None
    events: frozenset[str]
    outcomes: frozenset[str]
    principal: str | None
    resource: str | None
    node: int | None

    def has(self, fields: Mapping[str, Any]) -> bool:
        return (
            (self.since_ms is None or fields["time_ms"] >= self.since_ms)
            and (not self.events or fields["event"] in self.events)
            and (not self.outcomes or fields["outcome"] in self.outcomes)
            and self.principal in (None, fields["principal"])
            and self.resource in (None, fields["resource_name"])
            and self.node in (None, fields["node"])
        )


@audit_log.command(
    "list",
    examples=(
        "ottla audit-log list --since -1d --principal User:alice",
        "ottla audit-log list --event administration --resource orders --json",
        "ottla audit-log list --follow",
    ),
)
@_sources
@click.option(
    "--since", metavar="TIME", help="Records from then on: ISO, milliseconds, or back from now: -1h."
)
@click.option(
    "--event", "events", multiple=True, type=click.Choice(EVENTS), help="Only these; may be repeated."
)
@click.option(
    "--outcome",
    "outcomes",
    multiple=True,
    type=click.Choice(["success", "failure", "denied", "unknown"]),
    help="Only these; may be repeated.",
)
@click.option("--principal", metavar="User:NAME", help="Only events of this principal.")
@click.option("--resource", metavar="NAME", help="Only events of the resource with this name.")
@click.option("--node", type=int, metavar="ID", help="Only events that this node has recorded.")
@click.option("--follow", is_flag=True, help="Wait for further records, until it is stopped.")
@asks_cluster
async def list_records(
    session: Session,
    data: Path | None,
    file: Any | None,
    since: str | None,
    events: Sequence[str],
    outcomes: Sequence[str],
    principal: str | None,
    resource: str | None,
    node: int | None,
    follow: bool,
) -> None:
    """Show the records, in the order of the log.

    Nothing is verified. With --json each line is a record with its offset, as `verify --file` reads it.
    """
    from ottla.cli.records.places import parse_time

    require_at_most_one({"--data": data, "--file": file, "--follow": follow or None})
    since_ms = None if since is None else parse_time(since, time.time_ns() // 1_000_000)
    wanted = _Wanted(since_ms, frozenset(events), frozenset(outcomes), principal, resource, node)
    if data is None and file is None:
        async with cluster_client(session.access) as cluster:
            await _show(session, _of_cluster(cluster, session, since_ms, follow), wanted, at_once=follow)
    else:
        await _show(session, _of_local(data, file), wanted, at_once=False)


async def _of_cluster(
    cluster: Any, session: Session, since_ms: int | None, follow: bool
) -> AsyncIterator[Any]:
    from ottla.cli.cluster.audit_log_sources import from_cluster

    async for part in from_cluster(cluster, session.access, since_ms=since_ms, follow=follow):
        yield part


async def _of_local(data: Path | None, file: Any | None) -> AsyncIterator[Any]:
    for part in _local(data, file):
        yield part


def _local(data: Path | None, file: Any | None) -> Iterator[Any]:
    from ottla.cli.cluster.audit_log_sources import from_directory, from_lines

    if data is not None:
        return from_directory(data)
    assert file is not None
    return from_lines(file)


async def _show(session: Session, parts: AsyncIterator[Any], wanted: _Wanted, *, at_once: bool) -> None:
    output = session.output
    rows: list[dict[str, Any]] = []
    async for part in parts:
        for entry in part.entries:
            try:
                fields = read_record(entry.value).fields
            except NotAuditRecord as problem:
                output.warn(f"offset {entry.offset}: {problem}")
                continue
            if not wanted.has(fields):
                continue
            if output.is_json:
                place = {} if entry.offset is None else {"offset": entry.offset}
                output.json({**place, **fields})
            elif output.is_quiet:
                output.line(str(entry.offset))
            elif at_once:
                output.say("  ".join(str(value) for value in _row(fields).values() if value != ""))
            else:
                rows.append(_row(fields))
        if at_once:
            sys.stdout.flush()
    if output.for_people and not at_once:
        output.listing(rows, _COLUMNS, empty="there are no such records")


def _row(fields: Mapping[str, Any]) -> dict[str, Any]:
    kind, name = fields["resource_type"], fields["resource_name"]
    details = " ".join(
        f"{key}={json.dumps(value) if isinstance(value, (dict, list)) else value}"
        for key, value in fields["details"].items()
        if value not in (None, {}, [], False)
    )
    return {
        "time": _instant(fields["time_ms"]),
        "node": fields["node"],
        "event": fields["event"],
        "outcome": fields["outcome"],
        "count": fields["count"],
        "principal": fields["principal"] or "",
        "host": fields["host"] or "",
        "operation": fields["operation"] or "",
        "resource": f"{kind}:{name}" if kind else "",
        "details": details,
    }


def _instant(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
