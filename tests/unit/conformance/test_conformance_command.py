"""The command: what runs, what is kept, the exit code; and what is fetched once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conformance.downloads import checkout
from conformance.report import load_results
from conformance.running import KAFKA, OTTLA, SideResult
from conformance.suite import Suite, SuiteError, TestResult, Verdict

from conformance import __main__ as command
from conformance import running

Ends = dict[tuple[str, str], Verdict | str]


def suite(name: str, *needs: str) -> Suite:
    return Suite(name, f"tests of {name}", lambda target: (), needs=needs)


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Ends:
    """How the only test of each suite ends on each side; a str is an error. Nothing is started."""
    ends: Ends = {}

    def run_side(suite: Suite, side: str, *, scratch: Path, downloads: Path) -> SideResult:
        end = ends.get((suite.name, side), Verdict.PASSED)
        return SideResult((), end) if isinstance(end, str) else SideResult((TestResult("t", end),))

    suites = {one.name: one for one in (suite("cats"), suite("dogs"), suite("fish", "no-such-command"))}
    monkeypatch.setattr(running, "run_side", run_side)
    monkeypatch.setattr(command, "load_suites", lambda: suites)
    return ends


def test_all_suites_run_on_both_sides_and_are_written(verdicts: Ends, tmp_path: Path):
    assert command.main(["--output", str(tmp_path)]) == 0
    results = load_results(tmp_path / "results.json")
    assert list(results) == ["cats", "dogs", "fish"]
    assert list(results["cats"].sides) == [KAFKA, OTTLA]
    assert results["fish"].missing == ("no-such-command",)
    scoreboard = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "| cats | tests of cats | 1 | 1 | 0 | 0 | 0 | 0 |" in scoreboard
    assert "- fish (tests of fish): no-such-command" in scoreboard


def test_suites_that_are_not_run_keep_their_last_results(verdicts: Ends, tmp_path: Path):
    verdicts["cats", KAFKA] = verdicts["cats", OTTLA] = Verdict.FAILED
    command.main(["--output", str(tmp_path)])
    verdicts.clear()
    assert command.main(["dogs", "--output", str(tmp_path)]) == 0
    (failed,) = load_results(tmp_path / "results.json")["cats"].sides[OTTLA].tests
    assert failed.verdict is Verdict.FAILED


@pytest.mark.parametrize("end", [Verdict.FAILED, Verdict.SKIPPED, "no compiler"])
def test_what_passes_on_kafka_alone_fails_the_command(
    verdicts: Ends, tmp_path: Path, end: Verdict | str, capsys: pytest.CaptureFixture[str]
):
    verdicts["dogs", OTTLA] = end
    assert command.main(["--output", str(tmp_path)]) == 1
    assert "defect: dogs" in capsys.readouterr().out


def test_one_side_alone_writes_nothing(verdicts: Ends, tmp_path: Path):
    assert command.main(["cats", "--only", OTTLA, "--output", str(tmp_path)]) == 0
    verdicts["cats", OTTLA] = Verdict.FAILED
    assert command.main(["cats", "--only", OTTLA, "--output", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_suite_is_named(verdicts: Ends, capsys: pytest.CaptureFixture[str]):
    assert command.main(["birds"]) == 1
    assert "no suite is called birds; there are: cats, dogs, fish" in capsys.readouterr().err


def test_a_checkout_is_made_once_and_again_after_a_failure(tmp_path: Path):
    # given a repository of one commit
    repository = tmp_path / "pets"
    git = ["git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    (repository / "cat").write_text("meow", encoding="utf-8")
    subprocess.run([*git, "add", "cat"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "one"], check=True)
    said = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    commit, downloads = said.stdout.strip(), tmp_path / "downloads"
    address = repository.as_uri()
    # when the first attempt fails
    repository.rename(tmp_path / "away")
    with pytest.raises(SuiteError):
        checkout(downloads, address, commit)
    # then the next one succeeds, and is the last that needs the repository
    (tmp_path / "away").rename(repository)
    place = checkout(downloads, address, commit)
    assert (place / "cat").read_text(encoding="utf-8") == "meow"
    repository.rename(tmp_path / "away")
    assert checkout(downloads, address, commit) == place
