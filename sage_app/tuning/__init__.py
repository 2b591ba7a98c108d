"""Settings chosen on a user's own questions, and questions made from a user's own documents.

>>> from sage_app.tuning import QuotedQuestion
>>> QuotedQuestion("When does the ferry leave?", ("leaves at seven",)).quotes
('leaves at seven',)
"""

from sage_app.tuning.calibrate import Calibrated, RankedQuestion, calibrate
from sage_app.tuning.made_questions import make_questions
from sage_app.tuning.quotations import Evidence, QuotedQuestion, read_questions
from sage_app.tuning.statistics import paired_bootstrap
from sage_app.tuning.tuner import TuneOptions, Tuning, tune

__all__ = [
    "Calibrated",
    "Evidence",
    "QuotedQuestion",
    "RankedQuestion",
    "TuneOptions",
    "Tuning",
    "calibrate",
    "make_questions",
    "paired_bootstrap",
    "read_questions",
    "tune",
]
