"""The command: `python -m bench [scenario …]`, `python -m bench profile <scenario>`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Apache Kafka's jars and its start are the conformance tests' own.
sys.path.insert(0, str(REPOSITORY / "tests"))

from bench import machine, plot, profiling, report, runner  # noqa: E402
from bench.errors import BenchError  # noqa: E402
from bench.scenarios import SCENARIOS, Scenario  # noqa: E402
from bench.servers import System  # noqa: E402
from support.java import java_tools  # noqa: E402

PROFILE = "profile"
SCRATCH = REPOSITORY / "build" / "bench"


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_intermixed_args(arguments)
    try:
        if options.list:
            for scenario in SCENARIOS.values():
                print(f"{scenario.name}\n    {scenario.method}")
        elif options.scenarios[:1] == [PROFILE]:
            _profile(options)
        else:
            _measure(options)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure ottla beside Apache Kafka 4.4.0. Writes RESULTS.md, a figure and results.json.",
        epilog=f"`python -m bench {PROFILE} SCENARIO` runs ottla alone under Python's profiler.",
    )
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help="names from --list; all without any")
    parser.add_argument("--list", action="store_true", help="name the scenarios and how each is taken")
    parser.add_argument("--runs", type=_positive, default=5, help="runs a side (default 5)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a fifth of the counted records; writes to build/bench unless --output is given",
    )
    parser.add_argument(
        "--only",
        choices=[system.value for system in System],
        help="one side alone, to tune it; writes nothing",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where the brokers' data goes (default the system's temporary directory)",
    )
    parser.add_argument("--output", type=Path, help="where the results go (default the bench directory)")
    parser.add_argument(
        "--wait-quiet",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="before each turn wait up to so long for other programs to leave the processors alone",
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _named(names: list[str]) -> list[Scenario]:
    for name in names:
        if name not in SCENARIOS:
            raise BenchError(f"no scenario is called {name}; there are: {', '.join(SCENARIOS)}")
    return [SCENARIOS[name] for name in names or SCENARIOS]


def _profile(options: argparse.Namespace) -> None:
    names = options.scenarios[1:]
    if len(names) != 1:
        raise BenchError(f"{PROFILE} takes the name of one scenario")
    (scenario,) = _named(names)
    profiling.profile(
        scenario,
        quick=options.quick,
        directory=options.directory,
        output=SCRATCH / f"{scenario.name}.prof",
        say=_say,
    )


def _measure(options: argparse.Namespace) -> None:
    scenarios = _named(options.scenarios)
    systems = [System(options.only)] if options.only else list(System)
    run_options = runner.Options(options.runs, options.quick, options.directory, options.wait_quiet, systems)
    output = options.output or (SCRATCH if options.quick else REPOSITORY / "bench")
    output.mkdir(parents=True, exist_ok=True)
    facts = machine.machine_facts(options.directory, java_tools.java_executable())
    commit = machine.commit(REPOSITORY)
    results = report.load_results(output / "results.json") or report.Results(facts, {})
    for scenario in scenarios:
        result = runner.run_scenario(scenario, run_options, commit, _say)
        if options.only:
            continue
        # Written after each scenario: an hour's work is not lost to the last one's failure.
        results = results.merged_with(report.Results(facts, {scenario.name: result}))
        report.store_results(output / "results.json", results)
        _write_report(output, results)
    if not options.only:
        print((output / "RESULTS.md").read_text(encoding="utf-8"))


def _write_report(output: Path, results: report.Results) -> None:
    (output / "RESULTS.md").write_text(report.render(results, SCENARIOS), encoding="utf-8")
    shown = results.largest()
    plot.draw(plot.bars(shown, SCENARIOS), shown.machine, output / report.FIGURE_NAME)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
