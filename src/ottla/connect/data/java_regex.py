"""Regular expressions of java.util.regex, run by Python's `regex` module.

The syntax of both is nearly the same; what differs is translated: character classes with && (intersection),
possessive quantifiers and atomic groups are known to `regex` as well, \\Q…\\E, \\z, \\Z, \\h and named groups
are written anew. An expression that has something else, such as \\X or octal escapes, is refused.
"""

from __future__ import annotations

from typing import Final

import regex

from ottla.connect.data.schema import DataError

MAX_PATTERN: Final = 10_000
TIMEOUT_SECONDS: Final = 5.0
_CLASSES: Final = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t\n\x0b\f\r",
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
}
_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_TERMINATORS: Final = r"\n\r\x85\u2028\u2029"


class BadPattern(ValueError):
    """An expression that Java refuses, or one that we can't run as Java does."""


class JavaRegex:
    """A compiled expression. Raises BadPattern."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise BadPattern(f"an expression of more than {MAX_PATTERN} characters")
        self.pattern: Final = pattern
        try:
            self._compiled = regex.compile(_Translation(pattern).text(), regex.VERSION1)
        except regex.error as problem:
            raise BadPattern(f"{problem}\n{pattern}") from None
        except (RecursionError, OverflowError) as problem:
            raise BadPattern(f"{type(problem).__name__} near index 0\n{pattern}") from None

    def matches(self, text: str) -> bool:
        """Whether the whole text matches. Raises DataError where that takes too long."""
        try:
            return self._compiled.fullmatch(text, timeout=TIMEOUT_SECONDS) is not None
        except TimeoutError:
            raise self._too_long(text) from None

    def replace_first(self, text: str, replacement: str) -> str:
        """As Matcher.replaceFirst: $1 and ${name} are groups. Raises DataError for a wrong replacement."""
        try:
            found = self._compiled.search(text, timeout=TIMEOUT_SECONDS)
        except TimeoutError:
            raise self._too_long(text) from None
        if found is None:
            return text
        return text[: found.start()] + _expanded(found, replacement) + text[found.end() :]

    def _too_long(self, text: str) -> DataError:
        return DataError(f"the regular expression {self.pattern} takes too long for {text[:200]}")


def _expanded(found: regex.Match[str], replacement: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(replacement):
        character = replacement[at]
        at += 1
        if character == "\\":
            if at == len(replacement):
                raise DataError("character to be escaped is missing")
            parts.append(replacement[at])
            at += 1
        elif character == "$":
            group, at = _group(found, replacement, at)
            parts.append(group)
        else:
            parts.append(character)
    return "".join(parts)


def _group(found: regex.Match[str], replacement: str, at: int) -> tuple[str, int]:
    """The text of the group that is named after a $, and where its name ends."""
    if at == len(replacement):
        raise DataError("Illegal group reference: group index is missing")
    if replacement[at] == "{":
        end = replacement.find("}", at)
        name = replacement[at + 1 : end if end >= 0 else len(replacement)]
        if end < 0:
            raise DataError("named capturing group is missing trailing '}'")
        if name not in found.re.groupindex:
            raise DataError(f"No group with name {{{name}}}")
        return found.group(name) or "", end + 1
    if not ("0" <= replacement[at] <= "9"):
        raise DataError("Illegal group reference")
    number = int(replacement[at])
    at += 1
    if number > found.re.groups:
        raise DataError(f"No group {number}")
    while at < len(replacement) and "0" <= replacement[at] <= "9":
        longer = number * 10 + int(replacement[at])
        if longer > found.re.groups:
            break
        number, at = longer, at + 1
    return found.group(number) or "", at


class _Translation:
    """An expression of Java that is written anew for `regex`."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._groups = 0

    def text(self) -> str:
        """Raises BadPattern."""
        parts: list[str] = []
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            self._at += 1
            match character:
                case "\\":
                    parts.append(self._escape())
                case "[":
                    parts.append(self._class())
                case ".":
                    parts.append(f"[^{_TERMINATORS}]")
                case "$":
                    parts.append(rf"(?=(?:\r\n|[{_TERMINATORS}])?\Z)")
                case "(":
                    parts.append(self._open())
                case "#" | "~" | "&" | "|" | " ":
                    parts.append(character if character == "|" else rf"\{character}")
                case "]" | "}":
                    parts.append(rf"\{character}" if character == "]" else character)
                case "{":
                    parts.append(self._brace())
                case _:
                    parts.append(character)
        return "".join(parts)

    def _refuse(self, problem: str) -> BadPattern:
        return BadPattern(f"{problem} near index {self._at - 1}\n{self._pattern}")

    def _open(self) -> str:
        rest = self._pattern[self._at :]
        if not rest.startswith("?"):
            self._groups += 1
            return "("
        if rest.startswith("?<") and rest[2:3] not in ("=", "!"):
            end = rest.find(">")
            name = rest[2:end]
            if end < 0 or not name.isascii() or not name.isalnum() or name[0].isdigit():
                raise self._refuse("capturing group name does not start with a Latin letter")
            self._groups += 1
            self._at += end + 1
            return f"(?P<{name}>"
        for known in ("?:", "?=", "?!", "?<=", "?<!", "?>"):
            if rest.startswith(known):
                self._at += len(known)
                return f"({known}"
        if rest.startswith(("?i)", "?i:")):
            self._at += 3
            return f"({rest[:3]}"
        raise self._refuse("Unknown inline modifier")

    def _brace(self) -> str:
        end = self._pattern.find("}", self._at)
        low, comma, high = self._pattern[self._at : max(end, self._at)].partition(",")
        if end < 0 or not low.isdigit() or (high and not high.isdigit()):
            raise self._refuse("Illegal repetition")
        if high and int(low) > int(high):
            raise self._refuse("Illegal repetition range")
        self._at = end + 1
        return f"{{{low}{comma}{high}}}"

    def _escape(self) -> str:
        if self._at == len(self._pattern):
            self._at += 1
            raise self._refuse("Unexpected internal error")
        character = self._pattern[self._at]
        self._at += 1
        if character == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at : end if end >= 0 else len(self._pattern)]
            self._at = len(self._pattern) if end < 0 else end + 2
            return regex.escape(quoted, special_only=False)
        if character == "z":
            return r"\Z"
        if character == "Z":
            return rf"(?=(?:\r\n|[{_TERMINATORS}])?\Z)"
        if character == "R":
            return r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"
        if character == "k":
            end = self._pattern.find(">", self._at)
            if self._pattern[self._at : self._at + 1] != "<" or end < 0:
                raise self._refuse("\\k is not followed by '<' for named capturing group")
            name = self._pattern[self._at + 1 : end]
            self._at = end + 1
            return f"(?P={name})"
        if character in "bB":
            word = "a-zA-Z0-9_"
            at_edge = f"(?:(?<=[{word}])(?![{word}])|(?<![{word}])(?=[{word}]))"
            return at_edge if character == "b" else f"(?!{at_edge})"
        if character in "123456789":
            return self._back_reference(int(character))
        inner = self._in_class(character)
        if inner is None:
            raise self._refuse("Illegal/unsupported escape sequence")
        if inner.startswith("^"):
            return f"[{inner}]"
        return f"[{inner}]" if len(inner) > 2 or not inner.startswith("\\") else inner

    def _back_reference(self, number: int) -> str:
        while self._at < len(self._pattern) and self._pattern[self._at] in "0123456789":
            longer = number * 10 + int(self._pattern[self._at])
            if longer > self._groups:
                break
            number, self._at = longer, self._at + 1
        return f"(?:\\{number})" if number <= self._groups else "(?!)"

    def _in_class(self, character: str) -> str | None:
        """What an escaped character stands for within a class: `^…` for the others; None for none."""
        if character.lower() in _CLASSES and character not in "V":
            found = _CLASSES[character.lower()]
            return found if character.islower() else f"^{found}"
        if character == "V":
            return f"^{_CLASSES['v']}"
        if character in "pP":
            return self._property(negated=character == "P")
        if character == "x":
            return self._hexadecimal()
        if character == "u":
            digits = self._pattern[self._at : self._at + 4]
            return self._code(digits, 4)
        if character == "e":
            return r"\x1b"
        if character == "c":
            code = self._pattern[self._at : self._at + 1]
            self._at += 1
            return None if not code else f"\\x{ord(code) ^ 64:02x}"
        if character in "tnrfa":
            return f"\\{character}"
        if character.isascii() and character.isalnum():
            return None
        return f"\\{character}" if character.isascii() else character

    def _hexadecimal(self) -> str | None:
        if self._pattern[self._at : self._at + 1] == "{":
            end = self._pattern.find("}", self._at)
            digits = self._pattern[self._at + 1 : max(end, 0)]
            self._at += 1
            text = self._code(digits, len(digits)) if digits and len(digits) <= 6 else None
            self._at += 1
            return text
        return self._code(self._pattern[self._at : self._at + 2], 2)

    def _code(self, digits: str, length: int) -> str | None:
        if len(digits) != length or not set(digits) <= set("0123456789abcdefABCDEF"):
            return None
        self._at += length
        code = int(digits, 16)
        return None if code > 0x10FFFF else f"\\U{code:08x}"

    def _property(self, negated: bool) -> str | None:
        if self._pattern[self._at : self._at + 1] == "{":
            end = self._pattern.find("}", self._at)
            name = self._pattern[self._at + 1 : max(end, 0)]
            self._at = max(end, self._at) + 1
        else:
            name = self._pattern[self._at : self._at + 1]
            self._at += 1
        if name in _POSIX:
            return f"^{_POSIX[name]}" if negated else _POSIX[name]
        bare = name.removeprefix("Is")
        if not bare.isalnum() or len(bare) > 30:
            return None
        return f"\\{'P' if negated else 'p'}{{{bare}}}"

    def _class(self) -> str:
        """A class after its bracket, as one of `regex` with set operations (VERSION1)."""
        negated = self._pattern[self._at : self._at + 1] == "^"
        self._at += negated
        operands: list[list[str]] = [[]]
        first = True
        while True:
            if self._at >= len(self._pattern):
                raise self._refuse("Unclosed character class")
            character = self._pattern[self._at]
            self._at += 1
            if character == "]" and not first:
                break
            if character == "&" and self._pattern[self._at : self._at + 1] == "&":
                self._at += 1
                operands.append([])
                continue
            operands[-1].append(self._member(character))
            first = False
        sets = [f"[{''.join(members)}]" for members in operands if members]
        if not sets:
            raise self._refuse("Unclosed character class")
        inner = sets[0][1:-1] if len(sets) == 1 else "&&".join(sets)
        return f"[{'^' if negated else ''}{inner}]"

    def _member(self, character: str) -> str:
        if character == "[":
            return self._class()
        low = self._single(character)
        if low is None:
            return self._set_escape()
        ahead = self._pattern[self._at : self._at + 2]
        if len(ahead) == 2 and ahead[0] == "-" and ahead[1] not in "][":
            self._at += 2
            high = self._single(ahead[1])
            if high is None:
                raise self._refuse("Illegal character range")
            return f"{low}-{high}"
        return low

    def _single(self, character: str) -> str | None:
        """One character, ready for a class; None where a \\ begins a set of characters."""
        if character != "\\":
            return f"\\{character}" if character.isascii() and not character.isalnum() else character
        if self._at >= len(self._pattern):
            raise self._refuse("Illegal/unsupported escape sequence")
        name = self._pattern[self._at]
        if name.lower() in _CLASSES or name in "pP":
            return None
        self._at += 1
        found = self._in_class(name)
        if found is None:
            raise self._refuse("Illegal/unsupported escape sequence")
        return found

    def _set_escape(self) -> str:
        name = self._pattern[self._at]
        self._at += 1
        found = self._in_class(name)
        if found is None:
            raise self._refuse("Illegal/unsupported escape sequence")
        return f"[{found}]"
