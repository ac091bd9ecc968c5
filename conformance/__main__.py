"""The command: `python -m conformance [suite …]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Apache Kafka's jars and the start of both brokers are the conformance tests' own.
sys.path.insert(0, str(REPOSITORY / "tests"))

from conformance import report, running  # noqa: E402
from conformance.suite import Suite, SuiteError, Verdict  # noqa: E402
from conformance.suites import load_suites  # noqa: E402
from ottla.pipeline.spark.cache import cache_directory  # noqa: E402

SCRATCH = REPOSITORY / "build" / "conformance"
#: A suite of more tests than this has only those told that did not pass.
TOLD_IN_FULL = 40


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        suites = load_suites()
        unknown = [name for name in options.suites if name not in suites]
        if unknown:
            raise SuiteError(f"no suite is called {unknown[0]}; there are: {', '.join(suites)}")
        chosen = [suite for name, suite in suites.items() if not options.suites or name in options.suites]
        if options.list:
            for suite in chosen:
                print(f"{suite.name}: {suite.origin}")
            return 0
        if options.only:
            return _tune(chosen, options.only, options.downloads)
        return _compare(suites, chosen, options.downloads, options.output)
    except SuiteError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description="Run other projects' tests and clients against Apache Kafka 4.4.0 and ottla.",
        epilog="The exit code is 1 while a test passes on Apache Kafka and not on ottla.",
    )
    parser.add_argument("suites", nargs="*", metavar="suite", help="names from --list; all without any")
    parser.add_argument("--list", action="store_true", help="name the suites and whose they are")
    parser.add_argument("--only", choices=running.SIDES, help="one side alone; writes nothing")
    parser.add_argument(
        "--downloads",
        type=Path,
        default=cache_directory() / "conformance",
        help="where downloaded things stay (default in the user's cache)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=REPOSITORY / "conformance",
        help="where RESULTS.md and results.json go (default the conformance directory)",
    )
    return parser


def _tune(chosen: list[Suite], side: str, downloads: Path) -> int:
    """One side alone: the exit code says whether nothing failed."""
    failed = False
    for suite in chosen:
        missing = running.missing_commands(suite)
        if missing:
            _say(f"{suite.name}: left out, not on the PATH: {', '.join(missing)}")
            continue
        result = _run(suite, side, downloads)
        failed |= bool(result.error) or any(test.verdict is Verdict.FAILED for test in result.tests)
    return int(failed)


def _compare(suites: dict[str, Suite], chosen: list[Suite], downloads: Path, output: Path) -> int:
    results = report.load_results(output / "results.json")
    for suite in chosen:
        missing = running.missing_commands(suite)
        if missing:
            _say(f"{suite.name}: left out, not on the PATH: {', '.join(missing)}")
            # what it gave where the commands were there stays
            results.setdefault(suite.name, report.SuiteResult(suite.name, suite.origin, missing=missing))
        else:
            sides = {side: _run(suite, side, downloads) for side in running.SIDES}
            results[suite.name] = report.SuiteResult(suite.name, suite.origin, sides, dict(suite.explained))
        # written after each suite: the work is not lost to the last one's failure
        ordered = {name: results[name] for name in suites if name in results}
        report.store_results(output / "results.json", ordered)
        (output / "RESULTS.md").write_text(report.render(ordered.values()), encoding="utf-8")
    found = [defect for suite in chosen for defect in report.defects(results[suite.name])]
    for defect in found:
        _say(f"defect: {defect}")
    _say(f"{len(found)} defects; see {output / 'RESULTS.md'}")
    return int(bool(found))


def _run(suite: Suite, side: str, downloads: Path) -> running.SideResult:
    _say(f"{suite.name} on {side} …")
    result = running.run_side(suite, side, scratch=SCRATCH, downloads=downloads)
    if result.error:
        _say(f"  could not be run: {result.error}")
    for test in result.tests:
        if test.verdict is not Verdict.PASSED or len(result.tests) <= TOLD_IN_FULL:
            _say(f"  {test.verdict.value:8}{test.name}{': ' if test.reason else ''}{test.reason}")
    passed = sum(test.verdict is Verdict.PASSED for test in result.tests)
    _say(f"  {passed} of {len(result.tests)} passed")
    return result


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
