"""Experiments without a table of questions: their kinds by name, and the function that measures each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sage_core.errors import InputError
from sage_core.evaluation import feature_accuracy, scalability, segmentation_speed
from sage_core.evaluation.plan import MethodMaker, Plan
from sage_core.evaluation.run_folder import RunFolder
from sage_core.evaluation.runner import Outcome, Progress

Measure = Callable[[Plan, RunFolder, MethodMaker, Callable[[Progress], None] | None], Outcome]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A kind of measurement.

    Attributes:
        run: The function that measures.
        asks_questions: Whether it needs the data sets of the experiment.
    """

    run: Measure
    asks_questions: bool = True


MEASUREMENTS = {
    "scalability": Measurement(scalability.measure),
    "segmentation-speed": Measurement(segmentation_speed.measure),
    "pair-features": Measurement(feature_accuracy.measure, asks_questions=False),
}


def measurement(kind: str) -> Measurement:
    """The measurement of that kind.

    Raises:
        InputError: Where there is none.
    """
    if kind not in MEASUREMENTS:
        raise InputError(f"unknown kind of experiment {kind!r}: questions, {', '.join(MEASUREMENTS)}")
    return MEASUREMENTS[kind]
