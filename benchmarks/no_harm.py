"""Does adding us lose what plain search has? And what would ``empty_below`` end?

    python benchmarks/no_harm.py --questions 250 --forms 60

Every question of eight development sets is asked of `sage_langchain.SageRetriever`, defaults, over our chunks
in the bundled embedding model: as it is, and in other forms. One of them names somebody whom no text names.

- "nothing": questions of which nothing is sent.
- "evidence", "tokens": share of the evidence that is sent, and in how many tokens.
- "lost": questions whose evidence is whole in the best passage of plain search, and not in what is sent.
- "ended": questions that ``empty_below="auto"`` would end.
- "of others, ended": the same of questions that the documents do not answer. Of ClapNQ they are its own
  unanswerable ones, whose article is there; elsewhere the question's document is hidden, or another one is
  searched in its place.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from development_sets import DATA, _read
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from sage_core.selection.rules import EMPTY_BELOW
from sage_core.text.tokens import get_counter
from sage_langchain import MiniLMEmbeddings, SageCompressor, SageRetriever, SageTextSplitter

LONGEST = 60_000
SEPARATE = ("covidqa", "fairytaleqa", "cuad_leval")
"""Sets whose questions are asked of one document; of the others all are searched."""
SETS = ("clapnq_dev", "squad2_dev16", "xquad_en", "onestopqa", "hotpot_pool", *SEPARATE)
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "names somebody": lambda q: f"What does President Vandermeer say: {q}",
    "request": lambda q: f"Summarize what the documents say about this: {q}",
    "courtesy": lambda q: f"Hello! I hope you are well. {q} Thank you so much in advance!",
}
COUNTER = get_counter("bert")


class Asked(NamedTuple):
    """What became of a question."""

    best: float
    sent: int
    tokens: int
    evidence: float
    lost: bool


class Searched:
    """A development set in a store."""

    def __init__(self, name: str, most: int, seed: int) -> None:
        rng = random.Random(seed)
        documents = [d for d in _read(f"{name}_docs") if len(d["text"]) <= LONGEST]
        known = {d["doc_id"] for d in documents}
        rows = [q for q in _read(f"{name}_questions") if q["evidence"]]
        rows = [q for q in rows if {self._own(q)} <= known]
        if name in SEPARATE:
            about = sorted({self._own(q) for q in rows})
            chosen = {*rng.sample(about, min(16, len(about)))}
            rows = [q for q in rows if self._own(q) in chosen]
            documents = [d for d in documents if d["doc_id"] in chosen]
        self.rows = rng.sample(rows, min(most, len(rows)))
        if name == "hotpot_pool":  # the paragraphs of these questions and as many others
            needed = {part["doc_id"] for q in self.rows for part in q["evidence"]}
            others = rng.sample(sorted(known - needed), min(len(known - needed), 1_000))
            documents = [d for d in documents if d["doc_id"] in needed.union(others)]
        self.others = _read("clapnq_unanswerable")[:most] if name == "clapnq_dev" else []
        documents += [{"doc_id": q["qid"], "title": q["title"], "text": q["passage"]} for q in self.others]
        self.name, self.ids = name, [d["doc_id"] for d in documents]
        pieces = SageTextSplitter(add_start_index=True).split_documents(
            [
                Document(d["text"], metadata={"source": d["doc_id"], "title": d["title"] or ""})
                for d in documents
            ]
        )
        self.store = InMemoryVectorStore.from_documents(pieces, MiniLMEmbeddings())
        self.retriever, self.compressor = SageRetriever.from_vectorstore(self.store), SageCompressor()

    @staticmethod
    def _own(row: dict[str, Any]) -> str:
        own: str = row.get("doc_id") or row["evidence"][0]["doc_id"]
        return own

    def ask(self, row: dict[str, Any], form: str, *, moved: bool = False) -> Asked:
        """Ask a question; ``moved``: of documents that do not answer it."""
        question, own = FORMS[form](row["question"]), self._own(row)
        shown: Callable[[Document], bool] | None = None
        if self.name in SEPARATE:
            place = self.ids.index(own) + moved
            only = self.ids[place % len(self.ids)]
            shown = lambda d: d.metadata["source"] == only  # noqa: E731
        elif moved:
            hidden = {own, *(part.get("doc_id") for part in row["evidence"])}
            shown = lambda d: d.metadata["source"] not in hidden  # noqa: E731
        limits = {} if shown is None else {"filter": shown}
        found = self.retriever.invoke(question, select=False, **limits)
        sent = self.compressor.keep(found)
        plain = self.store.similarity_search(question, 1, filter=shown)
        best = max((d.metadata["relevance_score"] for d in found), default=0.0)
        tokens, share = sum(COUNTER.count_many([d.page_content for d in sent])), self._share(row, sent)
        return Asked(best, len(sent), tokens, share, share < 1 and self._share(row, plain) == 1)

    def ask_other(self, row: dict[str, Any]) -> float:
        """The best probability for a question that comes without evidence."""
        found = self.retriever.invoke(row["question"], select=False)
        return max(d.metadata["relevance_score"] for d in found)

    def _share(self, row: dict[str, Any], sent: Sequence[Document]) -> float:
        """Share of the characters of the evidence that stand in these passages."""
        total = held = 0
        for part in row["evidence"]:
            source = part.get("doc_id") or row["doc_id"]
            # White space between chunks is in none of them.
            wanted = {part["start"] + i for i, c in enumerate(part["text"]) if not c.isspace()}
            total += len(wanted)
            held += len(wanted)
            for d in sent:
                if d.metadata["source"] == source:
                    start = d.metadata["start_index"]
                    wanted -= set(range(start, start + len(d.page_content)))
            held -= len(wanted)
        return held / total


def main() -> None:
    """Ask, and print a row for each set and form."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=250, help="most of each set, as they are")
    parser.add_argument("--forms", type=int, default=60, help="most of each set in every other form")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if not DATA.is_dir():
        parser.error(f"no {DATA}: set SAGE_DATA to the folder that holds dev/")
    print("| set | form | questions | nothing | evidence | tokens | lost | ended | of others, ended |")
    print("|---" * 9 + "|")
    for name in arguments.sets:
        searched = Searched(name, arguments.questions, arguments.seed)
        for form in FORMS:
            plain = form == "as it is"
            rows = searched.rows[: None if plain else arguments.forms]
            asked = [searched.ask(row, form) for row in rows]
            others: list[float] = []
            if plain and name == "clapnq_dev":
                others = [searched.ask_other(row) for row in searched.others]
            elif plain and name != "cuad_leval":  # its clauses stand in other contracts too
                others = [searched.ask(row, form, moved=True).best for row in rows]
            n = len(asked)
            ended = f"{sum(p < EMPTY_BELOW for p in others)} of {len(others)}" if others else ""
            print(
                f"| {name} | {form} | {n} | {sum(not a.sent for a in asked)} "
                f"| {sum(a.evidence for a in asked) / n:.1%} | {sum(a.tokens for a in asked) / n:.0f} "
                f"| {sum(a.lost for a in asked)} | {sum(a.best < EMPTY_BELOW for a in asked)} | {ended} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
