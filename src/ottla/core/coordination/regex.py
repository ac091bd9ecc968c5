"""Regular expressions over names in RE2's syntax, matched in time linear in the name.

Theory of operation. Clients send these expressions, and a coordinator's thread is shared by all of them:
Python's `re` takes exponential time for some expressions, so it can't be used. An expression is parsed here
(RE2's syntax, no back references and no look-around), compiled to a small non-deterministic automaton, and
run as a deterministic one whose states are made when they are first reached. Sizes are bounded: of the
expression, of counted repetitions (1,000, as in RE2), of the automaton and of the states that are kept.

Names are matched as a whole, as the KIP requires. Topic names are ASCII; of RE2's Unicode classes the general
categories (`\\pL`, `\\p{Lu}`) are supported, scripts (`\\p{Greek}`) are not.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TypeAlias

MAX_EXPRESSION_CHARACTERS = 4_096
MAX_REPETITIONS = 1_000
MAX_NODES = 4_000
MAX_DEPTH = 100
MAX_STATES = 2_000
MAX_NODES_KEPT = 100_000
"""The most nodes in all kept states together: states of
counted repetitions have as many as the expression.
"""

Accepts: TypeAlias = Callable[[str], bool]

_DIGITS = frozenset("0123456789")
_WORD = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_SPACE = frozenset("\t\n\f\r ")
_ASCII_CLASSES: dict[str, frozenset[str]] = {
    "alnum": _WORD - {"_"},
    "alpha": _WORD - _DIGITS - {"_"},
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "digit": _DIGITS,
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset("abcdefghijklmnopqrstuvwxyz"),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "space": _SPACE | {"\v"},
    "upper": frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "word": _WORD,
    "xdigit": frozenset("0123456789ABCDEFabcdef"),
}
_CATEGORIES = frozenset(
    major + minor
    for major, minors in {
        "C": "cfos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
        "Z": "lps",
    }.items()
    for minor in ["", *minors]
)
_PERL_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_ASSERTIONS = {"A": "start", "z": "end", "b": "boundary", "B": "no boundary"}


class InvalidRegex(ValueError):
    """The text is not an expression in RE2's syntax, or is too large."""


class Regex:
    """A compiled expression. `matches` may be called any number of times."""

    def __init__(self, pattern: str) -> None:
        """Raises InvalidRegex."""
        self.pattern = pattern
        self._automaton = _Parser(pattern).parse()
        self._start = _DfaState(frozenset([0]), False)
        self._states: dict[tuple[frozenset[int], bool], _DfaState] = {}
        self._nodes_kept = 0
        self.visited_nodes = 0
        """The nodes visited by all matches on steps that were not known yet, 0.3 microseconds each."""

    def matches(self, text: str) -> bool:
        """Whether the expression matches the whole of `text`."""
        state = self._start
        first = True
        for character in text:
            following = None if first else state.next.get(character)
            if following is None:
                following = self._step(state, character, first)
                if not first and len(state.next) < MAX_STATES:
                    state.next[character] = following
            if not following.nodes:
                return False
            state, first = following, False
        return self._automaton.accepts(state.nodes, state.after_word, at_start=first)

    def _step(self, state: _DfaState, character: str, at_start: bool) -> _DfaState:
        nodes = self._automaton.step(state.nodes, state.after_word, character, at_start)
        self.visited_nodes += len(nodes)
        key = nodes, character in _WORD
        found = self._states.get(key)
        if found is None:
            found = _DfaState(*key)
            if len(self._states) >= MAX_STATES or self._nodes_kept + len(nodes) > MAX_NODES_KEPT:
                self._forget()
            self._states[key] = found
            self._nodes_kept += len(nodes)
        return found

    def _forget(self) -> None:
        """Drop all states, and the references between them."""
        for state in self._states.values():
            state.next.clear()
        self._start.next.clear()
        self._states.clear()
        self._nodes_kept = 0


class _DfaState:
    """A set of nodes that the automaton may be in, before the empty steps out of them are taken."""

    __slots__ = ("after_word", "next", "nodes")

    def __init__(self, nodes: frozenset[int], after_word: bool) -> None:
        self.nodes = nodes
        self.after_word = after_word
        self.next: dict[str, _DfaState] = {}


