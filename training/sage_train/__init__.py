"""Training of boundary models (paper, Algorithm 1). Needs torch: ``pip install "sage-rag[models]"``."""

from sage_train.options import Progress, TrainOptions, TrainReport
from sage_train.train import train

__all__ = ["Progress", "TrainOptions", "TrainReport", "train"]
