"""`ottla doctor`: what is wrong with a cluster, how bad, and the command that mends it.

Without --probe nothing is written and nothing is changed. The exit code is that of the worst finding, see
`DoctorCode`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Final

import click

from ottla.cli.cluster.doctor_probe import DoctorCode, probed
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.options import pairs_of, pairs_option, positive_number
from ottla.cli.frame.output import Output
from ottla.cli.frame.table import Column
from ottla.cli.frame.terminal import Style, columns_of, has_colours, styled
from ottla.config.errors import UsageError
from ottla.doctor.checks.table import CHECKS, FAMILIES, chosen, parts_of
from ottla.doctor.examination import examine
from ottla.doctor.findings import Check, Finding, Report, Severity, counted
from ottla.doctor.limits import Limits
from ottla.doctor.probe.running import ProbeOptions
from ottla.doctor.probe.topic import PROBE_TOPIC
from ottla.doctor.reading.look import LookOptions
from ottla.doctor.reading.readers import look
from ottla.doctor.snapshot import Snapshot, WhyNot

MOST_SUBJECTS: Final = 1_000
"""Of a finding in JSON; the others are counted."""
PROBE_SECONDS: Final = 5.0
WATCH_SECONDS: Final = 3_600.0
NARROWEST: Final = 60
WIDEST: Final = 110
_STYLES: Final = {
    Severity.CRITICAL: Style.RED,
    Severity.WARNING: Style.YELLOW,
    Severity.NOTE: Style.CYAN,
}
_LISTED: Final = (
    Column("check"),
    Column("family"),
    Column("worst"),
    Column("finds"),
)


def _names(_: click.Context, __: click.Parameter, words: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for word in words for name in word.split(",") if name)


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [check.name for check in CHECKS if check.name.startswith(incomplete)]


@command(
    "doctor",
    examples=(
        "ottla doctor",
        "ottla doctor --json | jq -r 'select(.severity == \"critical\").summary'",
        "ottla doctor --only certificates,disk-full --limit certificate_days=60",
        "ottla doctor --skip group-classic --metrics-from http://broker-1:9404/metrics",
        "ottla doctor --list",
        "ottla doctor --probe --for 60 --json",
        "ottla doctor --probe --watch --every 5",
    ),
)
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK,…",
    callback=_names,
    shell_complete=_complete,
    help="Only these checks; may be repeated.",
)
@click.option(
    "--skip",
    multiple=True,
    metavar="CHECK,…",
    callback=_names,
    shell_complete=_complete,
    help="Not these checks; may be repeated.",
)
@click.option("--list", "list_checks", is_flag=True, help="Write the checks, and ask no cluster.")
@pairs_option("--limit", "limit_words", "Another limit of the checks, disk_hours=24; may be repeated.")
@click.option(
    "--time",
    "seconds",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="For the whole look; checks that need longer are told.",
)
@click.option(
    "--sample",
    "sample_seconds",
    type=click.FloatRange(0, 3_600),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="Between the first and the last look at what moves; 0 looks once, and sees no trends.",
)
@click.option(
    "--metrics-from",
    "metrics_urls",
    multiple=True,
    metavar="URL",
    help="A broker's metrics page, for what requests do not tell; may be repeated.",
)
@click.option(
    "--probe", is_flag=True, help="Write and read records through every broker, in place of checks."
)
@click.option("--watch", is_flag=True, help="With --probe: go on, and tell the figures again and again.")
@click.option(
    "--for",
    "probe_seconds",
    type=float,
    metavar="SECONDS",
    help="With --probe: for so long. [default: 5; with --watch 3600]",
)
@click.option(
    "--every",
    "every_seconds",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: between two tellings.",
)
@click.option(
    "--probe-topic",
    default=PROBE_TOPIC,
    show_default=True,
    metavar="NAME",
    help="With --probe: the topic, made if it is not there.",
)
@click.option("--keep-topic", is_flag=True, help="With --probe: leave the topic that it has made.")
@asks_cluster
async def doctor(
    session: Session,
    /,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    list_checks: bool,
    limit_words: tuple[str, ...],
    seconds: float,
    sample_seconds: float,
    metrics_urls: tuple[str, ...],
    probe: bool,
    watch: bool,
    probe_seconds: float | None,
    every_seconds: float,
    probe_topic: str,
    keep_topic: bool,
) -> int:
    """Look at a cluster in seconds: what is wrong, how bad, and the command that mends it.

    Nothing is changed, and rights to describe are enough; checks that could not be made are told. Exit code:
    0 nothing but notes; 3 warnings, or checks that the cluster refused or did not answer in time; 4 something
    critical; 1 no broker answered. With --json a line a finding: check, severity, summary, subjects, more
    (how many are left out of subjects), mend, command; and a line for each check that was not made: check,
    not_made, reason.

    --probe makes a topic with a partition for each broker, writes a record to each every 0.1 seconds with
    acks=all and reads it back; the topic is removed at the end, unless it was there before. Told are, of each
    broker and of all, availability, losses, duplicates, the seconds in which nothing could be written, delays
    and the broker's clock. Exit code: 0 every record was written at once and read once; 4 records were lost
    or not read, or a broker took none; 3 errors or duplicates. With --json a line a broker, and one for all.
    """
    if probe:
        default_seconds = WATCH_SECONDS if watch else PROBE_SECONDS
        options = ProbeOptions(
            seconds=default_seconds if probe_seconds is None else positive_number(str(probe_seconds)),
            every_seconds=positive_number(str(every_seconds)) if watch else None,
            topic=probe_topic,
            keep_topic=keep_topic,
        )
        return await probed(session, options)
    if watch:
        raise UsageError("--watch goes with --probe")
    return await _examined(
        session, only, skip, list_checks, limit_words, seconds, sample_seconds, metrics_urls
    )


async def _examined(
    session: Session,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    list_checks: bool,
    limit_words: tuple[str, ...],
    seconds: float,
    sample_seconds: float,
    metrics_urls: tuple[str, ...],
) -> int:
    """Make the checks, and tell their findings."""
    checks = chosen(only, skip)
    if list_checks:
        return _list(session.output, checks)
    limits = Limits().with_values(pairs_of("--limit", limit_words))
    options = LookOptions(
        seconds=positive_number(str(seconds)),
        sample_seconds=sample_seconds,
        loss_hours=limits.loss_hours,
        metrics_urls=metrics_urls,
    )
    if options.sample_seconds >= options.seconds:
        raise UsageError("--sample must be less than --time")
    snapshot = await look(session.access, parts_of(checks), options)
    report = examine(snapshot, checks, limits)
    if session.output.is_json:
        _tell_json(session.output, report)
    elif session.output.is_quiet:
        for name in dict.fromkeys(check.name for check, _ in report.findings()):
            session.output.line(name)
    else:
        _tell(session.output, report, snapshot)
    return code_of(report)


def code_of(report: Report) -> int:
    """The exit code of a report."""
    worst = report.worst()
    if worst is Severity.CRITICAL:
        return DoctorCode.CRITICAL
    if worst is Severity.WARNING or report.has_blind_spots:
        return DoctorCode.WARNING
    return ExitCode.DONE


def _list(output: Output, checks: Sequence[Check]) -> int:
    families = {check.name: family for family, listed in FAMILIES.items() for check in listed}
    rows = [
        {
            "check": check.name,
            "family": families[check.name],
            "worst": check.worst.value,
            "finds": check.fault,
        }
        for check in checks
    ]
    output.listing(rows, _LISTED, name="check")
    return ExitCode.DONE


# -- JSON ----------------------------------------------------------------------------------------------------


def _tell_json(output: Output, report: Report) -> None:
    for check, finding in report.findings():
        output.json(finding_row(check, finding))
    for made in report.made:
        if made.left_out:
            output.json({"check": made.check.name, "not_made": "in part", "reason": "; ".join(made.left_out)})
    for missing in report.not_made:
        row = {"check": missing.check.name, "not_made": missing.gap.why.value, "reason": missing.gap.reason}
        output.json(row)


def finding_row(check: Check, finding: Finding) -> dict[str, Any]:
    """A finding as an object of `--json`."""
    return {
        "check": check.name,
        "severity": finding.severity.value,
        "summary": finding.summary,
        "subjects": list(finding.subjects[:MOST_SUBJECTS]),
        "more": max(0, len(finding.subjects) - MOST_SUBJECTS),
        "mend": finding.mend,
        "command": finding.command,
    }


# -- people --------------------------------------------------------------------------------------------------


def _tell(output: Output, report: Report, snapshot: Snapshot) -> None:
    import sys

    width = max(NARROWEST, min(WIDEST, columns_of(sys.stdout) or WIDEST))
    colours = has_colours(sys.stdout)
    for check, finding in report.findings():
        severity = finding.severity.value
        head = f"{styled(severity, _STYLES[finding.severity]) if colours else severity}  {check.name}"
        output.line(head)
        lines = [finding.summary[:1].upper() + finding.summary[1:] + "."]
        shown = _subjects(finding)
        if shown:
            lines.append(shown)
        lines.append(f"mend: {finding.mend}")
        for text in lines:
            for piece in textwrap.wrap(text, width - 4, break_long_words=False, break_on_hyphens=False):
                output.say(f"    {piece}")
        if finding.command is not None:
            output.say(f"    $ {finding.command}")
        output.say("")
    _tell_not_made(output, report, width)
    output.say(_conclusion(report, snapshot))


def _subjects(finding: Finding) -> str:
    """The subjects, where the sentence does not name them."""
    from ottla.doctor.findings import named

    unnamed = [one for one in finding.subjects[:2] if one not in finding.summary]
    return named(finding.subjects) if unnamed else ""


def _tell_not_made(output: Output, report: Report, width: int) -> None:
    reasons: dict[tuple[str, str], list[str]] = {}
    for missing in report.not_made:
        reasons.setdefault((missing.gap.why.value, missing.gap.reason), []).append(missing.check.name)
    for made in report.made:
        if made.left_out:
            reasons.setdefault(("in part", "; ".join(made.left_out)), []).append(made.check.name)
    for (why, reason), names in reasons.items():
        if why == WhyNot.NOT_OFFERED.value:
            reason = f"there is nothing to see for this client ({reason})"
        word = "checked in part" if why == "in part" else "not checked"
        text = f"{word}: {', '.join(names)}: {reason}"
        for number, piece in enumerate(textwrap.wrap(text, width - 4, break_long_words=False)):
            output.say(piece if number == 0 else f"    {piece}")
    if reasons:
        output.say("")


def _conclusion(report: Report, snapshot: Snapshot) -> str:
    counts = {
        severity: sum(1 for _, finding in report.findings() if finding.severity is severity)
        for severity in Severity
    }
    words = ", ".join(
        counted(counts[severity], noun, plural)
        for severity, noun, plural in (
            (Severity.CRITICAL, "critical finding", None),
            (Severity.WARNING, "warning", None),
            (Severity.NOTE, "note", None),
        )
        if counts[severity]
    )
    seen = []
    if snapshot.cluster.value is not None:
        seen.append(counted(len(snapshot.cluster.value.brokers), "broker"))
    if snapshot.topics.value is not None:
        seen.append(counted(len(snapshot.topics.value), "topic"))
    if snapshot.groups.value is not None:
        seen.append(counted(len(snapshot.groups.value), "group"))
    not_made = f"; {counted(len(report.not_made), 'check')} not made" if report.not_made else ""
    return (
        f"{words or 'nothing found'} in {counted(len(report.made), 'check')} of {', '.join(seen)}{not_made}"
    )
