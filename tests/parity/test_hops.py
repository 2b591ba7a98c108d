"""Further searches for what the critic says is missing, alike in both frameworks."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever as ChainRetriever
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_core.feedback import FeedbackResult
from sage_langchain import SageCompressor, SageRetriever, create_sage_chain
from sage_llamaindex import SageNodePostprocessor, SageQueryEngine, feedback_of
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM
from tests.fakes.models import WordReranker

QUESTION = "Where was the owner of the Petrel born?"
MISSING = "Where was Mara Holt born?"
# What a search gives: the passage with the birth only where its person is named.
FIRST = ["The Petrel was a schooner of Mara Holt.", "Bees fly.", "Tea grows."]
SECOND = ["Mara Holt was born in Brenn.", FIRST[0]]
VERDICTS = [
    json.dumps({"reason": "her birth is missing", "score": 4, "adjust": 1, "passage": 1, "missing": MISSING}),
    json.dumps({"reason": "complete", "score": 10, "adjust": 0, "passage": 1, "missing": ""}),
]


# A critic that does not say what is missing, and candidates of which one names another.
MORE = [
    json.dumps({"reason": "not there", "score": 4, "adjust": 1, "passage": 1, "missing": ""}),
    VERDICTS[1],
]
NAMING = {
    "The owner of the Petrel, a schooner, was [Mara Holt](people/holt.md).": "petrel.md",
    "The Tern was born of another yard.": "tern.md",
    "Bees fly.": "bees.md",
    "She comes from Brenn.": "holt.md",
}


def found_for(query: str, naming: bool) -> dict[str, str]:
    """Texts, each with its file."""
    return NAMING if naming else dict.fromkeys(SECOND if query == MISSING else FIRST, "")


class Nodes(BaseRetriever):
    naming = False
    asked: int = 0

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.asked += 1
        return [
            NodeWithScore(node=TextNode(text=text, id_=text, metadata={"file_name": file} if file else {}))
            for text, file in found_for(query_bundle.query_str, self.naming).items()
        ]


class Documents(ChainRetriever):
    naming: bool = False
    asked: int = 0

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        self.asked += 1
        return [
            Document(page_content=text, metadata={"source": file} if file else {})
            for text, file in found_for(query, self.naming).items()
        ]


def llamaindex(
    hops: int, awaited: bool, *, verdicts: Sequence[str] = VERDICTS, naming: bool = False
) -> tuple[FeedbackResult, list[str], int]:
    llm = ScriptedLLM.of(["Of the Petrel.", "In Brenn."], verdicts)
    sage = SageNodePostprocessor(reranker=WordReranker(), links=False, min_k=1, max_k=4, rule="gradient")
    nodes = Nodes()
    nodes.naming = naming
    engine = SageQueryEngine.from_args(nodes, llm=llm, node_postprocessors=[sage], hops=hops)
    response = asyncio.run(engine.aquery(QUESTION)) if awaited else engine.query(QUESTION)
    found = feedback_of(response)
    assert found is not None and str(response) == found.answer
    assert all(('"missing"' in prompt) == (hops > 0) for prompt in llm.asked("critic"))
    return found, [node.text for node in response.source_nodes], nodes.asked


def langchain(
    hops: int, awaited: bool, *, verdicts: Sequence[str] = VERDICTS, naming: bool = False
) -> tuple[FeedbackResult, list[str], int]:
    llm = ScriptedChat(replies=["Of the Petrel.", verdicts[0], "In Brenn.", verdicts[1]])
    compressor = SageCompressor(reranker=WordReranker(), links=False, min_k=1, max_k=4, rule="gradient")
    documents = Documents(naming=naming)
    retriever = SageRetriever(base_retriever=documents, base_compressor=compressor)
    chain = create_sage_chain(llm, retriever, hops=hops)
    output = asyncio.run(chain.ainvoke({"input": QUESTION})) if awaited else chain.invoke({"input": QUESTION})
    result = FeedbackResult.from_dict(output["sage"])
    return result, [d.page_content for d in output["context"]], documents.asked


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("framework", [llamaindex, langchain])
def test_what_a_shown_passage_names_comes_before_another_search(framework: Any, awaited: bool) -> None:
    found, context, searches = framework(1, awaited, verdicts=MORE, naming=True)
    assert [r.searched for r in found.rounds] == ["", "holt.md"]
    assert {"She comes from Brenn.", next(iter(NAMING))} <= {*context}
    assert searches == 1 and found.rounds[1].selection.candidates == 4


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("framework", [llamaindex, langchain])
def test_the_next_round_has_what_was_missing_beside_what_was_shown(framework: Any, awaited: bool) -> None:
    found, context, _ = framework(1, awaited)
    assert found.answer == "In Brenn." and found.stop_reason == "accepted"
    assert [r.searched for r in found.rounds] == ["", MISSING]
    assert {SECOND[0], FIRST[0]} <= {*context} and len(context) == len({*context})
    assert found.rounds[1].selection.candidates == 4  # three, and one that is new


@pytest.mark.parametrize("framework", [llamaindex, langchain])
def test_without_hops_nothing_is_searched_for(framework: Any) -> None:
    found, *_ = framework(0, False)
    assert [r.searched for r in found.rounds] == [""] * len(found.rounds)
    assert all(r.selection.candidates == 3 for r in found.rounds)
