"""The papers' experiments: data sets, methods, metrics and reports.

    >>> from sage_eval import load_experiment
    >>> load_experiment("table4").title
    'SAGE, Table IV: ablation on NarrativeQA'

Names load on first use, since most of them bring libraries of their own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sage_eval.datasets import dataset_names, load_dataset, save_dataset
    from sage_eval.execute import run_experiment
    from sage_eval.experiment import Experiment, experiment_names, load_experiment
    from sage_eval.llm_eval import AnswerGrader
    from sage_eval.local_readers import LocalReader
    from sage_eval.methods import make_method, method_names
    from sage_eval.metrics import bootstrap_mean, metric, paired_bootstrap, paired_difference
    from sage_eval.plan import Plan, RunOptions
    from sage_eval.question_maker import MadeDataset, make_dataset
    from sage_eval.readers import NoReader, Reader
    from sage_eval.records import Dataset, EvalDocument, EvalQuestion, Evidence
    from sage_eval.report import write_report
    from sage_eval.results import Results, read_results

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
    "Reader",
    "Results",
    "RunOptions",
    "bootstrap_mean",
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
    "read_results",
    "run_experiment",
    "save_dataset",
    "write_report",
]

_HOMES = {
    "sage_eval.datasets": ("dataset_names", "load_dataset", "save_dataset"),
    "sage_eval.execute": ("run_experiment",),
    "sage_eval.experiment": ("Experiment", "experiment_names", "load_experiment"),
    "sage_eval.llm_eval": ("AnswerGrader",),
    "sage_eval.local_readers": ("LocalReader",),
    "sage_eval.methods": ("make_method", "method_names"),
    "sage_eval.metrics": ("bootstrap_mean", "metric", "paired_bootstrap", "paired_difference"),
    "sage_eval.plan": ("Plan", "RunOptions"),
    "sage_eval.readers": ("NoReader", "Reader"),
    "sage_eval.question_maker": ("MadeDataset", "make_dataset"),
    "sage_eval.records": ("Dataset", "EvalDocument", "EvalQuestion", "Evidence"),
    "sage_eval.report": ("write_report",),
    "sage_eval.results": ("Results", "read_results"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
