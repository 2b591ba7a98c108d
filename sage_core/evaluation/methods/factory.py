"""Methods from JSON-like configurations."""

from __future__ import annotations

from sage_core.answering import Answerer
from sage_core.embedding import Embedder
from sage_core.evaluation.protocols import Method
from sage_core.evaluation.specs import Spec
from sage_core.llm import ChatModel
from sage_core.ranking import Reranker
from sage_core.tokens import TokenCounter


def method_names() -> tuple[str, ...]:
    """The names `make_method` knows: kinds, and presets of ``sage`` for its ablations."""
    return (
        "naive",
        "naive+segmentation",
        "naive+selection",
        "naive+feedback",
        "sage-segmentation",
        "sage-selection",
        "sage-feedback",
        "sage",
        "title+abstract",
        "bm25+reranker",
        "recursive-summary",
        "raptor",
        "full-context",
        "sentence-window",
        "dos-rag",
    )


def make_method(
    spec: Spec,
    *,
    reader: Answerer,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    summary_model: ChatModel | None = None,
    counter: TokenCounter | None = None,
    shared: object | None = None,
    cache_dir: str | None = None,
) -> Method:
    """A method from its configuration.

    A string is short for ``{"method": string}``. ``name`` sets the name shown in tables. Every retrieving
    method takes ``index`` (see `make_index`; ``dense`` where left out), ``chunks`` and ``top_k``.

    A method also has ``prepare_seconds``: seconds by stage (``segment``, ``summarise``, ``index``) of its last
    `prepare`, which the `Method` protocol cannot return.

    Args:
        spec: The configuration.
        reader: Answers and grades.
        embedder: The embedding model where a configuration names none; all-MiniLM-L6-v2 where None.
        reranker: The reranker where a configuration names none; `HybridReranker` over ``embedder`` where None.
        summary_model: Writes summaries for the methods that need them. Without one, sentences near the
            centroid are quoted, which is said in the name and the settings.
        counter: Counts context tokens; the bundled word-piece counter where None.
        shared: What several methods of one table share (chunks); see `SharedWork`.
        cache_dir: Folder where embeddings are kept between runs.

    Raises:
        InputError: For an unknown name or setting, or a value out of range.
    """
    raise NotImplementedError
