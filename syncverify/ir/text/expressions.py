"""Index expressions from strings, as in launch facts: ``16*C + 256``, ``128 <= C <= 8192``."""

from __future__ import annotations

import ast

from syncverify.ir.expr import INDEX_CALLS, Binary, Call, Expr, Int, Unary, Var

_LONGEST = 1000
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.And: "and", ast.Or: "or", ast.USub: "-", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip
_ARGUMENTS = {"min": 2, "max": 2, "cdiv": 2, "select": 3, "abs": 1}


def parse_expr(text: str) -> Expr:
    """The expression that a string holds; ValueError says what is wrong with it.

    Names may have dots (``grid.x``) and one number in brackets (``param1[8]``).
    """
    if len(text) > _LONGEST:
        raise ValueError(f"an expression of more than {_LONGEST} characters")
    try:
        return _expr(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as e:
        raise ValueError(f"{text!r} is no expression: {e.msg}") from None
    except (RecursionError, MemoryError):
        raise ValueError(f"{text[:40]!r}... is nested too deeply") from None


def _expr(node: ast.expr) -> Expr:
    match node:
        case ast.Constant(value=bool() as value) | ast.Constant(value=int() as value):
            return Int(int(value))
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return Var(_name(node))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            inner = _expr(operand)
            if isinstance(op, ast.USub) and isinstance(inner, Int):
                return Int(-inner.value)
            return Unary(_OPERATORS[type(op)], inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return Binary(_OPERATORS[type(op)], _expr(left), _expr(right))
        case ast.BinOp(op=ast.Div()):
            raise ValueError("sizes are integers: write // for a quotient rounded down")
        case ast.BoolOp(op=op, values=values):
            return _joined(_OPERATORS[type(op)], [_expr(v) for v in values])
        case ast.Compare(left=left, ops=ops, comparators=rights):
            terms = [_expr(left), *map(_expr, rights)]
            pairs = zip(terms, ops, terms[1:], strict=False)
            if all(type(op) in _OPERATORS for op in ops):
                return _joined("and", [Binary(_OPERATORS[type(op)], a, b) for a, op, b in pairs])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return Call("select", (_expr(test), _expr(body), _expr(orelse)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in INDEX_CALLS:
            if len(args) == _ARGUMENTS[name] or (name in ("min", "max") and args):
                return Call(name, tuple(map(_expr, args)))
            raise ValueError(f"{name} takes {_ARGUMENTS[name]} arguments")
    raise ValueError(
        f"{ast.unparse(node)!r} is not understood; there are + - * // % << >> & | ^ ~, comparisons, "
        f"and, or, not, {', '.join(INDEX_CALLS)}"
    )


def _joined(op: str, terms: list[Expr]) -> Expr:
    result = terms[0]
    for term in terms[1:]:
        result = Binary(op, result, term)
    return result


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=base), attr=attribute):
            return f"{base}.{attribute}"
        case ast.Subscript(value=ast.Name(id=base), slice=ast.Constant(value=int() as index)):
            return f"{base}[{index}]"
        case ast.Subscript(
            value=ast.Name(id=base),
            slice=ast.Slice(
                lower=ast.Constant(value=int() as low), upper=ast.Constant(value=int() as high), step=None
            ),
        ):
            return f"{base}[{low}:{high}]"
    raise ValueError(f"{ast.unparse(node)!r} is no name")
