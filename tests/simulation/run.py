"""Runs seeds: `python tests/simulation/run.py --seed 17`, or `--seeds 0..20000 --jobs 2` (see --help).

One seed prints the trace of its run if it fails, or always with --trace. Many seeds run in as many processes
as there are jobs, and only failures are printed; the exit code says whether there were any.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
import time
import traceback
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulation.cluster import Result, run_seed
from simulation.shapes import SHAPES
from simulation.world.scheduler import MILLISECOND

PROGRESS_SECONDS = 10.0
TRACE_LINES = 400


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Simulated clusters from seeds")
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--seeds", help="run these: FIRST..LAST, LAST not among them")
    parser.add_argument("--shape", choices=sorted(SHAPES), help="clusters of this shape, not of random ones")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--trace", action="store_true", help="print the trace though nothing failed")
    parser.add_argument("--lines", type=int, default=TRACE_LINES, help="how much of the trace's end")
    parser.add_argument("--most", type=int, default=10, help="stop after so many failures")
    options = parser.parse_args(arguments)
    if options.seeds is not None:
        first, _, last = options.seeds.partition("..")
        return run_many(range(int(first), int(last)), options.shape, options.jobs, options.most)
    shape = None if options.shape is None else SHAPES[options.shape]
    result = run_seed(0 if options.seed is None else options.seed, shape)
    if result.problems or options.trace:
        print_trace(result, options.lines)
    print_summary(result)
    return 1 if result.problems else 0


def print_trace(result: Result, lines: int) -> None:
    """Print the events of a run, in order."""
    for when, who, what, *details in result.trace[-lines:]:
        print(f"{when / MILLISECOND / 1000:10.4f}  {who:<6} {what}  {' '.join(map(str, details))}")
    if result.error is not None:
        print("".join(traceback.format_exception(result.error)))


def print_summary(result: Result) -> None:
    """Print the end of a run."""
    print(f"seed {result.seed}: {result.shape}")
    print(
        f"  {result.simulated_ms} ms simulated, {result.events} events, "
        f"{result.acknowledged} of {result.sends} records acknowledged, trace {result.digest[:16]}"
    )
    for problem in result.problems:
        print(f"  FAILED: {problem}")
    if not result.problems:
        print("  all that must hold does")


def failed(shape: str | None, seed: int) -> tuple[int, list[str]]:
    """A seed and the violations of its run, or the failure of the simulation itself."""
    try:
        return seed, run_seed(seed, None if shape is None else SHAPES[shape]).problems
    except BaseException:
        return seed, [traceback.format_exc()]


def run_many(seeds: range, shape: str | None, jobs: int, most: int) -> int:
    """Run seeds in processes; 1 if any failed."""
    started = shown = time.monotonic()
    failures: list[tuple[int, list[str]]] = []
    run_one = functools.partial(failed, shape)
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for count, (seed, problems) in enumerate(pool.imap_unordered(run_one, seeds, chunksize=8), start=1):
            if problems:
                failures.append((seed, problems))
                print(f"seed {seed} FAILED: {problems[0][:300]}", flush=True)
                if len(failures) >= most:
                    print(f"stopped after {most} failures")
                    pool.terminate()
                    break
            now = time.monotonic()
            if now - shown >= PROGRESS_SECONDS:
                shown = now
                rate = count / (now - started)
                print(f"{count} of {len(seeds)} seeds, {rate:.1f} a second", flush=True)
        else:
            count = len(seeds)
    seconds = time.monotonic() - started
    print(f"{count} seeds in {seconds:.0f} s, failed: {sorted(seed for seed, _ in failures) or 'none'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
