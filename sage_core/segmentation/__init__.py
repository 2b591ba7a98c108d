"""Segmentation: texts into short chunks that are complete in meaning."""

from sage_core.segmentation.layout import Layout
from sage_core.segmentation.protocol import BoundaryModel
from sage_core.segmentation.segmenter import Boundary, Segmenter

__all__ = ["Boundary", "BoundaryModel", "Layout", "Segmenter"]
