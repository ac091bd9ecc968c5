"""`ottla log verify`: checks files, and names each place that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.frame.cluster import mode_of, output_options
from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.output import Output
from ottla.storage.inspection.problem import Problem
from ottla.storage.inspection.verification import Verification

DEFAULT_PROBLEMS: Final = 100


@command(
    "verify",
    examples=(
        "ottla log verify /data",
        "ottla log verify /data/orders-0 --json",
        "ottla log verify /data/orders-0/00000000000000000000.log --shallow",
    ),
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--shallow", is_flag=True, help="Headers and CRCs of batches, without decoding their records.")
@click.option("--gaps", is_flag=True, help="Also tell missing offsets, which only compaction may leave.")
@click.option(
    "--max-problems",
    type=click.IntRange(1),
    default=DEFAULT_PROBLEMS,
    show_default=True,
    help="End after so many.",
)
@output_options
def verify(
    paths: Sequence[Path], shallow: bool, gaps: bool, max_problems: int, json: bool, quiet: bool
) -> ExitCode:
    """Check files, directories of partitions, or whole data directories.

    Checked are CRCs, the order of offsets and epochs, records, indexes against their segments, checkpoints
    against the logs, snapshots. Each bad place is told with its file, byte and offset, and the exit code is
    1. With --json each line is {"file", "position", "offset", "problem"}.
    """
    output = Output(mode_of(json, quiet))
    found = 0
    with output.progress("checking", sum(map(_size_bytes, paths)), "bytes") as bar:
        verification = Verification(deep=not shallow, gaps=gaps, seen=bar.advance)
        for path in paths:
            for problem in verification.path(path):
                found += 1
                _tell(output, problem)
                if found == max_problems:
                    output.note(f"there may be more: only {max_problems} problems are looked for")
                    return ExitCode.FAILED
    checked = verification.checked
    if output.for_people:
        counts = f"{checked.files} files, {checked.batches} batches, {checked.records} records"
        problems = "1 problem" if found == 1 else f"{found or 'no'} problems"
        output.note(f"checked {counts}, {checked.size_bytes} bytes: {problems}")
    return ExitCode.FAILED if found else ExitCode.DONE


def _tell(output: Output, problem: Problem) -> None:
    shown: dict[str, Any] = {
        "file": str(problem.path),
        "position": problem.position,
        "offset": problem.offset,
        "problem": problem.reason,
    }
    if output.is_json:
        output.json(shown)
    else:
        output.listing([shown], name="file") if output.is_quiet else output.say(str(problem))


def _size_bytes(path: Path) -> int:
    """The size of the segments below a path, for the progress bar."""
    try:
        if path.is_dir():
            return sum(_size_bytes(each) for each in path.iterdir() if each.is_dir() or each.suffix == ".log")
        return path.stat().st_size
    except OSError:
        return 0
