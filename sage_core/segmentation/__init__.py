"""Segmentation: texts into short chunks that are complete in meaning."""

from sage_core.segmentation.layout import Layout
from sage_core.segmentation.models.protocol import BoundaryModel
from sage_core.segmentation.segmenter import Segmenter
from sage_core.segmentation.view import Boundary, SegmentationView

__all__ = ["Boundary", "BoundaryModel", "Layout", "SegmentationView", "Segmenter"]
