"""Long nodes are sent as passages, at every door: exact slices, each once, safe behind us."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import Document as LlamaDocument
from llama_index.core import VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import (
    IndexNode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from sage_core.selection import SelectionConfig
from sage_core.text.tokens import get_counter
from sage_langchain import SageCompressor, create_sage_chain
from sage_langchain import SageRetriever as LangChainRetriever
from sage_llamaindex import MiniLMEmbedding, SageNodePostprocessor, SageQueryEngine
from sage_llamaindex import SageRetriever as LlamaIndexRetriever
from tests.core.test_passages import SENTENCES
from tests.fakes.langchain import ScriptedChat, WordEmbeddings
from tests.fakes.llamaindex import ScriptedLLM, grade

QUESTION = "How many boats may moor at the Salt Jetty in winter?"
ANSWER = "In winter at most eleven boats may moor at the Salt Jetty."
TEXT = "\n\n".join(
    f"## Part {n}\n\n" + " ".join(f"{sentence} So it was in year {n}." for sentence in SENTENCES)
    for n in range(1, 7)
).replace("So it was in year 4. The ferry of the north quay", f"{ANSWER} The ferry of the north quay")
assert TEXT.count(ANSWER) == 1

Sent = list[tuple[str, str | None, int | None]]
"""Text, id and place of what is sent."""


def nodes() -> list[Any]:
    document = LlamaDocument(text=TEXT, doc_id="d", metadata={"title": "Harbor"})
    return SentenceSplitter(chunk_size=400, chunk_overlap=60).get_nodes_from_documents([document])


def documents() -> list[Document]:
    splitter = RecursiveCharacterTextSplitter(chunk_size=1_600, chunk_overlap=250, add_start_index=True)
    made = splitter.split_documents([Document(TEXT, metadata={"source": "d", "title": "Harbor"})])
    return [Document(d.page_content, id=str(i), metadata=d.metadata) for i, d in enumerate(made)]


def of_nodes(found: list[NodeWithScore]) -> Sent:
    return [(n.node.text, n.node.node_id, n.node.start_char_idx) for n in found]


def of_documents(found: list[Document]) -> Sent:
    return [(d.page_content, d.id, d.metadata.get("start_index")) for d in found]


def index() -> VectorStoreIndex:
    return VectorStoreIndex(nodes(), embed_model=MiniLMEmbedding())


def store() -> InMemoryVectorStore:
    made = InMemoryVectorStore(WordEmbeddings())
    made.add_documents(documents())
    return made


def in_list() -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=1 / (1 + i)) for i, node in enumerate(nodes())]


def engine(**settings: Any) -> SageQueryEngine:
    llm = ScriptedLLM.of([ANSWER], [grade(9, 0)])
    return SageQueryEngine.from_args(LlamaIndexRetriever.from_index(index(), **settings), llm=llm)


def chain(**settings: Any) -> Any:
    retriever = LangChainRetriever.from_vectorstore(store(), **settings)
    return create_sage_chain(ScriptedChat(replies=[ANSWER, grade(9, 0)]), retriever, critic_method="prompt")


DOORS: dict[str, Callable[..., Sent]] = {
    "retriever, LlamaIndex": lambda **s: of_nodes(
        LlamaIndexRetriever.from_index(index(), **s).retrieve(QUESTION)
    ),
    "retriever, LlamaIndex, awaited": lambda **s: of_nodes(
        asyncio.run(LlamaIndexRetriever.from_index(index(), **s).aretrieve(QUESTION))
    ),
    "postprocessor": lambda **s: of_nodes(
        SageNodePostprocessor(**s).postprocess_nodes(in_list(), query_str=QUESTION)
    ),
    "engine": lambda **s: of_nodes(engine(**s).query(QUESTION).source_nodes),
    "retriever, LangChain": lambda **s: of_documents(
        LangChainRetriever.from_vectorstore(store(), **s).invoke(QUESTION)
    ),
    "compressor": lambda **s: of_documents(SageCompressor(**s).compress_documents(documents(), QUESTION)),
    "compressor, awaited": lambda **s: of_documents(
        asyncio.run(SageCompressor(**s).acompress_documents(documents(), QUESTION))
    ),
    "chain": lambda **s: of_documents(chain(**s).invoke(QUESTION)["context"]),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_passages_are_sent_in_the_place_of_nodes(door: Callable[..., Sent]) -> None:
    sent = door()
    assert any(ANSWER in text for text, _, _ in sent)
    assert all(text in TEXT for text, _, _ in sent), "exact slices"
    assert all(start is not None and TEXT[start : start + len(text)] == text for text, _, start in sent)
    covered = sorted((start or 0, (start or 0) + len(text)) for text, _, start in sent)
    assert all(a[1] <= b[0] for a, b in pairwise(covered)), "nothing is sent twice"
    assert len({own for _, own, _ in sent}) == len(sent)
    assert sum(get_counter("bert").count_many([text for text, _, _ in sent])) <= 500


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_whole_nodes_are_sent_if_asked_for(door: Callable[..., Sent]) -> None:
    whole = {node.text for node in nodes()} | {d.page_content for d in documents()}
    sent = {text for text, _, _ in door(passages="off")}
    assert sent and sent <= whole


@pytest.mark.parametrize("k", [1, 3])
def test_a_caller_who_asks_for_so_many_gets_so_many(k: int) -> None:
    retriever = LangChainRetriever.from_vectorstore(store())
    assert len(retriever.invoke(QUESTION, k=k)) == k


def test_passages_that_touch_are_one() -> None:
    many = SelectionConfig(min_context_tokens=450)
    sent = SageNodePostprocessor(selection=many).postprocess_nodes(in_list(), query_str=QUESTION)
    places = sorted(
        (n.node.metadata.get("node_id"), n.node.start_char_idx, n.node.end_char_idx) for n in sent
    )
    for (node, _, end), (other, start, _) in pairwise(places):
        assert node != other or TEXT[end:start].strip()


def test_a_passage_is_safe_behind_us() -> None:
    given = in_list()
    for found in given:
        found.node.relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id="whole")
        found.node.metadata["window"] = TEXT
    before = [found.node.model_dump_json() for found in given]
    sent = SageNodePostprocessor().postprocess_nodes(given, query_str=QUESTION)
    assert [found.node.model_dump_json() for found in given] == before
    for found in sent:
        node, parent = found.node, found.node.metadata["node_id"]
        assert set(node.relationships) == {NodeRelationship.SOURCE} and node.embedding is None
        assert "window" not in node.metadata and parent in {n.node.node_id for n in given}
        assert "node_id" in node.excluded_llm_metadata_keys and "node_id" in node.excluded_embed_metadata_keys
        assert node.start_char_idx is None, "children count in their parent"
        assert json.loads(node.to_json())["class_name"] == "TextNode"


def test_the_same_passage_has_the_same_id_for_other_questions() -> None:
    retriever = LlamaIndexRetriever.from_index(index())
    cuts = {n.node.node_id: n.node.text for n in retriever.retrieve(QUESTION)}
    for question in ("Who may moor at the jetty?", "What is free for children?"):
        for found in retriever.retrieve(question):
            assert cuts.setdefault(found.node.node_id, found.node.text) == found.node.text


def test_fusion_keeps_every_passage() -> None:
    retriever = LlamaIndexRetriever.from_index(index())
    fused = QueryFusionRetriever(
        [retriever, retriever],
        llm=ScriptedLLM.of([], []),
        num_queries=1,
        similarity_top_k=20,
        use_async=False,
    )
    assert {n.node.node_id for n in fused.retrieve(QUESTION)} == {
        n.node.node_id for n in retriever.retrieve(QUESTION)
    }


@pytest.mark.parametrize("text", [TEXT, ""])
def test_nodes_that_lead_elsewhere_stay_whole(text: str) -> None:
    leads = IndexNode(text=text, index_id="other")
    given = [NodeWithScore(node=leads, score=0.9), *in_list()]
    ranked = SageNodePostprocessor().rank(given, QueryBundle(QUESTION)).nodes
    assert len(ranked) > len(given), "the others are cut"
    assert [n.node.text for n in ranked if isinstance(n.node, IndexNode)] == [text]


def test_short_nodes_are_the_caller_s_own() -> None:
    short = TextNode(text=ANSWER)
    sent = SageNodePostprocessor().postprocess_nodes(
        [NodeWithScore(node=short, score=0.5), *in_list()], query_str=QUESTION
    )
    assert any(n.node.node_id == short.node_id and n.node.text == ANSWER for n in sent)


@pytest.mark.parametrize("select", [True, False])
def test_documents_are_saved_as_any_other(select: bool) -> None:
    found = LangChainRetriever.from_vectorstore(store()).invoke(QUESTION, select=select)
    assert json.loads(json.dumps([d.metadata for d in found])) == [d.metadata for d in found]
    assert [d.page_content for d in loads(dumps(found), allowed_objects="core")] == [
        d.page_content for d in found
    ]


def test_the_engine_is_sent_what_it_shows() -> None:
    asked = LlamaIndexRetriever.from_index(index())
    llm = ScriptedLLM.of([ANSWER], [grade(9, 0)])
    response = SageQueryEngine.from_args(asked, llm=llm).query(QUESTION)
    assert str(response) == ANSWER and any(ANSWER in n.node.text for n in response.source_nodes)
