"""The papers' experiments: data sets, methods, metrics and reports.

    >>> from sage_eval import load_experiment
    >>> load_experiment("table4").title
    'SAGE, Table IV: ablation on NarrativeQA'

Names load on first use, since most of them bring libraries of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sage_core._lazy import lazy_names

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
    "datasets": "dataset_names load_dataset save_dataset",
    "execute": "run_experiment",
    "experiment": "Experiment experiment_names load_experiment",
    "llm_eval": "AnswerGrader",
    "local_readers": "LocalReader",
    "methods": "make_method method_names",
    "metrics": "bootstrap_mean metric paired_bootstrap paired_difference",
    "plan": "Plan RunOptions",
    "question_maker": "MadeDataset make_dataset",
    "readers": "NoReader Reader",
    "records": "Dataset EvalDocument EvalQuestion Evidence",
    "report": "write_report",
    "results": "Results read_results",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
