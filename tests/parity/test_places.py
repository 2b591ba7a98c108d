"""What an LLM is told of where passages are from: the same in `Sage` and both frameworks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document as LlamaIndexDocument
from llama_index.core import VectorStoreIndex
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
)
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from sage_app import Sage, SageConfig
from sage_app.answers import LLMAnswerer
from sage_app.models import OpenAIChat
from sage_core.feedback import FeedbackConfig
from sage_core.segmentation import Segmenter
from sage_core.selection import SelectionConfig
from sage_core.text.outline import header_of, passage_header, source_names
from sage_langchain import (
    MiniLMEmbeddings,
    SageCompressor,
    SageRetriever,
    SageTextSplitter,
    create_sage_chain,
)
from sage_llamaindex import MiniLMEmbedding, SageNodeParser, SageQueryEngine
from sage_llamaindex import SageRetriever as NodeRetriever
from sage_llamaindex._neighbors import show_places
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM
from tests.fakes.llm_server import LLMServer, Request
from tests.fakes.models import WordReranker, grade
from tests.fakes.sages import loop_config
from tests.parity.asking import Given

LEASES = [
    ("The rent is due monthly.", {"title": "Lease", "header_path": "/Rent/", "source": "a/east.pdf"}),
    ("The rent is due weekly.", {"title": "Lease", "header_path": "/Rent/", "source": "a/west.pdf"}),
    ("All rent is public.", {"title": "Rules", "header_path": "/", "source": "a/rules.pdf"}),
]
HIDDEN = ["title", "header_path", "source"]


def leases() -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(text=text, id_=str(i), metadata=metadata, excluded_llm_metadata_keys=HIDDEN),
            score=0.9,
        )
        for i, (text, metadata) in enumerate(LEASES)
    ]


NODES = leases()


def test_sources_are_named_where_titles_do_not_tell() -> None:
    assert source_names([("A", "x/1.md"), ("B", "x/2.md")]) == {}
    assert source_names([("A", "x/1.md"), ("a", "y/1.md")]) == {"x/1.md": "x/1.md", "y/1.md": "y/1.md"}
    assert source_names([(None, "x/1.md"), (None, "x/1.md")]) == {}
    assert source_names([(None, "x/1.md"), (None, "https://x/b")]) == {"x/1.md": "1.md", "https://x/b": "b"}
    assert source_names([]) == {}


def test_a_passage_without_anything_known_has_no_header() -> None:
    assert passage_header(header_of("Text.", {})) == ""
    assert passage_header(header_of("Text.", {}), "a.md") == "a.md"
    assert passage_header(header_of("## Rent\n\nText.", {"header_path": "/Rent/"})) == ""


def over_documents(llm: Any, **settings: Any) -> Any:
    """A chain over the leases."""
    documents = [Document(text, metadata=metadata) for text, metadata in LEASES]
    ours = SageCompressor(reranker=WordReranker())
    retriever = SageRetriever(base_retriever=lambda _: documents, base_compressor=ours)
    return create_sage_chain(llm, retriever, **settings)


DUE = "When is the rent of the east lease due?"


def test_both_llms_see_where_passages_are_from() -> None:
    llm = ScriptedLLM.of(["It is due monthly."])
    response = SageQueryEngine.from_args(Given(NODES), llm=llm).query(DUE)
    assert all(n.node.excluded_llm_metadata_keys == HIDDEN for n in NODES), "the caller's nodes stay"
    assert {n.node.text: n.node.metadata for n in response.source_nodes} == dict(LEASES)
    chat, critic = (ScriptedChat(replies=[reply]) for reply in ("It is due monthly.", grade(9)))
    output = over_documents(chat, critic=critic).invoke(DUE)
    assert {d.page_content for d in output["context"]} == {text for text, _ in LEASES}
    for prompts, shown in (
        (
            (llm.asked("answer")[0], llm.asked("critic")[0]),
            ("title: Lease", "header_path: /Rent/", "east.pdf", "west.pdf"),
        ),
        (
            (str(chat.seen[0]), str(critic.seen[0])),
            ("Lease > Rent (east.pdf)", "Lease > Rent (west.pdf)", "Rules"),
        ),
    ):
        for prompt in prompts:
            assert all(place in prompt for place in shown) and "rules.pdf" not in prompt


def test_nodes_that_show_all_of_it_are_left_alone() -> None:
    plain = [NodeWithScore(node=TextNode(text="Text.", metadata={"title": "A"}), score=None)]
    assert show_places(plain)[0] is plain[0]
    [shown, *_] = show_places(leases())
    assert shown.node.get_content(MetadataMode.LLM).endswith("The rent is due monthly.")
    assert shown.node.hash == leases()[0].node.hash


def test_the_llm_of_sage_sees_where_passages_are_from(tmp_path: Path) -> None:
    for name, when in (("east.md", "monthly"), ("west.md", "weekly")):
        (tmp_path / name).write_text(f"# Lease\n\n## Rent\n\nThe rent is due {when}.\n\nIt is paid in coins.")

    def script(request: Request) -> str:
        return '{"score": 9, "adjust": 0, "passage": 1}' if request.is_critic else "It is due monthly."

    with LLMServer(script) as server:
        chat = OpenAIChat("test", base_url=server.base_url, api_key="sk-test")
        config = SageConfig()
        with Sage(tmp_path / "store", answerer=LLMAnswerer(chat), config=config) as sage:
            sage.ingest([tmp_path / "east.md", tmp_path / "west.md"])
            answer = sage.ask(DUE)
        prompts = [*server.answer_requests, *server.critic_requests]
    assert len(prompts) == 2
    for request in prompts:
        assert "(east.md)" in request.user and "(west.md)" in request.user
    found = answer.retrieval
    assert all(c.place and c.tokens_in_prompt > c.tokens for c in found.hits)
    whole = {c.chunk.source: Path(c.chunk.source).read_text() for c in found.hits}
    for c in found.hits:
        assert whole[c.chunk.source][c.chunk.start : c.chunk.end] == c.chunk.text
    assert any(mark.evidence is not None for mark in answer.marks()), "marks point into the bare text"
    limit = max(c.tokens for c in found.hits) + 1
    bounded = replace(config, feedback=loop_config(max_context_tokens=limit))
    with Sage(tmp_path / "store", config=bounded) as sage:
        assert sage.retrieve(found.question).selection.cut == 1, "the place counts"


ROWS = "\n".join(
    f"| Farm {i} | {20 + i}.00 | Berth {i} is beside the crane of the north pier |" for i in range(40)
)
TABLE = f"# Fees\n\n| Farm | Dues in crowns | Where |\n|---|---|---|\n{ROWS}\n"


WHERE = "Where is Berth 31 of Farm 31?"
ABOVE = "Farm | Dues in crowns | Where"
"""Said in the table's head alone."""

