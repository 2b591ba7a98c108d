"""Evaluation: the papers' experiments, data sets, metrics and reports. A leaf: nothing else imports it.

    >>> from sage_core.evaluation import load_experiment
    >>> load_experiment("table4").title
    'SAGE, Table IV: ablation on NarrativeQA'

Names load on first use, since most of them bring libraries of their own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sage_core.evaluation.datasets import dataset_names, load_dataset, save_dataset
    from sage_core.evaluation.execute import run_experiment
    from sage_core.evaluation.experiment import Experiment, experiment_names, load_experiment
    from sage_core.evaluation.llm_eval import AnswerGrader
    from sage_core.evaluation.local_readers import LocalReader
    from sage_core.evaluation.methods import make_method, method_names
    from sage_core.evaluation.metrics import bootstrap_mean, metric, paired_bootstrap, paired_difference
    from sage_core.evaluation.plan import Plan, RunOptions
    from sage_core.evaluation.question_maker import MadeDataset, make_dataset
    from sage_core.evaluation.quotations import QuotedQuestion, read_questions
    from sage_core.evaluation.readers import NoReader, Reader
    from sage_core.evaluation.records import Dataset, EvalDocument, EvalQuestion, Evidence
    from sage_core.evaluation.report import write_report
    from sage_core.evaluation.results import Results, compare, read_results
    from sage_core.evaluation.tuning import TuneOptions, Tuning, tune

__all__ = [
    "AnswerGrader",
    "Dataset",
    "EvalDocument",
    "EvalQuestion",
    "Evidence",
    "Experiment",
    "LocalReader",
    "MadeDataset",
    "NoReader",
    "Plan",
    "QuotedQuestion",
    "Reader",
    "Results",
    "RunOptions",
    "TuneOptions",
    "Tuning",
    "bootstrap_mean",
    "compare",
    "dataset_names",
    "experiment_names",
    "load_dataset",
    "load_experiment",
    "make_dataset",
    "make_method",
    "method_names",
    "metric",
    "paired_bootstrap",
    "paired_difference",
    "read_questions",
    "read_results",
    "run_experiment",
    "save_dataset",
    "tune",
    "write_report",
]

_HOMES = {
    "datasets": ("dataset_names", "load_dataset", "save_dataset"),
    "execute": ("run_experiment",),
    "experiment": ("Experiment", "experiment_names", "load_experiment"),
    "llm_eval": ("AnswerGrader",),
    "local_readers": ("LocalReader",),
    "methods": ("make_method", "method_names"),
    "metrics": ("bootstrap_mean", "metric", "paired_bootstrap", "paired_difference"),
    "plan": ("Plan", "RunOptions"),
    "question_maker": ("MadeDataset", "make_dataset"),
    "readers": ("NoReader", "Reader"),
    "records": ("Dataset", "EvalDocument", "EvalQuestion", "Evidence"),
    "report": ("write_report",),
    "quotations": ("QuotedQuestion", "read_questions"),
    "results": ("Results", "compare", "read_results"),
    "tuning": ("TuneOptions", "Tuning", "tune"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