class _Automaton:
    """Nodes by number, starting at 0. A node consumes a character, checks a position, forks, or ends."""

    def __init__(self) -> None:
        self.consumes: dict[int, tuple[Accepts, int]] = {}
        self.forks: dict[int, tuple[int, ...]] = {}
        self.asserts: dict[int, tuple[str, int]] = {}
        self.end = -1

    def step(self, nodes: frozenset[int], after_word: bool, character: str, at_start: bool) -> frozenset[int]:
        reached = self._closure(nodes, after_word, character, at_start)
        found = set()
        for node in reached:
            consume = self.consumes.get(node)
            if consume is not None and consume[0](character):
                found.add(consume[1])
        return frozenset(found)

    def accepts(self, nodes: frozenset[int], after_word: bool, at_start: bool) -> bool:
        return self.end in self._closure(nodes, after_word, None, at_start)

    def _closure(
        self, nodes: frozenset[int], after_word: bool, character: str | None, at_start: bool
    ) -> set[int]:
        """Every node that is reached without consuming, between here and `character` (None: the end)."""
        boundary = after_word != (character is not None and character in _WORD)
        holds = {
            "start": at_start,
            "end": character is None,
            "boundary": boundary,
            "no boundary": not boundary,
        }
        reached = set(nodes)
        todo = list(nodes)
        while todo:
            node = todo.pop()
            following = self.forks.get(node, ())
            check = self.asserts.get(node)
            if check is not None and holds[check[0]]:
                following = (check[1],)
            for other in following:
                if other not in reached:
                    reached.add(other)
                    todo.append(other)
        return reached


Fragment: TypeAlias = Callable[[int], int]
"""A part of an expression: given the node that follows it, adds its own nodes and returns the first."""


class _Flags:
    """The flags in force; `i` and `s` change the matches, `m` and `U` are accepted without effect.

    Without newlines in topic names, multi-line mode is the same as single-line, and greediness does not
    change whether a name matches.
    """

    __slots__ = ("ignore_case",)

    def __init__(self, ignore_case: bool = False) -> None:
        self.ignore_case = ignore_case


