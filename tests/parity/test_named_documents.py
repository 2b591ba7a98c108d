"""Documents that candidates name are fetched, vouched for and told of, alike in both frameworks."""

import asyncio
from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sage_core.text.links import document_names
from sage_langchain import SageCompressor
from sage_langchain._passages import titled as langchain_titled
from sage_llamaindex import SageNodePostprocessor, SageRetriever
from sage_llamaindex._neighbors import titled as llamaindex_titled
from tests.fakes.searched import Documents, Nodes, Passage

QUESTION = "who owned the petrel"
HOLT = "Mara Holt (1820)"
BORN = "born near Ulm"
RULES = [Passage(f"who owned the boat number {i} the year", f"Rules {i}") for i in range(80)]
NAMED = [Passage("the petrel was owned by Mara Holt who sold it", "Petrel"), Passage(BORN, HOLT), *RULES]

STORES = pytest.mark.parametrize("make", [Nodes, Documents])


def found(store: Any, title: str = "", **settings: Any) -> list[str]:
    retriever = store.retriever(title, candidates=5, **settings)
    texts = [*store.found(retriever, QUESTION)]
    assert [*store.found(retriever, QUESTION, awaited=True)] == texts
    return texts


def said_by_tool(retriever: Any) -> str:
    if isinstance(retriever, SageRetriever):
        tool = retriever.as_tool("guide")
        text = str(tool.call(query=QUESTION))
        assert tool.metadata.name == "guide" and str(asyncio.run(tool.acall(query=QUESTION))) == text
        return text
    tool = retriever.as_tool(name="guide")
    call = {"type": "tool_call", "id": "1", "name": "guide", "args": {"query": QUESTION}}
    message = tool.invoke(call)
    assert tool.name == "guide" and asyncio.run(tool.ainvoke(call)).content == message.content
    assert message.artifact[0].page_content == NAMED[0].text
    return message.content


@STORES
def test_they_are_fetched_while_they_are_there(make: Any) -> None:
    store = make(NAMED)
    assert BORN in found(store, select=False)
    store.remove("1.md")
    assert BORN not in found(store, select=False)


@STORES
def test_a_filter_holds_for_them_too(make: Any) -> None:
    assert found(make(NAMED), "Petrel") == [NAMED[0].text]


@STORES
@pytest.mark.parametrize("only", ["", "Petrel"])
def test_a_tool_says_which_of_them_a_passage_names(make: Any, only: str) -> None:
    text = said_by_tool(make(NAMED).retriever(only, candidates=5))
    named = any(f"Mara Holt ({name})" in text for name in ("1.md", HOLT))  # LlamaIndex has no file to name
    assert text.startswith("[1] ") and named == (not only)


@STORES
@pytest.mark.parametrize(
    ("text", "titles", "reached"),
    [
        ("the petrel was owned by Mara Holt", ["Mara Holt"], True),
        ("the petrel was owned by 丸山花子 who sold it", ["丸山花子"], True),
        ("the petrel was owned by Mara Holt", ["Mara Holt"] * 60, False),
        ("the petrel was owned by word word word", ["word " * 500], False),
        ("the petrel was owned by [her](javascript:holt.f)", ["Mara Holt"], False),
        ("the petrel was owned by [her](gone.md)", ["Mara Holt"], False),
        ("the petrel was owned by nobody who knew the number", ["number"], False),
    ],
)
def test_names_that_say_something_and_those_that_do_not(
    make: Any, text: str, titles: list[str], reached: bool
) -> None:
    # Each of them names the first one, too: a circle.
    named = [Passage(f"{BORN} {i} in a Storm", title) for i, title in enumerate(titles)]
    store = make([Passage(text, "Storm"), *named, *RULES])
    born = [
        sum(text.startswith("born") for text in found(store, words=words, select=False))
        for words in ("auto", "off")
    ]
    assert (born[0] > born[1]) == reached


def ranked_nodes(named: list[Passage]) -> dict[str, float | None]:
    nodes = [
        NodeWithScore(node=TextNode(text=p.text, metadata={"title": p.title, "file_name": p.title}))
        for p in named
    ]
    ranking = SageNodePostprocessor().rerank(nodes, QueryBundle(QUESTION))
    return {n.text: n.score for n in ranking.nodes}


def ranked_documents(named: list[Passage]) -> dict[str, float | None]:
    documents = [Document(p.text, metadata={"title": p.title, "source": p.title}) for p in named]
    ranked = SageCompressor().rank(documents, QUESTION)
    return {d.page_content: d.metadata["relevance_score"] for d in ranked}


@pytest.mark.parametrize("ranked", [ranked_nodes, ranked_documents])
def test_who_names_a_document_vouches_for_it(ranked: Any) -> None:
    without = ranked([NAMED[0], Passage(BORN, "Somebody else"), *NAMED[2:6]])
    vouched = ranked(NAMED[:6])
    assert vouched[BORN] > without[BORN] and vouched[RULES[0].text] == pytest.approx(
        without[RULES[0].text], rel=0.01
    )


@pytest.mark.parametrize(
    "metadata",
    [
        {"title": "Mara Holt"},
        {"document_title": "Mara Holt", "file_name": "7.pdf"},
        {"source": "Mara Holt"},
        {"source": "people/Mara Holt.md"},
    ],
)
def test_metadata_that_name_a_document(metadata: dict[str, str]) -> None:
    for about in (
        llamaindex_titled(TextNode(text="Born.", metadata=metadata)),
        langchain_titled(Document("Born.", metadata=metadata)),
    ):
        assert "mara holt" in document_names(about.title, about.source)