ONE = SelectionConfig(max_k=1, min_k=1)


@pytest.mark.parametrize(
    "door",
    [
        lambda retriever, llm: RetrieverQueryEngine.from_args(retriever, llm=llm).query,
        lambda retriever, llm: CondensePlusContextChatEngine.from_defaults(retriever, llm=llm).chat,
    ],
    ids=["query engine", "chat engine"],
)
def test_llamaindex_sends_what_a_passage_goes_on_with(door: Any) -> None:
    parser = SageNodeParser(segmenter=Segmenter(max_tokens=100))
    nodes = parser.get_nodes_from_documents([LlamaIndexDocument(text=TABLE)])
    index, llm = VectorStoreIndex(nodes, embed_model=MiniLMEmbedding()), ScriptedLLM.of(["Seven."])
    [sent] = door(NodeRetriever.from_index(index, selection=ONE), llm)(WHERE).source_nodes
    assert ABOVE not in sent.text and ABOVE in llm.asked("answer")[-1]
    assert TABLE[sent.node.start_char_idx : sent.node.end_char_idx] == sent.text


@pytest.mark.parametrize("door", ["LCEL", "SageChain"])
def test_langchain_sends_what_a_passage_goes_on_with(door: str) -> None:
    pieces = SageTextSplitter(chunk_size=400, add_start_index=True).create_documents([TABLE])
    store = InMemoryVectorStore.from_documents(pieces, MiniLMEmbeddings())
    retriever = SageRetriever.from_vectorstore(store, selection=ONE)
    llm, prompt = ScriptedChat(replies=["Seven."]), ChatPromptTemplate.from_template("{context}\n\n{input}")
    if door == "LCEL":
        chain: Any = {"context": retriever | format_docs, "input": RunnablePassthrough()} | prompt | llm
        chain.invoke(WHERE)
    else:
        create_sage_chain(llm, retriever, loop=FeedbackConfig(max_calls=1)).invoke(WHERE)
    assert str(llm.seen[0]).count(ABOVE) == 1
    [sent] = retriever.invoke(WHERE)
    assert ABOVE not in sent.page_content
    assert TABLE[sent.metadata["start_index"] :].startswith(sent.page_content)


def format_docs(documents: list[Document]) -> str:
    """As LangChain's tutorials have it, with the headings."""
    return "\n\n".join(f"{d.metadata.get('header_path', '')}\n{d.page_content}" for d in documents)
