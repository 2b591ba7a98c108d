"""Data sets: one reader for each published format, and our own."""

from sage_eval.datasets.jsonl import save_dataset
from sage_eval.datasets.load import dataset_names, load_dataset

__all__ = ["dataset_names", "load_dataset", "save_dataset"]