class _Parser:
    """The parser of one expression; fragments build the automaton from its end to its beginning."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_EXPRESSION_CHARACTERS:
            raise InvalidRegex("expression too long")
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._flags = _Flags()
        self._automaton = _Automaton()
        self._nodes = 1

    def parse(self) -> _Automaton:
        whole = self._alternatives()
        if self._at < len(self._pattern):
            raise InvalidRegex("unexpected ): `" + self._pattern[self._at :] + "`")
        self._automaton.end = self._new()
        self._automaton.forks[0] = (whole(self._automaton.end),)
        return self._automaton

    # The grammar

    def _alternatives(self) -> Fragment:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidRegex("expression nests too deeply")
        outer = self._flags
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        self._flags = outer
        self._depth -= 1
        return branches[0] if len(branches) == 1 else self._fork(branches)

    def _sequence(self) -> Fragment:
        parts: list[Fragment] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            atom = self._atom()
            if atom is not None:
                parts.append(self._repeated(atom))
        return self._chain(parts)

    def _repeated(self, atom: Fragment) -> Fragment:
        repeated = False
        while self._at < len(self._pattern):
            start = self._at
            bounds = self._bounds()
            if bounds is None:
                return atom
            if repeated:
                raise InvalidRegex(f"invalid nested repetition operator: `{self._pattern[start : self._at]}`")
            self._take("?")
            atom = self._repeat(atom, *bounds)
            repeated = True
        return atom

    def _bounds(self) -> tuple[int, int | None] | None:
        character = self._pattern[self._at]
        if character in "*+?":
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        if character != "{":
            return None
        end = self._pattern.find("}", self._at)
        low, comma, high = self._pattern[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _is_number(low) or (high and not _is_number(high)):
            return None  # A literal brace.
        smallest = int(low)
        largest = smallest if not comma else int(high) if high else None
        if smallest > MAX_REPETITIONS or (largest is not None and not smallest <= largest <= MAX_REPETITIONS):
            raise InvalidRegex(f"invalid repeat count: `{self._pattern[self._at : end + 1]}`")
        self._at = end + 1
        return smallest, largest

    def _atom(self) -> Fragment | None:
        character = self._pattern[self._at]
        self._at += 1
        match character:
            case "(":
                return self._group()
            case "[":
                return self._consume(self._class())
            case ".":
                return self._consume(lambda _: True)
            case "^":
                return self._assert("start")
            case "$":
                return self._assert("end")
            case "*" | "+" | "?" | "{" if self._is_repetition():
                raise InvalidRegex(f"missing argument to repetition operator: `{character}`")
            case "\\":
                return self._escape()
            case _:
                return self._literal(character)

    def _is_repetition(self) -> bool:
        """Whether the character just read begins a repetition, and is not a literal brace."""
        after, self._at = self._at, self._at - 1
        found = self._bounds() is not None
        self._at = after
        return found

    def _group(self) -> Fragment | None:
        opening = self._at - 1
        outer = self._flags
        if self._take("?"):
            if self._take("P<") or (not self._pattern.startswith(("<=", "<!"), self._at) and self._take("<")):
                name, _, _ = self._pattern[self._at :].partition(">")
                if not name.replace("_", "a").isalnum() or self._at + len(name) == len(self._pattern):
                    raise InvalidRegex(f"invalid named capture: `{self._pattern[opening:]}`")
                self._at += len(name) + 1
            elif self._inline_flags():
                return None
        inner = self._alternatives()
        if not self._take(")"):
            raise InvalidRegex("missing closing )")
        self._flags = outer
        return inner

    def _inline_flags(self) -> bool:
        """Read `i-s:` or `i)`. Whether the group has ended, so that the flags hold for the rest around it."""
        start, on, ignore_case = self._at, True, self._flags.ignore_case
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            self._at += 1
            match character:
                case "i":
                    ignore_case = on
                case "m" | "s" | "U":
                    pass
                case "-" if on:
                    on = False
                case ":" | ")":
                    self._flags = _Flags(ignore_case)
                    return character == ")"
                case _:
                    break
        raise InvalidRegex(f"invalid group syntax: `(?{self._pattern[start : self._at]}`")

    def _escape(self) -> Fragment | None:
        if self._at == len(self._pattern):
            raise InvalidRegex("trailing \\")
        character = self._pattern[self._at]
        if character in _ASSERTIONS:
            self._at += 1
            return self._assert(_ASSERTIONS[character])
        if character == "Q":
            self._at += 1
            # Each character is an atom of its own: a repetition after \\E applies to the last one.
            text, _, rest = self._pattern[self._at :].partition("\\E")
            plain = "".join(each if each.isalnum() or not each.isascii() else f"\\{each}" for each in text)
            self._pattern = self._pattern[: self._at] + plain + rest
            return None
        accepts = self._escaped_class()
        if accepts is not None:
            return self._consume(accepts)
        return self._literal(self._escaped_character())

    def _escaped_class(self) -> Accepts | None:
        character = self._pattern[self._at]
        if character.lower() in _PERL_CLASSES:
            self._at += 1
            return _one_of(_PERL_CLASSES[character.lower()], negated=character.isupper())
        if character not in "pP":
            return None
        self._at += 1
        if self._at == len(self._pattern):
            raise InvalidRegex(f"invalid character class range: `\\{character}`")
        if self._take("{"):
            name, closed, _ = self._pattern[self._at :].partition("}")
            self._at += len(name) + 1
        else:
            name, closed = self._pattern[self._at], "}"
            self._at += 1
        negated = (character == "P") != name.startswith("^")
        category = name.removeprefix("^")
        if not closed or not _is_category(category):
            raise InvalidRegex(f"invalid character class range: `\\{character}{{{name}}}`")
        if category == "Any":
            return lambda _: not negated
        return lambda each: unicodedata.category(each).startswith(category) is not negated

    def _escaped_character(self) -> str:
        character = self._pattern[self._at]
        self._at += 1
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            if self._take("{"):
                digits, closed, _ = self._pattern[self._at :].partition("}")
                self._at += len(digits) + 1
            else:
                digits, closed = self._pattern[self._at : self._at + 2], "}"
                self._at += 2
            try:
                if closed and digits:
                    return chr(int(digits, 16))
            except (ValueError, OverflowError):
                pass
            raise InvalidRegex("invalid escape sequence: `\\x`")
        octal = "01234567"
        # A single digit other than 0 would be a back reference.
        if character == "0" or (character in octal and self._pattern[self._at : self._at + 1] in [*octal]):
            digits = character
            while len(digits) < 3 and self._at < len(self._pattern) and self._pattern[self._at] in octal:
                digits += self._pattern[self._at]
                self._at += 1
            return chr(int(digits, 8))
        if character.isascii() and not character.isalnum():
            return character
        raise InvalidRegex(f"invalid escape sequence: `\\{character}`")

    def _class(self) -> Accepts:
        """Read a character class, from after its opening bracket."""
        opening = self._at - 1
        negated = self._take("^")
        parts: list[Accepts] = []
        first = True
        while first or not self._take("]"):
            first = False
            if self._at >= len(self._pattern):
                raise InvalidRegex(f"missing closing ]: `{self._pattern[opening:]}`")
            parts.append(self._class_item())
        ignore_case = self._flags.ignore_case

        def accepts(character: str) -> bool:
            cases = {character, character.lower(), character.upper()} if ignore_case else {character}
            return any(part(case) for part in parts for case in cases) is not negated

        return accepts

    def _class_item(self) -> Accepts:
        if self._pattern.startswith("[:", self._at):
            name, closed, _ = self._pattern[self._at + 2 :].partition(":]")
            known = _ASCII_CLASSES.get(name.removeprefix("^"))
            if closed and known is not None:
                self._at += len(name) + 4
                return _one_of(known, negated=name.startswith("^"))
            if closed and name.removeprefix("^").isalpha():
                raise InvalidRegex(f"invalid character class range: `[:{name}:]`")
        if self._pattern[self._at] == "\\" and self._at + 1 < len(self._pattern):
            self._at += 1
            accepts = self._escaped_class()
            if accepts is not None:
                return accepts
            self._at -= 1
        low = self._class_character()
        if self._pattern.startswith("-", self._at) and not self._pattern.startswith("-]", self._at):
            self._at += 1
            if self._at >= len(self._pattern):
                raise InvalidRegex("missing closing ]")
            high = self._class_character()
            if high < low:
                raise InvalidRegex(f"invalid character class range: `{low}-{high}`")
            return lambda character: low <= character <= high
        return lambda character: character == low

    def _class_character(self) -> str:
        character = self._pattern[self._at]
        self._at += 1
        if character != "\\":
            return character
        if self._at == len(self._pattern):
            raise InvalidRegex("trailing \\")
        return self._escaped_character()

    def _take(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    # Fragments

    def _new(self) -> int:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise InvalidRegex("expression too large")
        return self._nodes

    def _literal(self, character: str) -> Fragment:
        if not self._flags.ignore_case:
            return self._consume(lambda each: each == character)
        cases = frozenset({character, character.lower(), character.upper()})
        return self._consume(lambda each: each in cases)

    def _consume(self, accepts: Accepts) -> Fragment:
        def build(following: int) -> int:
            node = self._new()
            self._automaton.consumes[node] = accepts, following
            return node

        return build

    def _assert(self, condition: str) -> Fragment:
        def build(following: int) -> int:
            node = self._new()
            self._automaton.asserts[node] = condition, following
            return node

        return build

    def _fork(self, branches: list[Fragment]) -> Fragment:
        def build(following: int) -> int:
            node = self._new()
            self._automaton.forks[node] = tuple(branch(following) for branch in branches)
            return node

        return build

    def _chain(self, parts: list[Fragment]) -> Fragment:
        def build(following: int) -> int:
            for part in reversed(parts):
                following = part(following)
            return following

        return build

    def _repeat(self, atom: Fragment, smallest: int, largest: int | None) -> Fragment:
        def build(following: int) -> int:
            if largest is None:
                loop = self._new()
                self._automaton.forks[loop] = (following, atom(loop))
                following = loop
            else:
                end = following
                for _ in range(largest - smallest):
                    node = self._new()
                    self._automaton.forks[node] = (end, atom(following))
                    following = node
            for _ in range(smallest):
                self._new()  # Counted even if the repeated part has no nodes of its own.
                following = atom(following)
            return following

        return build


def _one_of(characters: frozenset[str], negated: bool) -> Accepts:
    return lambda character: (character in characters) is not negated


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5


def _is_category(name: str) -> bool:
    return name == "Any" or name in _CATEGORIES
