"""Runs of Kafka's tools, a module a subject: what is run, with which exit code it ends, what it says.

A story is a function of a `Story`; each call of that runs one tool and is one test. What is expected holds on
Apache Kafka 4.4.0. Reading what was just changed may need a moment on a cluster: `soon=True` asks again.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance.suite import Target, TestResult, Verdict
from support.java.tool_driver import TOOL_TIMEOUT_S, ToolDriver, ToolRun

TOOLS = "org.apache.kafka.tools"
SOON_S = 10.0
PAUSE_S = 0.2
REASON_CHARACTERS = 300


class StoryError(Exception):
    """What goes on in a story needs what did not come about; one line that says what."""


class Story:
    """One subject's tools against one target. Calling it runs a tool and notes how that test ended."""

    def __init__(self, name: str, target: Target, driver: ToolDriver, results: list[TestResult]) -> None:
        self.name = name
        self.target = target
        self.driver = driver
        self._results = results
        self._suffix = uuid.uuid4().hex[:8]

    def named(self, what: str) -> str:
        """A name for a topic, group or the like that nobody else has on this cluster."""
        return f"{what}-{self._suffix}"

    def file(self, name: str, text: str) -> str:
        """The path of a new file with this text, for tools that read one."""
        path = self.target.workspace / f"{self._suffix}-{name}"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def __call__(
        self,
        test: str,
        tool: str,
        *arguments: str,
        stdin: str = "",
        code: int = 0,
        says: str | Sequence[str] = (),
        matches: str | Sequence[str] = (),
        lines: Sequence[str] | None = None,
        complains: str | Sequence[str] = (),
        never: str | Sequence[str] = (),
        soon: bool = False,
        timeout_s: float = TOOL_TIMEOUT_S,
        bootstrap: bool = True,
        alone: bool = False,
    ) -> ToolRun:
        """Run a tool; the test fails when it ends or speaks otherwise than expected.

        says: texts in its standard output. matches: regular expressions found there, `^` and `$` at lines.
        lines: its non-empty lines, exactly, in any order. complains: texts in either output. never: in
        neither. bootstrap: begin the arguments with `--bootstrap-server`. alone: in a virtual machine of its
        own, for tools that hang their end on Java's own shutdown.
        """
        main_class = tool if "." in tool else f"{TOOLS}.{tool}"
        all_arguments = ("--bootstrap-server", self.target.bootstrap, *arguments) if bootstrap else arguments
        deadline = time.monotonic() + SOON_S
        while True:
            start = self.driver.run_alone if alone else self.driver.run
            run = start(main_class, *all_arguments, stdin=stdin, timeout_s=timeout_s)
            reason = complaint(
                run,
                code=code,
                says=_several(says),
                matches=_several(matches),
                lines=lines,
                complains=_several(complains),
                never=_several(never),
            )
            if not reason or not soon or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
        self.note(test, reason)
        return run

    def until(self, test: str, tool: str, *arguments: str, says: str) -> None:
        """Run a tool that never ends by itself until it has said this; the test fails when it does not."""
        said = self.driver.run_until(f"{TOOLS}.{tool}", *arguments, text=says, timeout_s=TOOL_TIMEOUT_S)
        self.note(test, "" if says in said else f"does not say {says!r}: {_one_line(said)}")

    def note(self, test: str, reason: str) -> None:
        """Note a test's end: passed without a reason, failed with one."""
        verdict = Verdict.FAILED if reason else Verdict.PASSED
        self._results.append(TestResult(f"{self.name}: {test}", verdict, reason))


def complaint(
    run: ToolRun,
    *,
    code: int,
    says: Sequence[str] = (),
    matches: Sequence[str] = (),
    lines: Sequence[str] | None = None,
    complains: Sequence[str] = (),
    never: Sequence[str] = (),
) -> str:
    """What is wrong with a run, one line; empty when nothing is. The words are those of `Story`'s call."""
    both = run.out + run.err
    if run.code is None:
        return f"did not end: {_one_line(both)}"
    if run.code != code:
        return f"exit code {run.code} instead of {code}: {_one_line(both)}"
    for text in says:
        if text not in run.out:
            return f"does not say {text!r}: {_one_line(both)}"
    for pattern in matches:
        if re.search(pattern, run.out, re.MULTILINE) is None:
            return f"does not match {pattern!r}: {_one_line(both)}"
    if lines is not None and sorted(lines) != (
        found := sorted(each for each in run.out.splitlines() if each)
    ):
        return f"expected {sorted(lines)}, got {found}"[:REASON_CHARACTERS]
    for text in complains:
        if text not in both:
            return f"does not complain of {text!r}: {_one_line(both)}"
    for text in never:
        if text in both:
            return f"says {text!r}: {_one_line(both)}"
    return ""


def _several(texts: str | Sequence[str]) -> Sequence[str]:
    return (texts,) if isinstance(texts, str) else texts


def _one_line(text: str) -> str:
    return " ".join(text.split())[:REASON_CHARACTERS] or "(silent)"


def tell(stories: Sequence[Callable[[Story], None]], target: Target, driver: ToolDriver) -> list[TestResult]:
    """Tell every story; one that breaks off is a failed test, and the next one begins."""
    results: list[TestResult] = []
    for story in stories:
        name = (story.__doc__ or story.__name__).splitlines()[0].rstrip(".")
        teller = Story(name, target, driver, results)
        try:
            story(teller)
        except (StoryError, OSError, ValueError, LookupError) as problem:
            teller.note("to its end", f"{type(problem).__name__}: {problem}")
    return results


def log_file(directory: Path, topic: str, partition: int = 0) -> Path:
    """The first segment of a partition on disk. Raises StoryError."""
    found = sorted(directory.rglob(f"{topic}-{partition}/*.log"))
    if not found:
        raise StoryError(f"no segment of {topic}-{partition} below {directory}")
    return found[0]
