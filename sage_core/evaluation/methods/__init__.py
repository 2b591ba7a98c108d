"""Methods of answering questions about documents: SAGE, its ablations, and what it is compared with."""

from sage_core.evaluation.methods.factory import make_method, method_names

__all__ = ["make_method", "method_names"]
