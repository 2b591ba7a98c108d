"""Results as HTML and SVG: self-contained, without scripts or network, every foreign text escaped."""

from sage_app.rendering.html.charts import score_curve_svg
from sage_app.rendering.html.page import check_page_path, write_page
from sage_app.rendering.html.report import answer_report, retrieval_report, rounds_html, verdict_report
from sage_app.rendering.html.views import boundaries_html, fragment, page_of, segmentation_report

__all__ = [
    "answer_report",
    "boundaries_html",
    "check_page_path",
    "fragment",
    "page_of",
    "retrieval_report",
    "rounds_html",
    "score_curve_svg",
    "segmentation_report",
    "verdict_report",
    "write_page",
]
