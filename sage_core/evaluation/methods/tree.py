"""A tree of summaries over the chunks of a document, searched flat: RAPTOR (arXiv 2401.18059)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from sage_core.embedding.protocol import Embedder
from sage_core.errors import InputError
from sage_core.evaluation.methods.clusters import ClusterOptions, soft_clusters
from sage_core.evaluation.methods.sources import ChunkSource
from sage_core.evaluation.methods.summaries import Summariser, summarise_all
from sage_core.evaluation.methods.timing import Stopwatch
from sage_core.evaluation.protocols import ProgressCallback
from sage_core.evaluation.records import EvalDocument, Piece
from sage_core.llm.usage import NO_USAGE, TokenUsage
from sage_core.text.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Settings of the tree.

    Attributes:
        summary_tokens: Length asked of a summary (RAPTOR: 100; its summaries come to 131 on average).
        cluster_tokens: Most tokens summarised at once (RAPTOR: 3,500); a larger cluster is cut into parts.
        levels: Most levels of summaries (RAPTOR: 5).
        least: A level of so few nodes is not summarised further (RAPTOR: 11).
        clusters: How clusters are formed.

    Raises:
        InputError: Where a value is out of its range.
    """

    summary_tokens: int = 100
    cluster_tokens: int = 3_500
    levels: int = 5
    least: int = 11
    clusters: ClusterOptions = field(default_factory=ClusterOptions)

    def __post_init__(self) -> None:
        if min(self.summary_tokens, self.cluster_tokens, self.levels, self.least) < 1:
            raise InputError("summary_tokens, cluster_tokens, levels and least must be at least 1")


class TreeSource:
    """The leaves of every document, and the summaries above them, level by level, as one list of pieces.

    Retrieval over that list is RAPTOR's "collapsed tree", which its authors found best. Summaries have no
    span: they are no slices of the document. A document of few leaves has no summaries.

    Args:
        leaves: Makes the leaves.
        embedder: Its vectors are clustered.
        summariser: Writes the summaries.
        counter: Counts tokens.
        options: Settings.
    """

    def __init__(
        self,
        leaves: ChunkSource,
        embedder: Embedder,
        summariser: Summariser,
        counter: TokenCounter,
        options: TreeOptions | None = None,
    ) -> None:
        self._leaves = leaves
        self._embedder = embedder
        self._summariser = summariser
        self._counter = counter
        self._options = options or TreeOptions()

    def describe(self) -> object:
        """See `PieceSource.describe`."""
        return {
            "leaves": self._leaves.describe(),
            "summaries": self._summariser.name,
            "clustered by": self._embedder.name,
            **asdict(self._options),
        }

    def pieces(
        self, documents: Sequence[EvalDocument], watch: Stopwatch, progress: ProgressCallback | None
    ) -> tuple[list[Piece], Mapping[str, TokenUsage]]:
        """See `PieceSource.pieces`."""
        found: list[Piece] = []
        spent = NO_USAGE
        for document in documents:
            level, _ = self._leaves.pieces([document], watch, progress)
            found += level
            for _ in range(self._options.levels):
                if len(level) < self._options.least:
                    break
                above, usage = self._summarised(level, watch, progress)
                spent += usage
                found += above
                if len(above) >= len(level):
                    break
                level = above
        return found, {"summary": spent} if spent.calls else {}

    def _summarised(
        self, level: Sequence[Piece], watch: Stopwatch, progress: ProgressCallback | None
    ) -> tuple[list[Piece], TokenUsage]:
        """The level above."""
        with watch.stage("cluster"):
            vectors = self._embedder.embed_documents([piece.text for piece in level])
            groups = soft_clusters(vectors, self._options.clusters)
            texts = [text for group in groups for text in self._joined([level[i].text for i in group])]
        with watch.stage("summarise"):
            summaries, usage = summarise_all(
                self._summariser, texts, self._options.summary_tokens, progress=progress
            )
        document = level[0].document
        return [Piece(s, document) for s in dict.fromkeys(summaries) if s.strip()], usage

    def _joined(self, texts: Sequence[str]) -> list[str]:
        """The texts of a cluster as one; as several where they are too long together."""
        parts: list[list[str]] = []
        room = 0
        for text, count in zip(texts, self._counter.count_many(texts), strict=True):
            if not parts or count > room:
                parts.append([])
                room = self._options.cluster_tokens
            parts[-1].append(text)
            room -= count
        return ["\n\n".join(part) for part in parts]
