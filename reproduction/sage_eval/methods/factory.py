"""Methods from JSON-like configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from sage_app.answers import Answerer
from sage_app.pipeline.settings import SageConfig
from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.feedback import FeedbackConfig
from sage_core.llm import ChatModel
from sage_core.ranking import Reranker
from sage_core.selection import PAPER_GRADIENT, SelectionConfig
from sage_core.selection.rules import FixedK, RankedScores
from sage_core.text.tokens import TokenCounter, get_counter
from sage_eval.methods.answering import Reading, digest
from sage_eval.methods.chunking import ChunkSource, PieceSource, SharedSpans, make_chunker
from sage_eval.methods.context import Order
from sage_eval.methods.context_builders import Arrangement, AsRanked, Assembled, SentenceWindow
from sage_eval.methods.retrieval import Plan, RetrievalMethod
from sage_eval.methods.shipped import ShippedSage
from sage_eval.methods.summaries import ExtractiveSummarizer, LLMSummarizer, Summarizer
from sage_eval.methods.tree import TreeOptions, TreeSource
from sage_eval.methods.whole_document import (
    ContextMaker,
    FullText,
    GoldContext,
    NoContext,
    Placement,
    RecursiveSummary,
    TitleAndAbstract,
    WholeDocumentMethod,
)
from sage_eval.readers import PAPER_COIN, PAPER_CRITIC_SYSTEM, PaperCritic
from sage_eval.records import Method
from sage_eval.retrievers import ModelPool, make_index
from sage_eval.specs import Settings, Spec

_LOOP = ("accept_score", "max_rounds", "policy", "max_calls", "max_llm_tokens")


def read_selection(
    settings: Settings, *, top_k: int | None, feedback: bool, paper: bool = False
) -> FeedbackConfig:
    """Selection and loop.

    Settings: ``rule`` (``"auto"`` or ``"gradient"``; with ``paper`` `PaperGradient` where none is given),
    ``min_k``, ``gradient``, ``max_k``; and of the loop
    ``accept_score``, ``max_rounds``, ``policy``, ``max_calls``, ``max_llm_tokens``.

    Args:
        settings: The method's configuration.
        top_k: Take so many, whatever their scores; None selects by the rule.
        feedback: Whether there is a loop; without one its settings are left for `Settings.end` to complain.
        paper: Whether the paper's values stand where a setting is left out.

    Raises:
        InputError: For a value out of range.
    """
    values: dict[str, Any] = {"policy": "paper"} if paper else {}
    if feedback:
        values.update((name, settings.raw(name)) for name in _LOOP if name in settings)
    if top_k is not None:
        # The rule takes min_k alone, so that the loop's steps of min_k are steps of the number of chunks.
        selected = SelectionConfig(rule=FixedK(1), min_k=top_k, empty_below=None)
        return FeedbackConfig(selection=selected, **values)
    # The papers ask the reader whatever was found.
    selection: dict[str, Any] = {"empty_below": None}
    for name in ("min_k", "max_k", "gradient"):
        if name in settings:
            selection[name] = settings.raw(name)
    if "rule" in settings:
        selection["rule"] = settings.take("rule", str)
    if paper:
        selection = {"min_k": PAPER_MIN_K, **selection}
        if "rule" not in selection:
            gradient = selection.pop("gradient", PAPER_GRADIENT)
            selection["rule"] = PaperGradient(gradient, printed=settings.take("printed", bool, False))
    return FeedbackConfig(selection=SelectionConfig(**selection), **values)


@dataclass(frozen=True, slots=True)
class PaperGradient:
    """Algorithm 2: behind the best ``min_k``, keep on while a score is close to the one before it.

    ``rule="gradient"`` of `sage_core` looks for the cliff from rank 1 on. This one keeps the whole tail where
    the one cliff stands among the best ``min_k``, as the paper's does.

    Attributes:
        gradient: The paper's g.
        printed: Whether the test is the printed one, ``S[i] > score / g`` with a ``score`` that never
            changes; else ``S[i] > g * S[i-1]``, which alone gives the paper's figure 8.
    """

    gradient: float = PAPER_GRADIENT
    printed: bool = False

    def cut(self, scores: RankedScores, min_k: int) -> tuple[int, str]:
        """``min_k`` and those behind it that pass the test."""
        for i in range(max(min_k, 1), len(scores.ratio)):
            if self.printed:
                passes = scores.raw[i] > scores.raw[max(min_k, 1) - 1] / self.gradient
            else:
                passes = scores.ratio[i] > self.gradient * scores.ratio[i - 1]
            if not passes:
                return i, f"Algorithm 2 stops at rank {i + 1}"
        return len(scores.ratio), "Algorithm 2 finds no cliff"


class SharedWork:
    """Give the same object to every `make_method` of a table.

    A table of eight ablations then loads each model once, and cuts and embeds each document once per way of
    cutting it. On a CPU that is most of the time a table takes.
    """

    def __init__(self) -> None:
        self.spans = SharedSpans()
        self._pools: dict[tuple[object, ...], tuple[ModelPool, object]] = {}

    def models(
        self,
        embedder: Embedder | None,
        reranker: Reranker | None,
        cache_dir: str | Path | None,
        base_url: str | None = None,
        language: str = "en",
    ) -> ModelPool:
        """The pool of these models: the same for the same objects."""
        key = (id(embedder), id(reranker), str(cache_dir), base_url, language)
        if key not in self._pools:
            pool = ModelPool(
                embedder=embedder,
                reranker=reranker,
                cache_dir=cache_dir,
                base_url=base_url,
                language=language,
            )
            # The objects are kept too: the id of one that is gone may come again.
            self._pools[key] = (pool, (embedder, reranker))
        return self._pools[key][0]


_TOP_K = 10
PAPER_MIN_K = 7
_CANDIDATES = 30

# What each name of the family switches on.
_SWITCHES: dict[str, dict[str, object]] = {
    "naive": {},
    "naive+segmentation": {"segmentation": True},
    "naive+selection": {"selection": True},
    "naive+feedback": {"feedback": True},
    "sage-segmentation": {"selection": True, "feedback": True},
    "sage-selection": {"segmentation": True, "feedback": True},
    "sage-feedback": {"segmentation": True, "selection": True},
    "sage": {"segmentation": True, "selection": True, "feedback": True},
    "sage-paper": {"segmentation": True, "selection": True, "feedback": True, "paper": True},
    "bm25+reranker": {"index": "bm25", "rerank": True, "candidates": 50},
}


def method_names() -> tuple[str, ...]:
    """The names `make_method` knows."""
    return (*_SWITCHES, *_OTHERS)


def make_method(
    spec: Spec,
    *,
    reader: Answerer,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    summary_model: ChatModel | None = None,
    counter: TokenCounter | None = None,
    shared: SharedWork | None = None,
    cache_dir: str | Path | None = None,
    base_url: str | None = None,
    language: str = "en",
) -> Method:
    """A method from its configuration.

    A string is short for ``{"method": string}``; ``name`` sets the name shown in tables. All settings have
    defaults.

    Naive RAG, SAGE and its ablations are one family with three switches. ``naive`` has none on, ``sage`` all;
    ``naive+selection`` has one, ``sage-selection`` all but one; ``sage-paper`` is ``sage`` with the paper's
    own settings. Their settings:

    - ``segmentation``: chunks of the segmenter, else of 200 tokens; ``chunks`` names others (`make_chunker`).
    - ``selection``: rerank, then select by ``rule`` (`read_selection`); else the index's best ``top_k`` (10).
    - ``feedback``: grade and try again (`read_selection`); without ``selection`` it moves ``top_k``.
    - ``paper``: the paper's own settings: pair model at threshold 0.55, Algorithm 2 with g = 0.3 and min_k 7
      (`PaperGradient`), plus or minus 1, and its critic's prompt (figure 6, in our words). ``coin`` (False)
      keeps that prompt's instruction to draw the adjustment; ``printed`` (False) takes Algorithm 2 to the
      letter, which keeps min_k chunks of any positive scores.
    - ``with_options`` (False): search with the options of a multiple-choice question too.
    - ``index`` (`make_index`; ``dense``), ``candidates`` (30: asked of the index).
    - ``rerank`` (whether to rerank without ``selection`` too), ``reranker`` (`ModelPool.reranker`).
    - ``order`` (``"rank"``, or ``"document"``, which also joins neighbors), ``budget`` (tokens of context).

    ``bm25+reranker`` is ``naive`` with BM25 and 50 candidates, reranked. The others:

    - ``dos-rag``: the best chunks up to ``budget`` (2,000) tokens, in document order. As ``naive``.
    - ``sentence-window``: the best ``top_k`` (5) sentences, each with ``window`` (3) neighbors on either
      side. As ``naive``.
    - ``raptor``: leaves of 100 tokens and summaries above them (`TreeOptions`: ``summary_tokens``,
      ``cluster_tokens``, ``levels``, ``least``), the best of all up to ``budget`` (2,000). As ``naive``.
    - ``recursive-summary``: ``part_tokens`` (1,200), ``summary_tokens`` (200), ``max_tokens`` (1,000).
    - ``full-context``: ``max_tokens`` (100,000). ``title+abstract``: none.
    - ``sage-shipped``: `Sage` itself over a store of its own; ``embedder``, ``reranker``,
      ``candidates``, ``order``, ``budget``, and the settings of selection and loop as for ``sage``.
    - ``gold-context``: the chunks that hold the marked evidence; ``chunks`` (1,000 tokens); with ``tokens``
      and ``depth`` (0 to 1) they stand so deep in a context of that size. ``no-context``: none.

    A method also has ``prepare_seconds``, the seconds by stage (``segment``, ``cluster``, ``summarize``,
    ``index``) of its last `prepare`.

    Args:
        spec: The configuration.
        reader: Answers and grades.
        embedder: The embedding model where a configuration names none; all-MiniLM-L6-v2 where None.
        reranker: The reranker where a configuration names none; `HybridReranker` where None.
        summary_model: Writes summaries, and cuts documents, for the methods that need it. Without one,
            sentences near the centroid are quoted, which the settings say.
        counter: Counts context tokens; the bundled word-piece counter where None.
        shared: What the methods of one table share.
        cache_dir: Folder where embeddings are kept between runs.
        base_url: Server of OpenAI-compatible embeddings; see `ModelPool`.
        language: Of the texts, for keyword indexes.

    Raises:
        InputError: For an unknown name or setting, or a value out of range.
        MissingExtraError: Where an optional dependency is not installed.
    """
    settings = Settings(spec, "method", key="method")
    if settings.kind not in method_names():
        raise InputError(f"unknown method {settings.kind!r}: one of {', '.join(method_names())}")
    shared = shared if shared is not None else SharedWork()
    counter = counter if counter is not None else get_counter()
    models = shared.models(embedder, reranker, cache_dir, base_url, language)
    summarizer: Callable[[], Summarizer] = lambda: (  # noqa: E731
        LLMSummarizer(summary_model)
        if summary_model is not None
        else ExtractiveSummarizer(models.embedder(), counter=counter)
    )
    name = settings.take("name", str, settings.kind)
    kit = _Kit(name, settings, Reading(reader, counter), models, shared, summarizer, summary_model)
    method = _family(kit) if settings.kind in _SWITCHES else _OTHERS[settings.kind](kit)
    settings.end()
    return method


@dataclass(frozen=True, slots=True)
class _Kit:
    """What every method is built of."""

    name: str
    settings: Settings
    reading: Reading
    models: ModelPool
    shared: SharedWork
    summarizer: Callable[[], Summarizer]
    chat: ChatModel | None

    def chunks(self, default: Spec) -> ChunkSource:
        """The chunks of the configuration."""
        return ChunkSource(make_chunker(self.settings.spec("chunks", default), self.chat), self.shared.spans)

    def arrangement(self, *, order: Order = "rank", budget: int | None = None) -> Arrangement:
        """How the context is put together."""
        chosen = cast("Order", self.settings.take("order", str, order))
        if chosen not in ("rank", "document"):
            raise InputError(f"method {self.settings.kind!r}: order is 'rank' or 'document', not {chosen!r}")
        limit = self.settings.take("budget", int, budget)
        if chosen == "rank" and limit is None:
            return AsRanked()
        return Assembled(chosen, limit, self.reading.counter)

    def candidates(self, least: int, default: int = _CANDIDATES) -> int:
        """How many hits are requested from the index."""
        return max(least, self.settings.take("candidates", int, default))

    def top_k(self, default: int) -> int:
        """A fixed number of pieces."""
        top_k = self.settings.take("top_k", int, default)
        if top_k < 1:
            raise InputError(f"method {self.settings.kind!r}: top_k must be at least 1, not {top_k}")
        return top_k

    def index_spec(self, default: Spec = "dense") -> Spec:
        """The index of the configuration."""
        return self.settings.spec("index", default)

    def reranker(self, wanted: bool) -> Reranker | None:
        """The reranker, where there is one."""
        spec = self.settings.spec("reranker")
        wanted = self.settings.take("rerank", bool, wanted or spec is not None)
        return self.models.reranker(spec) if wanted else None


def _family(kit: _Kit) -> Method:
    """Naive RAG, SAGE, and all between."""
    settings = kit.settings
    on = _SWITCHES[settings.kind]
    switch = {
        name: settings.take(name, bool, bool(on.get(name)))
        for name in ("segmentation", "selection", "feedback", "paper")
    }
    segmented: Spec = "paper" if switch["paper"] else "segmenter"
    source = kit.chunks(segmented if switch["segmentation"] else "fixed")
    top_k = None if switch["selection"] else kit.top_k(_TOP_K)
    coin = settings.take("coin", bool, False)
    if (coin or "printed" in settings) and not switch["paper"]:
        raise InputError(f"method {settings.kind!r}: printed and coin are settings of sage-paper")
    selection = read_selection(settings, top_k=top_k, feedback=switch["feedback"], paper=switch["paper"])
    reading = kit.reading
    about: dict[str, object] = {"method": settings.kind, **switch}
    if switch["paper"]:
        reading = replace(reading, reader=PaperCritic(reading.reader, coin=coin))
        about |= {"coin": coin, "critic": digest(PAPER_CRITIC_SYSTEM, PAPER_COIN)}
    return RetrievalMethod(
        kit.name,
        source=source,
        index=make_index(kit.index_spec(cast("Spec", on.get("index", "dense"))), models=kit.models),
        reading=reading,
        plan=Plan(
            selection,
            switch["feedback"],
            kit.candidates(top_k or 1, cast("int", on.get("candidates", _CANDIDATES))),
        ),
        arrangement=kit.arrangement(),
        reranker=kit.reranker(switch["selection"] or bool(on.get("rerank"))),
        about=about,
        with_options=settings.take("with_options", bool, False),
    )


def _best_up_to(kit: _Kit, source: PieceSource, arrangement: Arrangement, top_k: int) -> Method:
    """The best pieces by rank, of which the arrangement makes the context."""
    feedback = kit.settings.take("feedback", bool, False)
    return RetrievalMethod(
        kit.name,
        source=source,
        index=make_index(kit.index_spec(), models=kit.models),
        reading=kit.reading,
        plan=Plan(
            read_selection(kit.settings, top_k=top_k, feedback=feedback),
            feedback,
            kit.candidates(top_k),
        ),
        arrangement=arrangement,
        reranker=kit.reranker(False),
        about={"method": kit.settings.kind},
        with_options=kit.settings.take("with_options", bool, False),
    )


def _dos_rag(kit: _Kit) -> Method:
    # Enough candidates to fill the budget with pieces of 25 tokens.
    budget = kit.settings.take("budget", int, 2_000)
    return _best_up_to(
        kit,
        kit.chunks("fixed"),
        Assembled("document", budget, kit.reading.counter),
        max(budget // 25, _CANDIDATES),
    )


def _sentence_window(kit: _Kit) -> Method:
    window = SentenceWindow(kit.settings.take("window", int, 3))
    return _best_up_to(kit, kit.chunks("sentences"), window, kit.top_k(5))


def _raptor(kit: _Kit) -> Method:
    sizes: Mapping[str, Any] = {
        name: kit.settings.take(name, int)
        for name in ("summary_tokens", "cluster_tokens", "levels", "least")
        if name in kit.settings
    }
    budget = kit.settings.take("budget", int, 2_000)
    source = TreeSource(
        kit.chunks({"kind": "fixed", "tokens": 100}),
        kit.models.embedder(),
        kit.summarizer(),
        kit.reading.counter,
        TreeOptions(**sizes),
    )
    arrangement = Assembled("rank", budget, kit.reading.counter)
    return _best_up_to(kit, source, arrangement, max(budget // 25, _CANDIDATES))


def _whole(kit: _Kit, maker: ContextMaker) -> Method:
    return WholeDocumentMethod(
        kit.name, maker=maker, reading=kit.reading, about={"method": kit.settings.kind}
    )


def _recursive_summary(kit: _Kit) -> Method:
    sizes = {"part_tokens": 1_200, "summary_tokens": 200, "max_tokens": 1_000}
    taken = {name: kit.settings.take(name, int, size) for name, size in sizes.items()}
    return _whole(kit, RecursiveSummary(kit.summarizer(), kit.reading.counter, **taken))


def _full_context(kit: _Kit) -> Method:
    return _whole(kit, FullText(kit.settings.take("max_tokens", int, 100_000), kit.reading.counter))


def _title_and_abstract(kit: _Kit) -> Method:
    return _whole(kit, TitleAndAbstract())


def _gold(kit: _Kit) -> Method:
    tokens, depth = kit.settings.take("tokens", int), kit.settings.take("depth", float)
    if (tokens is None) != (depth is None):
        raise InputError("method 'gold-context' takes tokens and depth together")
    place = None if tokens is None or depth is None else Placement(tokens, depth)
    return GoldContext(kit.name, kit.chunks({"kind": "fixed", "tokens": 1000}), kit.reading, place)


def _shipped(kit: _Kit) -> Method:
    settings, usual = kit.settings, SageConfig()
    feedback = read_selection(settings, top_k=None, feedback=True)
    budget = settings.take("budget", int)
    config = replace(
        usual,
        feedback=replace(feedback, selection=replace(feedback.selection, max_context_tokens=budget)),
        candidates=settings.take("candidates", int, usual.candidates),
    )
    reranker = settings.spec("reranker")
    return ShippedSage(
        kit.name,
        kit.reading,
        kit.models.embedder(settings.spec("embedder")),
        None if reranker is None else kit.models.reranker(reranker),
        config,
    )


_OTHERS: dict[str, Callable[[_Kit], Method]] = {
    "title+abstract": _title_and_abstract,
    "recursive-summary": _recursive_summary,
    "raptor": _raptor,
    "full-context": _full_context,
    "sentence-window": _sentence_window,
    "dos-rag": _dos_rag,
    "sage-shipped": _shipped,
    "gold-context": _gold,
    "no-context": lambda kit: NoContext(kit.name, kit.reading),
}
