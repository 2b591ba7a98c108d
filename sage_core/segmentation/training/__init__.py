"""Training of boundary models (paper, Algorithm 1). Needs torch: ``pip install "sage-rag[models]"``."""

from sage_core.segmentation.training.options import Progress, TrainOptions, TrainReport
from sage_core.segmentation.training.train import train

__all__ = ["Progress", "TrainOptions", "TrainReport", "train"]
