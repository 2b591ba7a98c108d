"""A cut with a promise about the evidence, calibrated on a user's own questions.

>>> from sage_app.calibrate import QuotedQuestion
>>> QuotedQuestion("When does the ferry leave?", ("leaves at seven",)).quotes
('leaves at seven',)
"""

from sage_app.calibrate.cut import Calibrated, RankedQuestion, calibrate
from sage_app.calibrate.quotations import Evidence, QuotedQuestion, read_questions

__all__ = ["Calibrated", "Evidence", "QuotedQuestion", "RankedQuestion", "calibrate", "read_questions"]
