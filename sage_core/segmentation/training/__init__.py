"""Training of boundary models (paper, Algorithm 1). Needs torch: ``pip install "sage-rag[models]"``."""

from sage_core.segmentation.training.train import Progress, TrainOptions, TrainReport, train

__all__ = ["Progress", "TrainOptions", "TrainReport", "train"]
