"""Which printed figures of the two papers do not follow from their own tables.

    python benchmarks/claims.py

Every claim of `claims.json` is recomputed from the printed tables that the bundled experiments hold, by a
small calculator over their cells.

Formulas know numbers, ``+ - * / **``, lists, and the functions ``cell(row, column)``, ``gain(row, other,
column)`` (per cent that the first row is above the second), ``mean(list)`` and ``max(list)``. Nothing else is
evaluated, so that a configuration file from anywhere is safe to read.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sage_eval.experiment import load_experiment

from sage_core.errors import InputError

CLAIMS = Path(__file__).with_name("claims.json")

Cells = Mapping[tuple[str, str], float]
"""Printed figures by row and column."""

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure that a paper prints and that follows from others of its figures.

    Attributes:
        says: What is claimed, in a few words.
        printed: The figure printed; None where only the recomputed one is of interest.
        formula: How it follows from the table.
        tolerance: Largest difference that rounding explains.
        limit: The most that the recomputed figure can be (100 for a percentage of questions).
    """

    says: str
    formula: str
    printed: float | None = None
    tolerance: float = 0.06
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim, the figure recomputed, and whether it holds."""

    claim: Claim
    recomputed: float
    holds: bool


def checked_claims(name: str) -> list[CheckedClaim]:
    """The claims about an experiment's table, recomputed from it."""
    raw = json.loads(CLAIMS.read_text(encoding="utf-8")).get(name, ())
    paper = load_experiment(name).paper
    cells = paper.cells() if paper is not None else {}
    return [check(Claim(**claim), cells) for claim in raw]


def check(claim: Claim, cells: Cells) -> CheckedClaim:
    """Recompute a claim.

    Raises:
        InputError: Where the formula cannot be evaluated.
    """
    value = evaluate(claim.formula, cells)
    near = claim.printed is None or abs(value - claim.printed) <= claim.tolerance + 1e-9
    possible = claim.limit is None or value <= claim.limit
    return CheckedClaim(claim, value, near and possible)


def evaluate(formula: str, cells: Cells) -> float:
    """The value of a formula over ``cells``.

    Raises:
        InputError: For a formula that is wrong, or names a cell that is not there.
    """
    try:
        value = _value(ast.parse(formula, mode="eval").body, cells)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as error:
        raise InputError(f"formula {formula!r}: {error}") from error
    if not isinstance(value, float):
        raise InputError(f"formula {formula!r} gives no number")
    return value


def _value(node: ast.expr, cells: Cells) -> float | str | list[float]:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        return node.value if isinstance(node.value, str) else float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand, cells)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_number(node.left, cells), _number(node.right, cells))
    if isinstance(node, ast.List):
        return [_number(item, cells) for item in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id, [_value(argument, cells) for argument in node.args], cells)
    raise InputError(f"a formula cannot hold {ast.unparse(node)!r}")


def _number(node: ast.expr, cells: Cells) -> float:
    value = _value(node, cells)
    if not isinstance(value, float):
        raise InputError(f"a formula needs a number in place of {ast.unparse(node)!r}")
    return value


def _call(name: str, arguments: list[float | str | list[float]], cells: Cells) -> float:
    match name, arguments:
        case "cell", [str(row), str(column)]:
            return _cell(cells, row, column)
        case "gain", [str(row), str(other), str(column)]:
            return 100 * (_cell(cells, row, column) / _cell(cells, other, column) - 1)
        case "mean", [list(values)] if values:
            return sum(values) / len(values)
        case "max", [list(values)] if values:
            return max(values)
    raise InputError(f"a formula cannot call {name} with {len(arguments)} arguments of these kinds")


def _cell(cells: Cells, row: str, column: str) -> float:
    try:
        return cells[row, column]
    except KeyError as error:
        raise InputError(f"no printed figure in row {row!r}, column {column!r}") from error


def main() -> None:
    """Print the claims that do not hold, as a table in Markdown."""
    names = json.loads(CLAIMS.read_text(encoding="utf-8"))
    checked = [(name, claim) for name in names for claim in checked_claims(name)]
    print(f"{sum(not c.holds for _, c in checked)} of {len(checked)} claims do not hold.\n")
    print("| table | claim | printed | recomputed |\n|---|---|---:|---:|")
    for name, found in checked:
        if not found.holds:
            claim = found.claim
            printed = f"at most {claim.limit:g}" if claim.printed is None else f"{claim.printed:g}"
            print(f"| `{name}` | {claim.says} | {printed} | {found.recomputed:.2f} |")


if __name__ == "__main__":
    main()
