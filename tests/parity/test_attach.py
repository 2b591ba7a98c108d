"""A verdict in three lines on what people have: chains, query engines, chat engines and agents."""

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableGenerator, RunnableLambda, RunnablePassthrough
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode

from sage_core.errors import InputError
from sage_core.feedback import Verdict
from sage_core.verify import check, correct_citations, mark_answer
from sage_langchain import SageGrounding
from sage_langchain.middleware import SageGroundingMiddleware
from sage_llamaindex import SageGroundedEngine, verdict_of
from tests.fakes.langchain import ScriptedChat
from tests.fakes.llamaindex import ScriptedLLM

QUESTION = "How long does the ferry take?"
TEXTS = ["Seals live in the harbor.", "The ferry leaves at seven and takes 40 minutes to the island."]
WRONG, RIGHT = "The ferry takes 55 minutes.", "The ferry takes 40 minutes to the island."


def expected(answer: str) -> Verdict:
    return check(QUESTION, TEXTS, answer)


class Even(BaseEmbedding):
    """Every text alike: all nodes are found, in order."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [1.0, 0.0]

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return [1.0, 0.0]


@pytest.fixture
def index() -> VectorStoreIndex:
    nodes = [TextNode(text=text, id_=str(i)) for i, text in enumerate(TEXTS)]
    return VectorStoreIndex(nodes, embed_model=Even())


@pytest.mark.parametrize("answer", [WRONG, RIGHT])
def test_a_chain_of_langchain(answer: str) -> None:
    found = [Document(text) for text in TEXTS]
    chain = (
        RunnablePassthrough.assign(context=lambda _: found)
        | RunnablePassthrough.assign(answer=lambda _: answer)
        | SageGrounding()
    )
    for output in (chain.invoke({"input": QUESTION}), asyncio.run(chain.ainvoke({"input": QUESTION}))):
        assert output["verdict"] == expected(answer) and output["answer"] == answer
    assert output["verdict"].accepted is (answer == RIGHT)
    pieces = list(chain.stream({"input": QUESTION}))
    assert "verdict" in pieces[-1] and pieces[-1]["verdict"] == output["verdict"]

    async def streamed() -> list[Any]:
        return [piece async for piece in chain.astream({"input": QUESTION})]

    assert asyncio.run(streamed())[-1]["verdict"] == output["verdict"]


def test_other_usual_keys_and_clear_errors() -> None:
    output = SageGrounding().invoke({"query": QUESTION, "result": WRONG, "source_documents": TEXTS})
    assert output["verdict"] == expected(WRONG)
    with pytest.raises(InputError, match="has text"):
        SageGrounding().invoke({"text": WRONG})


def test_a_stream_is_handed_on_piece_by_piece_before_the_verdict() -> None:
    def pieces(_: Any) -> Any:
        yield {"input": QUESTION}
        yield {"context": TEXTS}
        for word in WRONG.split(" "):
            yield {"answer": f"{word} "}

    out = list((RunnableGenerator(pieces) | SageGrounding()).stream("x"))
    assert [p["answer"] for p in out if "answer" in p] == [f"{word} " for word in WRONG.split(" ")]
    assert out[-1]["verdict"].marks[0].instead == "40 minutes"


@pytest.mark.parametrize("answer", [WRONG, RIGHT])
def test_query_engines(answer: str, index: VectorStoreIndex) -> None:
    def engine(**settings: Any) -> SageGroundedEngine:
        llm = ScriptedLLM.of([answer], [])
        stock = RetrieverQueryEngine.from_args(index.as_retriever(similarity_top_k=2), llm=llm, **settings)
        return SageGroundedEngine(stock)

    for response in (engine().query(QUESTION), asyncio.run(engine().aquery(QUESTION))):
        verdict = verdict_of(response)
        assert verdict is not None and verdict.accepted is (answer == RIGHT)
        texts = [n.node.get_content() for n in response.source_nodes]
        assert verdict == check(QUESTION, texts, answer)
        assert response.metadata["sage_verdict"] == verdict.to_dict()
    streamed: Any = engine(streaming=True).query(QUESTION)
    assert "".join(streamed.response_gen) == answer
    assert verdict_of(streamed).accepted is (answer == RIGHT)
    assert verdict_of(engine(streaming=True).query(QUESTION)).accepted is (answer == RIGHT), "read for it"

    async def whole() -> Any:
        response: Any = await engine(streaming=True).aquery(QUESTION)
        with pytest.raises(InputError, match="read the stream"):
            verdict_of(response)
        assert "".join([piece async for piece in response.async_response_gen()]) == answer
        return verdict_of(response)

    assert asyncio.run(whole()).accepted is (answer == RIGHT)


def test_an_engine_that_found_nothing_claims_nothing(index: VectorStoreIndex) -> None:
    nothing = SimilarityPostprocessor(similarity_cutoff=2.0)
    stock = RetrieverQueryEngine.from_args(
        index.as_retriever(), llm=ScriptedLLM.of([], []), node_postprocessors=[nothing]
    )
    response = SageGroundedEngine(stock).query(QUESTION)
    verdict = verdict_of(response)
    assert (str(response), verdict.accepted, verdict.marks) == ("Empty Response", False, ())
    assert verdict.score is None and not verdict.vetoed_by


@pytest.mark.parametrize("answer", [WRONG, RIGHT])
def test_chat_engines(answer: str, index: VectorStoreIndex) -> None:
    def engine() -> SageGroundedEngine:
        return SageGroundedEngine(
            index.as_chat_engine(chat_mode="context", llm=ScriptedLLM.of([answer], []), similarity_top_k=2)
        )

    for response in (engine().chat(QUESTION), asyncio.run(engine().achat(QUESTION))):
        assert str(response) == answer and verdict_of(response).accepted is (answer == RIGHT)
    own = engine()
    streamed = own.stream_chat(QUESTION)
    assert "".join(streamed.response_gen).strip() == answer
    assert verdict_of(streamed).accepted is (answer == RIGHT)
    assert len(own.chat_history) == 2
    own.reset()
    assert own.chat_history == []


def test_no_engine_is_refused() -> None:
    with pytest.raises(InputError, match="query engine or a chat engine"):
        SageGroundedEngine("engine")
    assert verdict_of(RetrieverQueryEngine) is None


@pytest.mark.parametrize("answer", [WRONG, RIGHT])
def test_agents(answer: str) -> None:
    agent = create_agent(ScriptedChat(replies=[answer]), [], middleware=[SageGroundingMiddleware()])
    call = {"name": "search", "args": {"query": "ferry"}, "id": "1"}
    asked = [HumanMessage(QUESTION), {"role": "assistant", "content": "", "tool_calls": [call]}]
    state = agent.invoke(
        {"messages": [*asked, ToolMessage("\n\n".join(TEXTS), tool_call_id="1", name="search")]}
    )
    noted = state["messages"][-1].additional_kwargs["sage_grounding"]["verdict"]
    assert noted == expected(answer).to_dict()


CITED = (
    "The ferry takes 40 minutes to the island [1]. Its captain is called Ann Lee [2]. Seals live there [1]."
)


def test_citations_are_renumbered_or_struck() -> None:
    marks = mark_answer(CITED, TEXTS)
    statements = [m for m in marks if m.text.strip()]
    assert [(m.cited, m.support, m.passage) for m in statements][:2] == [
        ((1,), "supported", 1), ((2,), "unsupported", statements[1].passage),
    ]  # fmt: skip
    text = correct_citations(marks)
    assert text.startswith(
        "The ferry takes 40 minutes to the island [2]. Its captain is called Ann Lee. [not in"
    )
    assert "".join(m.text for m in marks) == CITED, "the marks are of the answer as it was written"
    output = SageGrounding(correct=True).invoke({"answer": CITED, "context": TEXTS})
    assert (
        output["answer"] == text
        and SageGrounding().invoke({"answer": CITED, "context": TEXTS})["answer"] == CITED
    )


def test_a_citation_of_the_same_sentence_elsewhere_is_right() -> None:
    twice = [TEXTS[1], *TEXTS]
    (mark,) = mark_answer("The ferry leaves at seven and takes 40 minutes to the island [3].", twice)
    assert mark.passage == 2 and mark.evidence.of(twice[2]) == TEXTS[1]
    assert correct_citations([mark]).endswith("[3].")


@pytest.mark.parametrize("cited", ["", " [1]", " [2]", " [1, 2]", " [9]"])
def test_a_citation_changes_no_support(cited: str) -> None:
    for answer in (RIGHT, WRONG):
        plain, with_number = (
            mark_answer(text, TEXTS)[0] for text in (answer, answer.replace(".", f"{cited}."))
        )
        assert (plain.support, plain.instead) == (with_number.support, with_number.instead)
        assert with_number.probability == pytest.approx(plain.probability, abs=1e-6)


PLACED = [
    ("They are kept for 35 days.", {"title": "Handbook", "header_path": "/Backups/", "page_label": "12"})
]


def test_each_mark_says_under_which_heading_and_on_which_page_its_evidence_stands() -> None:
    def said(marks: Any) -> tuple[str, str, str]:
        (mark,) = marks
        assert mark["evidence"] == [0, 26], "counts in the document, not in its heading"
        return mark["heading"], mark["page"], mark["reason"]

    answer = "Backups are kept for 30 days."
    documents = [Document(text, metadata=metadata) for text, metadata in PLACED]
    verdict = SageGrounding().invoke({"answer": answer, "context": documents})["verdict"]
    nodes = [TextNode(text=text, metadata=metadata) for text, metadata in PLACED]
    engine = VectorStoreIndex(nodes, embed_model=Even()).as_query_engine(llm=ScriptedLLM.of([answer], []))
    response = SageGroundedEngine(engine).query("How long are backups kept?")
    expected = (
        "Handbook, Backups", "12", "the passages say “35 days” (Handbook, Backups) where it says “30 days”",
    )  # fmt: skip
    assert said(verdict.to_dict()["marks"]) == said(response.metadata["sage_verdict"]["marks"]) == expected
    assert Verdict(9, marks=verdict.marks).to_dict()["marks"][0]["page"] == "12"


def test_runnable_lambda_before_it() -> None:
    chain = RunnableLambda(lambda _: {"answer": WRONG, "context": TEXTS}) | SageGrounding()
    assert not chain.invoke("x")["verdict"].accepted
