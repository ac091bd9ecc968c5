"""Expressions and types out of tokens, by the strength of operators.

From weak to strong: OR, AND, NOT, comparisons with IS, BETWEEN, IN and LIKE, `+ -` and `||`, `* / %`, the
signs before a number, `->` and `[]`. Nesting and chains are bounded, so that no pass needs a deep stack.
"""

from __future__ import annotations

from decimal import Decimal

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.expressions import (
    ArrayOf,
    Call,
    Case,
    Cast,
    Expression,
    FieldOf,
    Lambda,
    Literal,
    MapOf,
    Name,
    Operation,
    OrderText,
    RowNumber,
    StructOf,
    Subscript,
    TypeText,
)
from ottla.sql.language.token_stream import RESERVED, TokenStream
from ottla.sql.language.tokens import Kind

MAX_DEPTH = 100
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGNED = range(1, 8)
_STRENGTH = {
    "=": _COMPARISON,
    "<>": _COMPARISON,
    "!=": _COMPARISON,
    "<": _COMPARISON,
    "<=": _COMPARISON,
    ">": _COMPARISON,
    ">=": _COMPARISON,
    "+": _SUM,
    "-": _SUM,
    "||": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "%": _PRODUCT,
}


class ExpressionParser:
    """Reads expressions and types from a stream of tokens."""

    def __init__(self, stream: TokenStream) -> None:
        self._stream = stream
        self._depth = 0

    def expression(self) -> Expression:
        """An expression. Raises SqlError."""
        return self._weaker_than(_OR)

    # By strength

    def _weaker_than(self, weakest: int) -> Expression:
        """An expression of operators that are at least so strong."""
        self._depth += 1
        before = self._depth
        self._check_depth()
        left = self._prefixed(weakest)
        while (found := self._operation(left, weakest)) is not None:
            left = found
            self._depth += 1
            self._check_depth()
        self._depth = before - 1
        return left

    def _check_depth(self) -> None:
        if self._depth > MAX_DEPTH:
            raise SqlError(
                f"the expression is nested more than {MAX_DEPTH} deep",
                self._stream.at,
                "IN (…) replaces many comparisons, CONCAT(…) many ||; or select parts of it before",
            )

    def _prefixed(self, weakest: int) -> Expression:
        stream, at = self._stream, self._stream.at
        if stream.sees("NOT") and weakest <= _NOT:
            stream.advance()
            return Operation(at, "NOT", (self._weaker_than(_NOT),))
        if stream.sees_sign("-"):
            stream.advance()
            inner = self._weaker_than(_SIGNED)
            value = inner.value if isinstance(inner, Literal) else None
            if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                return Literal(at, -value)
            return Operation(at, "NEGATE", (inner,))
        if stream.takes_sign("+"):
            return self._weaker_than(_SIGNED)
        return self._with_parts(self._primary())

    def _operation(self, left: Expression, weakest: int) -> Expression | None:
        """The next operator with `left` and its right side; None if no such operator follows."""
        stream, token = self._stream, self._stream.token
        if token.kind is Kind.SIGN:
            strength = _STRENGTH.get(token.text)
            if strength is None or strength < weakest:
                return None
            stream.advance()
            operator = "<>" if token.text == "!=" else token.text
            return Operation(token.at, operator, (left, self._weaker_than(strength + 1)))
        match token.word:
            case "OR" | "AND" as word:
                strength = _OR if word == "OR" else _AND
                return self._logical(left, word, strength) if strength >= weakest else None
            case "IS" | "BETWEEN" | "IN" | "LIKE" | "NOT" if weakest <= _COMPARISON:
                return self._predicate(left)
        return None

    def _logical(self, left: Expression, word: str, strength: int) -> Expression:
        at, operands = self._stream.at, [left]
        while self._stream.takes(word):
            operands.append(self._weaker_than(strength + 1))
        return Operation(at, word, tuple(operands))

    def _predicate(self, left: Expression) -> Expression:
        stream, at = self._stream, self._stream.at
        if stream.takes("IS"):
            negated = stream.takes("NOT")
            if stream.takes("NULL"):
                return Operation(at, "IS NOT NULL" if negated else "IS NULL", (left,))
            if not stream.takes("DISTINCT", "FROM"):
                raise stream.wrong("NULL, NOT NULL or DISTINCT FROM after IS")
            word = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
            return Operation(at, word, (left, self._weaker_than(_SUM)))
        negated = stream.takes("NOT")
        if stream.takes("BETWEEN"):
            low = self._weaker_than(_SUM)
            stream.needs("AND")
            found = Operation(at, "BETWEEN", (left, low, self._weaker_than(_SUM)))
        elif stream.takes("IN"):
            found = Operation(at, "IN", (left, *stream.in_parentheses(self.expression)))
        elif stream.takes("LIKE"):
            pattern = self._weaker_than(_SUM)
            operands = [left, pattern]
            if stream.takes("ESCAPE"):
                operands.append(Literal(stream.at, stream.text("a character in quotes")))
            found = Operation(at, "LIKE", tuple(operands))
        else:
            raise stream.wrong("BETWEEN, IN or LIKE after NOT")
        return Operation(at, "NOT", (found,)) if negated else found

    def _with_parts(self, of: Expression) -> Expression:
        """`->field` and `[index]` behind an expression."""
        stream, depth = self._stream, self._depth
        while True:
            at = stream.at
            if stream.sees_sign("->") and stream.ahead().text != "*":
                stream.advance()
                of = FieldOf(at, of, stream.name("a field's name"))
            elif stream.takes_sign("["):
                of = Subscript(at, of, self.expression())
                stream.needs_sign("]")
            else:
                self._depth = depth
                return of
            self._depth += 1
            self._check_depth()

    # What operators stand between

    def _primary(self) -> Expression:
        stream, token = self._stream, self._stream.token
        match token.kind:
            case Kind.NUMBER:
                return self._number()
            case Kind.TEXT:
                return Literal(token.at, stream.advance().text)
            case Kind.SIGN if token.text == "(":
                return self._parenthesis()
            case Kind.WORD:
                found = self._by_word(token.word, token.at)
                if found is not None:
                    return found
        if not stream.sees_name():
            raise stream.wrong("an expression")
        if token.kind is Kind.WORD and stream.ahead().text == "(" and stream.ahead().kind is Kind.SIGN:
            return self._call()
        if stream.ahead().kind is Kind.SIGN and stream.ahead().text == "=>":
            return self._lambda()
        return self._column()

    def _by_word(self, word: str, at: Position) -> Expression | None:
        """What begins with a word of the language; None for others."""
        stream = self._stream
        match word:
            case "NULL" | "TRUE" | "FALSE":
                stream.advance()
                return Literal(at, {"NULL": None, "TRUE": True, "FALSE": False}[word])
            case "CASE":
                return self._case()
            case "CAST":
                stream.advance()
                stream.needs_sign("(")
                of = self.expression()
                stream.needs("AS")
                to = self.type()
                stream.needs_sign(")")
                return Cast(at, of, to)
            case "ARRAY" if stream.ahead().text == "[":
                stream.advance()
                stream.advance()
                items = () if stream.sees_sign("]") else stream.separated(self.expression)
                stream.needs_sign("]")
                return ArrayOf(at, items)
            case "MAP" | "STRUCT":
                stream.advance()
                stream.needs_sign("(")
                made: Expression
                if word == "MAP":
                    made = MapOf(at, () if stream.sees_sign(")") else stream.separated(self._map_entry))
                else:
                    made = StructOf(at, () if stream.sees_sign(")") else stream.separated(self._struct_entry))
                stream.needs_sign(")")
                return made
            case "REPLACE" | "IF":
                return None
            case "LEFT" | "RIGHT" if stream.ahead().text == "(":
                raise SqlError(f"there is no function {word}", at, "use SUBSTRING(text, position, length)")
        if word in RESERVED:
            raise stream.wrong("an expression", f"write `{stream.token.text}` if it is a column's name")
        return None

    def _map_entry(self) -> tuple[Expression, Expression]:
        key = self.expression()
        self._stream.needs_sign(":=")
        return key, self.expression()

    def _struct_entry(self) -> tuple[str, Expression]:
        name = self._stream.name("a field's name")
        self._stream.needs_sign(":=")
        return name, self.expression()

    def _number(self) -> Literal:
        token = self._stream.advance()
        text = token.text.replace("_", "")
        try:
            if "e" in text.lower():
                return Literal(token.at, float(text))
            if "." in text:
                return Literal(token.at, Decimal(text))
            if len(text) > 38:
                raise SqlError("the number has more than 38 digits", token.at)
            return Literal(token.at, int(text))
        except (ValueError, ArithmeticError):
            raise SqlError(f"{token.text[:40]} is not a number", token.at) from None

    def _parenthesis(self) -> Expression:
        stream = self._stream
        end = 1
        while stream.ahead(end).kind in (Kind.WORD, Kind.NAME) and stream.ahead(end + 1).text == ",":
            end += 2
        if stream.ahead(end + 1).text == ")" and stream.ahead(end + 2).text == "=>":
            return self._lambda()
        stream.advance()
        inner = self.expression()
        stream.needs_sign(")")
        return inner

    def _lambda(self) -> Lambda:
        stream, at = self._stream, self._stream.at
        if stream.sees_sign("("):
            parameters = stream.in_parentheses(lambda: stream.name("a parameter's name"))
        else:
            parameters = (stream.name("a parameter's name"),)
        stream.needs_sign("=>")
        return Lambda(at, parameters, self.expression())

    def _call(self) -> Call | RowNumber:
        stream, at = self._stream, self._stream.at
        name = stream.advance().word
        stream.needs_sign("(")
        if stream.takes_sign("*"):
            stream.needs_sign(")")
            return Call(at, name, (), star=True)
        if stream.sees("DISTINCT"):
            raise SqlError("DISTINCT is not possible within a function", stream.at, "use COUNT_DISTINCT(…)")
        arguments = () if stream.sees_sign(")") else stream.separated(self.expression)
        stream.needs_sign(")")
        if stream.sees("OVER") and stream.ahead().text == "(":
            return self._over(Call(at, name, arguments))
        return Call(at, name, arguments)

    def _over(self, call: Call) -> RowNumber:
        """What stands behind ROW_NUMBER()."""
        stream = self._stream
        if call.name != "ROW_NUMBER":
            raise SqlError(
                f"{call.name} has no OVER", stream.at, "ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) has"
            )
        if call.arguments:
            raise SqlError("ROW_NUMBER takes no argument", call.arguments[0].at)
        stream.needs("OVER")
        stream.needs_sign("(")
        if not stream.takes("PARTITION", "BY"):
            raise stream.wrong("PARTITION BY", "for all rows together: SELECT 1 AS k, … PARTITION BY 1")
        partition_by = stream.separated(self.expression)
        if not stream.takes("ORDER", "BY"):
            raise stream.wrong("ORDER BY", "ORDER BY ROWTIME is the order of time")
        order_by = stream.separated(self._order)
        if not stream.sees_sign(")"):
            raise stream.wrong("a comma, ASC, DESC or )")
        stream.needs_sign(")")
        return RowNumber(call.at, partition_by, order_by)

    def _order(self) -> OrderText:
        stream, at = self._stream, self._stream.at
        expression = self.expression()
        descending = stream.takes("DESC")
        if not descending:
            stream.takes("ASC")
        return OrderText(at, expression, descending)

    def _column(self) -> Name:
        stream, at = self._stream, self._stream.at
        name = stream.name("a column's name")
        if stream.sees_sign(".") and stream.ahead().kind in (Kind.WORD, Kind.NAME):
            stream.advance()
            return Name(at, stream.name("a column's name"), name)
        return Name(at, name)

    def _case(self) -> Case:
        stream, at = self._stream, self._stream.at
        stream.needs("CASE")
        operand = None if stream.sees("WHEN") else self.expression()
        whens: list[tuple[Expression, Expression]] = []
        while stream.takes("WHEN"):
            when = stream.at
            condition = self.expression()
            if operand is not None:
                condition = Operation(when, "=", (operand, condition))
            stream.needs("THEN")
            whens.append((condition, self.expression()))
        if not whens:
            raise stream.wrong("WHEN")
        otherwise = self.expression() if stream.takes("ELSE") else None
        stream.needs("END")
        return Case(at, tuple(whens), otherwise)

    # Types

    def type(self) -> TypeText:
        """A type. Raises SqlError."""
        self._depth += 1
        self._check_depth()
        found = self._type()
        self._depth -= 1
        return found

    def _type(self) -> TypeText:
        stream, token = self._stream, self._stream.token
        if token.kind not in (Kind.WORD, Kind.NAME):
            raise stream.wrong("a type")
        name = token.word or token.text
        stream.advance()
        if name in ("ARRAY", "MAP", "STRUCT") and stream.takes_sign("<"):
            elements: tuple[TypeText, ...] = ()
            fields: tuple[tuple[str, TypeText], ...] = ()
            if name != "STRUCT":
                elements = stream.separated(self.type)
            elif not stream.sees_sign(">"):
                fields = stream.separated(self._field)
            stream.needs_sign(">")
            return TypeText(token.at, name, elements=elements, fields=fields)
        sizes = stream.in_parentheses(stream.whole_number) if stream.sees_sign("(") else ()
        return TypeText(token.at, name, sizes)

    def _field(self) -> tuple[str, TypeText]:
        name = self._stream.name("a field's name")
        return name, self.type()
