"""What a search gave, on its way to a ranking: how it stood, what is cut, who vouches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sage_core.passages import Node
from sage_core.ranking.candidates import distinct
from sage_core.ranking.features import scores_or_order
from sage_core.ranking.links import Titled, vouch_titled
from sage_core.ranking.neighbors import Links, vouch
from sage_core.ranking.passages import PassageRanker, RankedPassages
from sage_core.ranking.protocol import score_candidates
from sage_core.ranking.standing import Standing, asked_or_not, standing
from sage_core.selection.scales import ScaleName, ScoreReading, read_scores


class Retrieved(NamedTuple):
    """A node of a search, as it is ranked.

    Attributes:
        node: Its text, and where it stands.
        headed: The text with what a reranker reads before it.
        about: What names its document.
        links: Its neighbors among the others.
        id: Its id; None if it has none.
        score: What the search gave it; None if it gave nothing.
    """

    node: Node
    headed: str
    about: Titled
    links: Links = Links()
    id: str | None = None
    score: Any = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """The nodes of a question, in the order of the search.

    Examples:
        >>> text = "The ferry leaves at seven. " + "Bees need flowers all summer. " * 60
        >>> node = Retrieved(Node(text), text, Titled(text))
        >>> found = Candidates("When does it leave?", [node], PassageRanker())
        >>> cut = found.cut([0.5])
        >>> cut.passages[0].start, cut.passages[0].end < len(text)
        (0, True)

    Attributes:
        question: The question; "" if nobody asked one.
        nodes: What the search gave.
        ranker: Cuts and compares.
    """

    question: str
    nodes: Sequence[Retrieved]
    ranker: PassageRanker

    @property
    def unscored(self) -> bool:
        """Whether the search gave no scores: its order says which is best, not how good it is."""
        return all(n.score is None for n in self.nodes)

    def reading(self, scale: ScaleName, *, searched: bool) -> tuple[ScoreReading, bool]:
        """The search's scores, higher is better; and whether list and scores disagreed.

        Args:
            scale: What they are; if it is ``"auto"``, the evidence is asked which way they count.
            searched: They are of a search of our own: higher is better.
        """
        scores = [n.score for n in self.nodes]
        if searched or scale != "auto":
            return read_scores(scores, scale), False
        found: Standing = standing(scores, self._likeness if self.question.strip() else None)
        return read_scores(found.scores), found.overruled

    def _likeness(self, some: list[int]) -> list[float]:
        return self.ranker.likeness(self.question, [self._texts[i] for i in some])

    def standings(self, scores: Sequence[float | None], *, searched: bool) -> list[float | None]:
        """How the search saw each node, for a reranker: by its score, else by its place in the list."""
        # A list of somebody else's lacks the scores of what it did not ask; ours, of what was too far away.
        return scores_or_order(scores if searched else asked_or_not(scores), lambda: self._links)

    def cut(self, standings: Sequence[float | None] | None) -> RankedPassages | None:
        """The passages of the nodes that stand best; None if all nodes are short."""
        ranker = self.ranker
        if not ranker.cuts(self.question, self._texts):
            return None
        headed = [n.headed for n in self.nodes]
        scores = score_candidates(ranker.reranker, self.question, self._texts, standings, headed=headed)
        priors = self.vouched(ScoreReading([*scores], "probability"))
        return ranker.rank(self.question, [n.node for n in self.nodes], priors)

    def offset(self, node: int) -> int | None:
        """Where a node starts in its document, if that is proven."""
        place = self.nodes[node].node.place
        return None if place is None else place.start

    def vouched(self, read: ScoreReading, cut: RankedPassages | None = None) -> list[float | None]:
        """A reranker's scores, of nodes or of ``cut``, after those beside them and those that name them."""
        scores = vouch(read.scores, self._links if cut is None else cut.links, read.scale)
        # After the neighbors: what they lift may be what names another document.
        about = [n.about for n in self.nodes]
        if cut is not None:
            # What a node's first passage says of the document, others of the node say, too.
            told = {n: about[n]._replace(told=about[n].names) for n in {p.node for p in cut.passages}}
            about = [
                told[n]._replace(text=about[n].text[start:end], first=about[n].first and start == 0)
                for n, start, end, *_ in cut.passages
            ]
        return vouch_titled(self.question, about, scores, read.scale) if self.question else scores

    def distinct(self, scores: Sequence[float | None]) -> list[int]:
        """Positions of the nodes without repetitions, of which the best stays."""
        return distinct(self._texts, [n.id for n in self.nodes], scores)

    @property
    def _texts(self) -> list[str]:
        return [n.node.text for n in self.nodes]

    @property
    def _links(self) -> list[Links]:
        return [n.links for n in self.nodes]
