"""`ottla sql test`: statements on given rows, and what must come of them. No broker, no server."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode, os_error_line
from ottla.cli.frame.output import printable_lines
from ottla.cli.frame.terminal import Style, has_colours, styled
from ottla.config.errors import UsageError, UserError

if TYPE_CHECKING:
    from ottla.sql.functions.registry import Functions


@dataclass(frozen=True, slots=True)
class Case:
    """One test. run gives why it has failed, None if it has passed."""

    place: str
    name: str
    run: Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What statements find. registry: settings of the client of a Schema Registry, if there is one."""

    functions: Functions
    registry: Mapping[str, str] | None


@command(
    "test",
    examples=(
        "ottla sql test orders_test.sql",
        "ottla sql test tests/*.sql --name 'late rows'",
        "ottla sql test -s statements.sql -i input.json -o output.json",
        "ottla sql test avro_test.sql --schema-registry http://127.0.0.1:8081",
    ),
)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]…")
@click.option(
    "--sql-file", "-s", type=click.Path(path_type=Path), metavar="FILE", help="Statements, for rows in JSON."
)
@click.option(
    "--input-file",
    "-i",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='Records that go in: {"inputs": [{"topic": …, "key": …, "value": …, "timestamp": …}]}.',
)
@click.option(
    "--output-file",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='Records that must come out: {"outputs": […]}.',
)
@click.option("--name", metavar="TEXT", help="Run only tests with this text in their names.")
@click.option(
    "--functions", metavar="MODULE:NAME", help="Your own functions, as the server's setting has them."
)
@click.option(
    "--schema-registry",
    metavar="URL",
    help="A Schema Registry for AVRO, PROTOBUF and JSON_SR. It keeps the schemas of the tests' topics.",
)
@click.option("--json", "as_json", is_flag=True, help="Write an object a test, a line each.")
def test(
    files: tuple[Path, ...],
    sql_file: Path | None,
    input_file: Path | None,
    output_file: Path | None,
    name: str | None,
    functions: str | None,
    schema_registry: str | None,
    as_json: bool,
) -> int:
    """Check statements on given rows, without a broker.

    A FILE has tests as ksqlDB's run-ksql-test reads them: `--@test: name`, statements, INSERT INTO … VALUES,
    and ASSERT VALUES for the rows that must come. -s, -i and -o are the files of ksqlDB's ksql-test-runner.
    Queries run on Spark within this process. The exit code is 1 if a test has failed.
    """
    given = (sql_file, input_file, output_file)
    if any(given) and (files or not all(given)):
        raise UsageError("give files of tests, or -s, -i and -o together")
    if not files and not any(given):
        raise UsageError("give files of tests, or -s, -i and -o")
    from ottla.sql.functions.loading import user_functions

    sys.path.insert(0, "")  # functions of a module beside the tests
    surroundings = Surroundings(
        user_functions(functions),
        None if schema_registry is None else {"schema.registry.url": schema_registry},
    )
    if sql_file is not None and input_file is not None and output_file is not None:
        cases = [_case_of_json(sql_file, input_file, output_file, surroundings)]
    else:
        cases = [each for path in files for each in _cases_of_file(path, surroundings)]
    chosen = [each for each in cases if name is None or name in each.name]
    if not chosen:
        raise UserError("there is no test" if name is None else f"no test has {name!r} in its name")
    failed = sum(not _passes(each, as_json=as_json) for each in chosen)
    if not as_json:
        print(f"{len(chosen) - failed} passed, {failed} failed")
    return ExitCode.FAILED if failed else ExitCode.DONE


def _cases_of_file(path: Path, around: Surroundings) -> Iterator[Case]:
    from ottla.sql.language.errors import SqlError
    from ottla.sql.script_tests.files import ScriptTest, script_tests_of
    from ottla.sql.script_tests.running import problem_of

    def case(test: ScriptTest) -> Case:
        return Case(
            f"{path}:{test.line}",
            test.name,
            lambda: problem_of(test, around.functions, None, around.registry),
        )

    text = _text(path)
    try:
        found = script_tests_of(text)
    except SqlError as error:
        raise UserError(f"{path}: {error.shown(text)}") from None
    if not found:
        raise UserError(f"{path}: it has no test; one begins with --@test: name")
    yield from map(case, found)


def _case_of_json(statements: Path, inputs: Path, outputs: Path, around: Surroundings) -> Case:
    from ottla.sql.script_tests.json_files import JsonRecord, json_problem_of, records_of

    def read(path: Path, name: str) -> list[JsonRecord]:
        try:
            return records_of(_bytes(path), name)
        except UserError as problem:
            raise UserError(f"{path}: {problem}") from None

    text = _text(statements)
    given, wanted = read(inputs, "inputs"), read(outputs, "outputs")

    def run() -> str | None:
        return json_problem_of(text, given, wanted, around.functions, None, around.registry)

    return Case(str(statements), statements.stem, run)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UserError(os_error_line(problem)) from None


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode()
    except UnicodeDecodeError:
        raise UserError(f"{path}: it is not UTF-8 text") from None


def _passes(case: Case, *, as_json: bool) -> bool:
    begin = time.monotonic()
    problem = case.run()
    seconds = time.monotonic() - begin
    if as_json:
        told = {
            "test": case.name,
            "place": case.place,
            "passed": problem is None,
            "seconds": round(seconds, 3),
            "problem": problem,
        }
        print(json.dumps(told, ensure_ascii=False))
        sys.stdout.flush()
        return problem is None
    word = "passed" if problem is None else "failed"
    if has_colours(sys.stdout):
        word = styled(word, Style.GREEN if problem is None else Style.RED)
    print(f"{word}  {printable_lines(case.name)}  ({case.place}, {seconds:.1f} s)")
    if problem is not None:
        print("".join(f"    {line}\n" for line in printable_lines(problem).split("\n")), end="")
    sys.stdout.flush()
    return problem is None
