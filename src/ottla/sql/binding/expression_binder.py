"""Expressions bound: names resolved, functions chosen, types worked out, implicit casts made plain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from ottla.sql.binding.scope import Scope
from ottla.sql.functions import casts
from ottla.sql.functions.function import AggregateFunction, ScalarFunction, TableFunction
from ottla.sql.functions.registry import Functions
from ottla.sql.functions.signature import Pattern, bind_letters, made
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
    LiteralValue,
    MapOf,
    Name,
    Operation,
    RowNumber,
    StructOf,
    Subscript,
)
from ottla.sql.plan.bound import (
    Bound,
    BoundCall,
    BoundLambda,
    BoundLiteral,
    BoundOperation,
)
from ottla.sql.types.coercion import arithmetic_type, can_stand_for, common_type
from ottla.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    UNKNOWN,
    Base,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
    type_of,
)

RANKING_PATTERN = (
    "it stands in a query in FROM whose first rows are taken: SELECT … FROM (SELECT …, ROW_NUMBER() OVER "
    "(PARTITION BY … ORDER BY …) AS rn FROM stream) WHERE rn <= 3"
)
Special = Callable[[Call, "ExpressionBinder"], Bound | None]
"""Binds calls that a clause has a meaning of its own for (aggregates, table functions); None for others."""


@dataclass(frozen=True, slots=True)
class ExpressionBinder:
    """Binds expressions within a scope."""

    scope: Scope
    functions: Functions
    types: dict[str, SqlType]
    special: Special | None = None
    replaced: Callable[[Expression, Scope], Bound | None] | None = None
    """What an expression as a whole stands for (GROUP BY's), before its parts are looked at."""

    def bind(self, expression: Expression) -> Bound:
        """The bound expression. Raises SqlError."""
        if self.replaced is not None and (found := self.replaced(expression, self.scope)) is not None:
            return found
        match expression:
            case Literal():
                return literal(expression.value, expression.at)
            case Name():
                return self.scope.resolve(expression)
            case FieldOf():
                return self._field(expression)
            case Subscript():
                return self._subscript(expression)
            case Operation():
                return self._operation(expression)
            case Call():
                return self._call(expression)
            case Case():
                return self._case(expression)
            case Cast():
                return self._cast(expression)
            case ArrayOf():
                items = [self.bind(each) for each in expression.items]
                of = self._common(items, [each.at for each in expression.items], "the array's elements")
                return BoundOperation("ARRAY", tuple(cast(each, of) for each in items), array(of))
            case MapOf():
                return self._map(expression)
            case StructOf():
                values = [self.bind(each) for _, each in expression.fields]
                of = struct(
                    *((name, each.type) for (name, _), each in zip(expression.fields, values, strict=True))
                )
                return BoundOperation("STRUCT", tuple(values), of)
            case Lambda():
                raise SqlError("a lambda can only be an argument of a function", expression.at)
            case RowNumber():
                raise SqlError("ROW_NUMBER() can't stand here", expression.at, RANKING_PATTERN)

    def condition(self, expression: Expression, clause: str) -> Bound:
        """A bound expression that is true or not. Raises SqlError."""
        found = self.bind(expression)
        if found.type not in (BOOLEAN, UNKNOWN):
            raise SqlError(f"{clause} needs a condition, this is {found.type}", expression.at)
        return found

    # Parts of values

    def _field(self, expression: FieldOf) -> Bound:
        of = self.bind(expression.of)
        if of.type.base is not Base.STRUCT:
            advice = (
                "columns of a source are written source.column" if isinstance(expression.of, Name) else None
            )
            raise SqlError(f"-> takes a field of a struct, this is {of.type}", expression.at, advice)
        found = of.type.field_named(expression.name)
        if found is None:
            names = ", ".join(name for name, _ in of.type.fields)
            raise SqlError(
                f"the struct has no field {expression.name}", expression.at, f"its fields: {names}"
            )
        return BoundOperation("FIELD", (of, BoundLiteral(expression.name, STRING)), found)

    def _subscript(self, expression: Subscript) -> Bound:
        of, index = self.bind(expression.of), self.bind(expression.index)
        match of.type.base:
            case Base.ARRAY:
                if not can_stand_for(index.type, BIGINT):
                    raise SqlError(
                        f"an array's index is a whole number, not {index.type}", expression.index.at
                    )
                return BoundOperation("SUBSCRIPT", (of, index), of.type.elements[0])
            case Base.MAP:
                if not can_stand_for(index.type, of.type.elements[0]):
                    raise SqlError(
                        f"the map's keys are {of.type.elements[0]}, this is {index.type}", expression.index.at
                    )
                return BoundOperation(
                    "SUBSCRIPT", (of, cast(index, of.type.elements[0])), of.type.elements[1]
                )
        raise SqlError(f"[] is for arrays and maps, this is {of.type}", expression.at)

    def _map(self, expression: MapOf) -> Bound:
        keys = [self.bind(key) for key, _ in expression.pairs]
        values = [self.bind(value) for _, value in expression.pairs]
        key_type = self._common(keys, [key.at for key, _ in expression.pairs], "the map's keys")
        value_type = self._common(values, [value.at for _, value in expression.pairs], "the map's values")
        pairs = zip(keys, values, strict=True)
        operands = [one for k, v in pairs for one in (cast(k, key_type), cast(v, value_type))]
        return BoundOperation("MAP", tuple(operands), map_of(key_type, value_type))

    def _case(self, expression: Case) -> Bound:
        conditions = [self.condition(condition, "WHEN") for condition, _ in expression.whens]
        results = [self.bind(result) for _, result in expression.whens]
        places = [result.at for _, result in expression.whens]
        if expression.otherwise is not None:
            results.append(self.bind(expression.otherwise))
            places.append(expression.otherwise.at)
        else:
            results.append(BoundLiteral(None, UNKNOWN))
            places.append(expression.at)
        of = self._common(results, places, "the results of CASE")
        results = [cast(each, of) for each in results]
        operands = [one for pair in zip(conditions, results, strict=False) for one in pair]
        return BoundOperation("CASE", (*operands, results[-1]), of)

    def _cast(self, expression: Cast) -> Bound:
        of, to = self.bind(expression.of), type_of(expression.to, self.types)
        if casts.caster(of.type, to) is None:
            advice = "use FROM_BYTES(bytes, encoding)" if of.type == BYTES and to == STRING else None
            raise SqlError(f"{of.type} can't be cast to {to}", expression.at, advice)
        return cast(of, to, always=True)

    def _common(self, values: Sequence[Bound], places: Sequence[Position], what: str) -> SqlType:
        found = UNKNOWN
        for value, at in zip(values, places, strict=True):
            common = common_type(found, value.type)
            if common is None:
                raise SqlError(f"{what} are {found} and {value.type}", at, "CAST makes them of one type")
            found = common
        return found

    # Operators

    def _operation(self, expression: Operation) -> Bound:
        operator, at = expression.operator, expression.at
        if operator in ("AND", "OR", "NOT"):
            return BoundOperation(
                operator, tuple(self.condition(each, operator) for each in expression.operands), BOOLEAN
            )
        operands = [self.bind(each) for each in expression.operands]
        match operator:
            case "+" | "-" | "*" | "/" | "%" | "||":
                return self._arithmetic(expression, operands)
            case "NEGATE":
                if not operands[0].type.is_number:
                    raise SqlError(f"- is for numbers, this is {operands[0].type}", at)
                return BoundOperation("NEGATE", tuple(operands), operands[0].type)
            case "IS NULL" | "IS NOT NULL":
                return BoundOperation(operator, tuple(operands), BOOLEAN)
            case "LIKE":
                for value, each in zip(operands, expression.operands, strict=True):
                    if value.type not in (STRING, UNKNOWN):
                        raise SqlError(f"LIKE is for STRING, this is {value.type}", each.at)
                return BoundOperation("LIKE", tuple(operands), BOOLEAN)
            case _:
                return self._comparison(expression, operands)

    def _arithmetic(self, expression: Operation, operands: list[Bound]) -> Bound:
        operator = expression.operator
        left, right = (each.type for each in operands)
        texts = (STRING, UNKNOWN)
        if operator == "||" or (operator == "+" and STRING in (left, right)):
            if left not in texts or right not in texts:
                wrong = right if left in texts else left
                raise SqlError(
                    f"{operator} puts texts together, this is {wrong}",
                    expression.at,
                    "CAST(… AS STRING) makes a text",
                )
            return BoundOperation("||", tuple(cast(each, STRING) for each in operands), STRING)
        found = arithmetic_type(operator, left, right)
        if found is None:
            raise SqlError(f"{operator} is for numbers, here are {left} and {right}", expression.at)
        if found.base is not Base.DECIMAL:
            operands = [cast(each, found) for each in operands]
        return BoundOperation(operator, tuple(operands), found)

    def _comparison(self, expression: Operation, operands: list[Bound]) -> Bound:
        operands = _with_times(operands, expression.operands)
        of = UNKNOWN
        for value, each in zip(operands, expression.operands, strict=True):
            common = common_type(of, value.type)
            if common is None:
                raise SqlError(
                    f"{of} and {value.type} can't be compared by {expression.operator}",
                    each.at,
                    "CAST one of them",
                )
            of = common
        if of.base in (Base.ARRAY, Base.MAP, Base.STRUCT) and expression.operator not in _EQUALITIES:
            raise SqlError(f"{of} can only be compared by = and <>", expression.at)
        if of == BOOLEAN and expression.operator not in _EQUALITIES:
            raise SqlError("BOOLEAN can only be compared by = and <>", expression.at)
        return BoundOperation(expression.operator, tuple(cast(each, of) for each in operands), BOOLEAN)

    # Functions

    def _call(self, expression: Call) -> Bound:
        if self.special is not None and (found := self.special(expression, self)) is not None:
            return found
        function = self.functions.find(expression.name)
        if function is None:
            close = self.functions.close_to(expression.name)
            advice = f"is {close} meant?" if close else "SHOW FUNCTIONS lists them"
            raise SqlError(f"there is no function {expression.name}", expression.at, advice)
        if isinstance(function, AggregateFunction):
            raise SqlError(
                f"{expression.name} is an aggregate: it can't stand here",
                expression.at,
                "aggregates stand in SELECT and HAVING of a query with GROUP BY, not within each other",
            )
        if isinstance(function, TableFunction):
            raise SqlError(
                f"{expression.name} is a table function: it can't stand here",
                expression.at,
                "it stands in SELECT, alone or around other functions' results",
            )
        if expression.star:
            raise SqlError(f"{expression.name}(*) does not exist", expression.at)
        return self.call(expression, function)

    def call(
        self, expression: Call, function: ScalarFunction | AggregateFunction | TableFunction
    ) -> BoundCall:
        """A call of a function, its arguments cast as the variant that fits wants them. Raises SqlError."""
        arguments = self._arguments(expression, function)
        given = [each.type for each in arguments]
        found = function.resolve(given)
        if found is None:
            shown = ", ".join(map(str, given))
            known = "; ".join(f"{function.name}{each.signature.text}" for each in function.variants[:8])
            raise SqlError(f"{function.name} does not take ({shown})", expression.at, f"it takes: {known}")
        number, fit = found
        cast_arguments = tuple(cast(each, to) for each, to in zip(arguments, fit.arguments, strict=True))
        signature = function.variants[number].signature.text
        return BoundCall(function.name, signature, cast_arguments, fit.returns)

    def _arguments(
        self, expression: Call, function: ScalarFunction | AggregateFunction | TableFunction
    ) -> list[Bound]:
        if not any(isinstance(each, Lambda) for each in expression.arguments):
            return [self.bind(each) for each in expression.arguments]
        plain = {
            n: self.bind(each) for n, each in enumerate(expression.arguments) if not isinstance(each, Lambda)
        }
        error: SqlError | None = None
        for variant in function.variants:
            signature, letters = variant.signature, dict[str, SqlType]()
            patterns = [signature.parameter(number) for number in range(len(expression.arguments))]
            if not signature.takes(len(expression.arguments)) or None in patterns:
                continue
            if not all(bind_letters(_known(patterns[n]), value.type, letters) for n, value in plain.items()):
                continue
            try:
                return [
                    plain[n] if n in plain else self._lambda(each, _known(patterns[n]), letters)
                    for n, each in enumerate(expression.arguments)
                ]
            except SqlError as failed:
                error = failed
        if error is not None:
            raise error
        known = "; ".join(f"{function.name}{each.signature.text}" for each in function.variants)
        raise SqlError(f"{function.name} does not take these arguments", expression.at, f"it takes: {known}")

    def _lambda(self, given: Expression, pattern: Pattern, letters: dict[str, SqlType]) -> Bound:
        assert isinstance(given, Lambda)
        if pattern.base is not Base.LAMBDA:
            raise SqlError("no lambda is wanted here", given.at)
        if len(given.parameters) != len(pattern.parts) - 1:
            raise SqlError(
                f"the lambda has {len(given.parameters)} parameters, {len(pattern.parts) - 1} are wanted",
                given.at,
            )
        types = [made(each, letters, UNKNOWN) for each in pattern.parts[:-1]]
        parameters = {**self.scope.parameters, **dict(zip(given.parameters, types, strict=True))}
        inner = replace(self, scope=replace(self.scope, parameters=parameters))
        body = inner.bind(given.body)
        if not bind_letters(pattern.parts[-1], body.type, letters):
            wanted = made(pattern.parts[-1], letters, UNKNOWN)
            raise SqlError(f"the lambda gives {body.type}, {wanted} is wanted", given.body.at)
        result = made(pattern.parts[-1], letters, body.type)
        lambda_type = SqlType(Base.LAMBDA, elements=(*types, result))
        return BoundLambda(given.parameters, cast(body, result), lambda_type)


_EQUALITIES = ("=", "<>", "IN", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def literal(value: LiteralValue, at: Position) -> BoundLiteral:
    """A constant with its type. Raises SqlError for whole numbers that are too large."""
    match value:
        case None:
            return BoundLiteral(None, UNKNOWN)
        case bool():
            return BoundLiteral(value, BOOLEAN)
        case int():
            if -(2**31) <= value < 2**31:
                return BoundLiteral(value, INTEGER)
            if -(2**63) <= value < 2**63:
                return BoundLiteral(value, BIGINT)
            raise SqlError(f"{value} does not fit BIGINT", at, f"{value}.0 is a DECIMAL")
        case Decimal():
            _, digits, exponent = value.as_tuple()
            scale = -int(exponent)
            precision = max(len(digits), scale)
            if precision > 38:
                raise SqlError("the number has more than 38 digits", at)
            return BoundLiteral(value, decimal(precision, scale))
        case float():
            return BoundLiteral(value, DOUBLE)
        case str():
            return BoundLiteral(value, STRING)


def cast(value: Bound, to: SqlType, *, always: bool = False) -> Bound:
    """The value as another type; itself where it is of that type."""
    if value.type == to and not always:
        return value
    if isinstance(value, BoundLiteral) and value.value is None:
        return BoundLiteral(None, to)
    return value if value.type == to else BoundOperation("CAST", (value,), to)


def _with_times(operands: list[Bound], written: Sequence[Expression]) -> list[Bound]:
    """Texts that are compared with dates and times become such. Raises SqlError for others."""
    of = next((each.type for each in operands if each.type.is_time), None)
    if of is None:
        return operands
    found = []
    for value, each in zip(operands, written, strict=True):
        if isinstance(value, BoundLiteral) and isinstance(value.value, str):
            convert = casts.caster(STRING, of)
            assert convert is not None
            try:
                value = BoundLiteral(convert(value.value), of)
            except ValueError as error:
                raise SqlError(f"this is compared with {of}: {error}", each.at) from None
        found.append(value)
    return found


def _known(pattern: Pattern | None) -> Pattern:
    assert pattern is not None
    return pattern
