"""`ottla doctor --probe`: the figures of records that went through every broker."""

from __future__ import annotations

import enum
import time
from typing import Any, Final

from ottla.cli.frame.cluster import Session
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.output import Output
from ottla.cli.frame.table import Column
from ottla.doctor.probe.figures import ProbeFigures
from ottla.doctor.probe.running import Probe, ProbeOptions, ProbeReport


class DoctorCode(enum.IntEnum):
    """Exit codes beside the frame's: 0 is a sound cluster, with notes at most, 1 and 2 a look that failed."""

    WARNING = 3
    """Warnings, or checks that the cluster refused or did not answer in time."""
    CRITICAL = 4


def _part(value: float) -> str:
    return f"{value:.2%}"


def _ms(value: float) -> str:
    return f"{value:.1f}"


_COLUMNS: Final = (
    Column("broker", "broker", right=True, show=lambda value: str(value)),
    Column("produce_availability", "written", right=True, show=_part),
    Column("consume_availability", "read", right=True, show=_part),
    Column("records_produced", "records", right=True),
    Column("produce_errors", "errors", right=True),
    Column("records_lost", "lost", right=True),
    Column("records_duplicated", "twice", right=True),
    Column("outage_seconds", "out s", right=True, show=_ms),
    Column("records_delay_ms_p50", "ms p50", right=True, show=_ms),
    Column("records_delay_ms_p99", "ms p99", right=True, show=_ms),
    Column("records_delay_ms_max", "ms max", right=True, show=_ms),
    Column("clock_skew_ms", "clock ms", right=True, show=_ms),
)


async def probed(session: Session, options: ProbeOptions) -> int:
    """Probe, and tell the figures; the exit code."""
    began = time.monotonic()

    def tell(report: ProbeReport, *, final: bool = False) -> None:
        _tell(session.output, report, time.monotonic() - began, final=final)

    report = await Probe(session.access, options).run(tell)
    tell(report, final=True)
    return code_of(report)


def code_of(report: ProbeReport) -> int:
    """The exit code of a probe."""
    whole = report.whole
    silent = any(not one.records_produced for one in report.brokers)
    if whole.records_lost or whole.records_unread or silent:
        return DoctorCode.CRITICAL
    return ExitCode.DONE if whole.is_sound else DoctorCode.WARNING


def _tell(output: Output, report: ProbeReport, seconds: float, *, final: bool) -> None:
    clocks = report.clocks
    rows = []
    for one in (*report.brokers, report.whole):
        reading = clocks.get(f"broker {one.broker}")
        rows.append(_row(one) | {"clock_skew_ms": None if reading is None else round(reading.skew_ms, 3)})
    if output.is_json:
        for row in rows:
            output.json(row | {"seconds": round(seconds, 3), "final": final})
        return
    if output.is_quiet:
        if final:
            for one in report.brokers:
                if not one.is_sound:
                    output.line(str(one.broker))
        return
    rows[-1] = rows[-1] | {"broker": "all"}
    output.listing(rows, _COLUMNS)
    if final:
        for one in report.brokers:
            if one.last_error is not None:
                output.say(
                    f"broker {one.broker}: {one.produce_errors:,} errors in {one.outage_seconds:.1f} seconds "
                    f"without a record, {one.longest_outage_seconds:.1f} at a time; the last: "
                    f"{one.last_error}"
                )
    else:
        output.say("")


def _row(one: ProbeFigures) -> dict[str, Any]:
    """The figures as an object of `--json`; the names are Xinfra Monitor's where it has one."""
    return {
        "broker": one.broker,
        "partitions": one.partitions,
        "produce_availability": _rounded(one.produce_availability, 6),
        "consume_availability": _rounded(one.consume_availability, 6),
        "records_produced": one.records_produced,
        "produce_errors": one.produce_errors,
        "records_consumed": one.records_consumed,
        "records_lost": one.records_lost,
        "records_duplicated": one.records_duplicated,
        "records_unread": one.records_unread,
        "outage_seconds": round(one.outage_seconds, 3),
        "longest_outage_seconds": round(one.longest_outage_seconds, 3),
        **{f"produce_delay_ms_{name}": _rounded(value) for name, value in one.produce_delay_ms.items()},
        **{f"records_delay_ms_{name}": _rounded(value) for name, value in one.delay_ms.items()},
        "last_error": one.last_error,
    }


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
