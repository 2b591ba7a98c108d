"""Documents that candidates name are fetched, vouched for and told of, alike in both frameworks."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from sage_langchain import SageCompressor
from sage_langchain import SageRetriever as ChainRetriever
from sage_llamaindex import SageNodePostprocessor, SageRetriever
from tests.fakes.langchain import WordEmbeddings
from tests.fakes.llamaindex import HashEmbedding

QUESTION = "who owned the petrel"
HOLT = "Mara Holt (1820)"
BORN = "born near Ulm"
RULES = [(f"Rules {i}", f"who owned the boat number {i} the year") for i in range(80)]
NAMED = [("Petrel", "the petrel was owned by Mara Holt who sold it"), (HOLT, BORN), *RULES]


class Door(NamedTuple):
    """A retriever over passages with titles, each of a document of its own: ``0.md``, ``1.md`` and so on."""

    find: Callable[[], list[str]]
    tool: Callable[[], str]
    remove: Callable[[str], object]


def llamaindex(passages: list[tuple[str, str]], only: str = "", **settings: Any) -> Door:
    nodes = [TextNode(text=text, metadata={"title": title}) for title, text in passages]
    for i, node in enumerate(nodes):
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"{i}.md")
    index = VectorStoreIndex(nodes, embed_model=HashEmbedding())
    filters = MetadataFilters(filters=[MetadataFilter(key="title", value=only)])
    args = {"filters": filters} if only else {}
    retriever = SageRetriever.from_index(index, candidates=5, retriever_args=args, **settings)

    def find() -> list[str]:
        found = [n.text for n in retriever.retrieve(QUESTION)]
        assert [n.text for n in asyncio.run(retriever.aretrieve(QUESTION))] == found
        return found

    def tool() -> str:
        made = retriever.as_tool("guide")
        text = str(made.call(query=QUESTION))
        assert made.metadata.name == "guide" and str(asyncio.run(made.acall(query=QUESTION))) == text
        return text

    return Door(find, tool, lambda name: index.delete_ref_doc(name, delete_from_docstore=True))


def langchain(passages: list[tuple[str, str]], only: str = "", **settings: Any) -> Door:
    store = InMemoryVectorStore(WordEmbeddings())
    names = [f"{i}.md" for i in range(len(passages))]
    documents = [
        Document(text, metadata={"title": title, "source": name})
        for name, (title, text) in zip(names, passages, strict=True)
    ]
    store.add_documents(documents, ids=names)
    search = {"filter": lambda document: document.metadata["title"] == only} if only else {}
    retriever = ChainRetriever.from_vectorstore(store, candidates=5, search_kwargs=search, **settings)

    def find() -> list[str]:
        found = [d.page_content for d in retriever.invoke(QUESTION)]
        assert [d.page_content for d in asyncio.run(retriever.ainvoke(QUESTION))] == found
        return found

    def tool() -> str:
        made = retriever.as_tool(name="guide")
        call = {"type": "tool_call", "id": "1", "name": "guide", "args": {"query": QUESTION}}
        message = made.invoke(call)
        assert made.name == "guide" and asyncio.run(made.ainvoke(call)).content == message.content
        assert message.artifact[0].page_content == NAMED[0][1]
        return message.content

    return Door(find, tool, lambda name: store.delete([name]))


DOORS = pytest.mark.parametrize("door", [llamaindex, langchain])


@DOORS
@pytest.mark.parametrize("links", [True, False])
def test_they_are_fetched(door: Any, links: bool) -> None:
    assert (BORN in door(NAMED, links=links, select=False).find()) == links


@DOORS
def test_a_filter_holds_for_them_too(door: Any) -> None:
    assert door(NAMED, only="Petrel").find() == [NAMED[0][1]]


@DOORS
@pytest.mark.parametrize("only", ["", "Petrel"])
def test_a_tool_says_which_of_them_a_passage_names(door: Any, only: str) -> None:
    text = door(NAMED, only=only).tool()
    named = any(f"Mara Holt ({name})" in text for name in ("1.md", HOLT))  # LlamaIndex has no file to name
    assert text.startswith("[1] ") and named == (not only)


@DOORS
def test_one_that_goes_is_named_no_more(door: Any) -> None:
    found = door(NAMED, select=False)
    assert BORN in found.find()
    found.remove("1.md")
    assert BORN not in found.find()


@DOORS
@pytest.mark.parametrize(
    ("text", "titles", "reached"),
    [
        ("the petrel was owned by Mara Holt", ["Mara Holt"], True),
        ("the petrel was owned by Мара Хольт", ["Мара Хольт"], True),
        ("the petrel was owned by 丸山花子 who sold it", ["丸山花子"], True),
        ("the petrel was owned by Mara Holt", ["Mara Holt"] * 5, True),
        ("the petrel was owned by Mara Holt", ["Mara Holt"] * 60, False),
        ("the petrel was owned by word word word", ["word " * 500], False),
        ("the petrel was owned by [her](javascript:holt.f)", ["Mara Holt"], False),
        ("the petrel was owned by [her](gone.md)", ["Mara Holt"], False),
        ("the petrel was owned by nobody who knew the number", ["number"], False),
    ],
)
def test_names_that_say_something_and_those_that_do_not(
    door: Any, text: str, titles: list[str], reached: bool
) -> None:
    # Each of them names the first one, too: a circle.
    named = [(title, f"{BORN} {i} in a Storm") for i, title in enumerate(titles)]
    found = {
        links: door([("Storm", text), *named, *RULES], links=links, select=False).find()
        for links in (True, False)
    }
    born = {links: [t for t in texts if t.startswith("born")] for links, texts in found.items()}
    assert (len(born[True]) > len(born[False])) == reached
    assert len(found[True]) == len({*found[True]}), "nobody comes twice"


def ranked_nodes(**settings: Any) -> dict[str, float | None]:
    nodes = [
        NodeWithScore(node=TextNode(text=text, id_=title, metadata={"title": title, "file_name": title}))
        for title, text in NAMED[:6]
    ]
    ranking = SageNodePostprocessor(**settings).rank(nodes, QueryBundle(QUESTION))
    return {n.node.node_id: n.score for n in ranking.nodes}


def ranked_documents(**settings: Any) -> dict[str, float | None]:
    documents = [Document(text, metadata={"title": title, "source": title}) for title, text in NAMED[:6]]
    ranked = SageCompressor(**settings).rank(documents, QUESTION)
    return {d.metadata["title"]: d.metadata["relevance_score"] for d in ranked}


@pytest.mark.parametrize("ranked", [ranked_nodes, ranked_documents])
def test_who_names_a_document_vouches_for_it(ranked: Any) -> None:
    without, vouched = ranked(links=False), ranked()
    assert vouched[HOLT] > without[HOLT] and vouched["Rules 0"] == without["Rules 0"]
