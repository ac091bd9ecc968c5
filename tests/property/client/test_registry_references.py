"""A schema with all that it refers to, from registries of any shape: in order, each once, never for ever."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.registry.lookups import (
    MAX_REFERENCES,
    Asking,
    Lookups,
    Parse,
    Question,
    RegisteredSchema,
    Send,
    UnusableSchema,
)
from ottla.client.registry.wire import RegistryAccess
from ottla.schemas.formats import format_of

ACCESS = RegistryAccess("http://one", attempts=1)


class Registry:
    """Schemas by number, each under a subject of its own; `references` are numbers by number."""

    def __init__(self, references: dict[int, list[int]]) -> None:
        self.references = references
        self.asked: list[str] = []
        self.parsed: Parse | None = None

    def answer(self, lookups: Lookups, question: Question) -> RegisteredSchema:
        asking = Asking(lookups.steps(question))
        while asking.step is not None:
            match asking.step:
                case Send() as step:
                    asking.go_on((200, json.dumps(self._said(step)).encode()))
                case Parse() as step:
                    self.parsed = step
                    asking.go_on(format_of(step.schema_type).parse('"int"', {}))
                case other:
                    raise AssertionError(other)
        return asking.answer

    def _said(self, step: Send) -> dict[str, Any]:
        path, _, query = step.path.partition("?")
        parts = [unquote(part) for part in path.split("/")]
        if parts[1] == "subjects":
            # a version that was deleted is told to those alone who ask for it
            assert query == "deleted=true" and parts[4] == "1"
            self.asked.append(parts[2])
            number = int(parts[2].removeprefix("s/"))
        else:
            number = int(parts[3])
        references = [
            {"name": f"n{other}", "subject": f"s/{other}", "version": 1} for other in self.references[number]
        ]
        return {"schema": str(number), "references": references}


@st.composite
def graphs(draw: st.DrawFn) -> dict[int, list[int]]:
    size = draw(st.integers(1, 8))
    numbers = st.integers(0, size - 1)
    return {number: draw(st.lists(numbers, max_size=4)) for number in range(size)}


def within_reach(references: dict[int, list[int]], start: int) -> set[int]:
    found: set[int] = set()
    left = list(references[start])
    while left:
        number = left.pop()
        if number not in found:
            found.add(number)
            left += references[number]
    return found


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_references_are_told_before_those_that_need_them(references: dict[int, list[int]]) -> None:
    registry = Registry(references)
    wanted = within_reach(references, 0)
    lookups = Lookups(ACCESS)
    in_circle = any(number in within_reach(references, number) for number in wanted)
    if in_circle:
        with pytest.raises(UnusableSchema, match="leads back to itself: n"):
            registry.answer(lookups, lookups.by_id(0))
        assert len(registry.asked) <= len(references) + 1
        return

    found = registry.answer(lookups, lookups.by_id(0))
    assert registry.answer(lookups, lookups.by_id(0)) is found
    assert registry.parsed is not None
    told = list(registry.parsed.references)
    assert registry.parsed.references == {f"n{number}": str(number) for number in wanted}
    assert sorted(registry.asked) == sorted(f"s/{number}" for number in wanted)
    for name in told:
        needs = {f"n{number}" for number in references[int(name[1:])]}
        assert needs <= set(told[: told.index(name)])


@pytest.mark.parametrize("count", [MAX_REFERENCES, MAX_REFERENCES + 1])
def test_as_many_references_as_are_allowed_and_no_more(count: int) -> None:
    lookups = Lookups(ACCESS)
    chain = {number: [number + 1] for number in range(count)} | {count: []}
    fan = {0: list(range(1, count + 1))} | {number: [] for number in range(1, count + 1)}
    for references in (chain, fan):
        registry = Registry(references)
        if count > MAX_REFERENCES:
            with pytest.raises(UnusableSchema, match=f"more than {MAX_REFERENCES}"):
                registry.answer(lookups, lookups.by_id(0))
        else:
            assert registry.answer(lookups, lookups.by_id(0)).id == 0
