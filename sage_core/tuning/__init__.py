"""Settings chosen on a user's own questions, and questions made from a user's own documents.

>>> from sage_core.tuning import QuotedQuestion
>>> QuotedQuestion("When does the ferry leave?", ("leaves at seven",)).quotes
('leaves at seven',)
"""

from sage_core.tuning.calibrate import Calibrated, RankedQuestion, calibrate
from sage_core.tuning.gate import Comparison, as_search, compare, load_baseline, measure, save_baseline
from sage_core.tuning.made_questions import make_questions
from sage_core.tuning.questions import MadeDataset, make_dataset
from sage_core.tuning.quotations import QuotedQuestion, read_questions
from sage_core.tuning.records import Dataset, EvalDocument, EvalQuestion, Evidence
from sage_core.tuning.statistics import bootstrap_mean, paired_bootstrap
from sage_core.tuning.tuner import TuneOptions, Tuning, tune

__all__ = [
    "Calibrated",
    "Comparison",
    "Dataset",
    "EvalDocument",
    "EvalQuestion",
    "Evidence",
    "MadeDataset",
    "QuotedQuestion",
    "RankedQuestion",
    "TuneOptions",
    "Tuning",
    "as_search",
    "bootstrap_mean",
    "calibrate",
    "compare",
    "load_baseline",
    "make_dataset",
    "make_questions",
    "measure",
    "paired_bootstrap",
    "read_questions",
    "save_baseline",
    "tune",
]
