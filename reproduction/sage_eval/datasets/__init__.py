"""Data sets: the published ones in the columns of the hub, and our own format."""

from sage_eval.datasets.jsonl import save_dataset
from sage_eval.datasets.load import dataset_names, load_dataset

__all__ = ["dataset_names", "load_dataset", "save_dataset"]
