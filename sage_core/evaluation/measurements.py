"""Experiments without a table of questions: their kinds by name, and the function that measures each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from sage_core.errors import InputError

if TYPE_CHECKING:
    from sage_core.evaluation.execute import MethodMaker, Plan
    from sage_core.evaluation.run_folder import RunFolder
    from sage_core.evaluation.runner import Outcome, Progress

    Measure = Callable[[Plan, RunFolder, MethodMaker, "Callable[[Progress], None] | None"], Outcome]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A kind of measurement.

    Attributes:
        module: Where its function ``measure`` is; loaded when it is run.
        asks_questions: Whether it needs the data sets of the experiment.
    """

    module: str
    asks_questions: bool = True

    @property
    def run(self) -> Measure:
        """The function that measures."""
        function: Measure = import_module(f"sage_core.evaluation.{self.module}").measure
        return function


MEASUREMENTS = {
    "scalability": Measurement("scalability"),
    "segmentation-speed": Measurement("segmentation_speed"),
    "pair-features": Measurement("feature_accuracy", asks_questions=False),
}


def measurement(kind: str) -> Measurement:
    """The measurement of that kind.

    Raises:
        InputError: Where there is none.
    """
    if kind not in MEASUREMENTS:
        raise InputError(f"unknown kind of experiment {kind!r}: questions, {', '.join(MEASUREMENTS)}")
    return MEASUREMENTS[kind]
