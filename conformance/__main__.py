"""The command: `python -m conformance [suite …]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Apache Kafka's jars and the start of both brokers are the conformance tests' own.
sys.path.insert(0, str(REPOSITORY / "tests"))

from conformance import running  # noqa: E402
from conformance.suite import SuiteError, Verdict  # noqa: E402
from conformance.suites import load_suites  # noqa: E402
from ottla.pipeline.cache import cache_directory  # noqa: E402

SCRATCH = REPOSITORY / "build" / "conformance"


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        suites = load_suites()
        unknown = [name for name in options.suites if name not in suites]
        if unknown:
            raise SuiteError(f"no suite is called {unknown[0]}; there are: {', '.join(suites)}")
    except SuiteError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 1
    for name, suite in suites.items():
        if options.suites and name not in options.suites:
            continue
        if options.list:
            print(f"{name}: {suite.origin}")
            continue
        missing = running.missing_commands(suite)
        if missing:
            print(f"{name}: left out, not on the PATH: {', '.join(missing)}", flush=True)
            continue
        for side in (options.only,) if options.only else running.SIDES:
            print(f"{name} on {side} …", flush=True)
            result = running.run_side(suite, side, scratch=SCRATCH, downloads=options.downloads)
            if result.error:
                print(f"  could not be run: {result.error}")
            for test in result.tests:
                if test.verdict is not Verdict.PASSED or len(result.tests) < 40:
                    print(f"  {test.verdict.value:8}{test.name}{': ' if test.reason else ''}{test.reason}")
            passed = sum(test.verdict is Verdict.PASSED for test in result.tests)
            print(f"  {passed} of {len(result.tests)} passed", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description="Run other projects' tests and clients against Apache Kafka 4.3.1 and ottla.",
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
    return parser


if __name__ == "__main__":
    sys.exit(main())
