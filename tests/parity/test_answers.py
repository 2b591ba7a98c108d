"""What comes out besides the text of an answer: objects, marks, the provider's citations, conversations."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import BaseModel

from sage_core.errors import InputError
from sage_langchain import SageChain, SageCompressor, SageRetriever, create_sage_chain
from sage_langchain import marks_of as chain_marks
from sage_llamaindex import SageQueryEngine
from sage_llamaindex import marks_of as engine_marks
from tests.fakes.doors import at_door
from tests.fakes.langchain import ScriptedChat, ToolChat, graded
from tests.fakes.llamaindex import ScriptedLLM
from tests.fakes.models import WordReranker

TEXTS = ["Seals live in the harbor.", "The ferry leaves at seven."]
QUESTION = "When does the ferry leave?"


class When(BaseModel):
    """When something happens."""

    answer: str


def retriever(**settings: Any) -> SageRetriever:
    documents = [Document(text, metadata={"start_index": 10 * i}) for i, text in enumerate(TEXTS)]
    return SageRetriever(
        base_retriever=lambda _: documents,
        base_compressor=SageCompressor(reranker=WordReranker(), **at_door(**settings)),
    )


def structured(*answers: str) -> Any:
    calls = [
        AIMessage("", tool_calls=[{"name": "When", "args": {"answer": a}, "id": str(i), "type": "tool_call"}])
        for i, a in enumerate(answers)
    ]
    return ToolChat(replies=calls).with_structured_output(When)


def chain(llm: Any, *grades: int, **settings: Any) -> SageChain:
    critic = ScriptedChat(replies=[graded(score, -1) for score in grades])
    first = retriever(min_k=1)
    return create_sage_chain(llm, first, critic=critic, critic_method="prompt", **at_door(**settings))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda: structured("At seven."), When(answer="At seven.")),
        (lambda: RunnableLambda(lambda _: {"hour": 7}), {"hour": 7}),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"max_rounds": 1}])
async def test_an_object_is_the_answer_and_streamed_whole(
    model: Any, expected: Any, settings: dict[str, Any]
) -> None:
    assert chain(model(), 9, **settings).invoke(QUESTION)["answer"] == expected
    assert (await chain(model(), 9, **settings).ainvoke(QUESTION))["answer"] == expected
    pieces = [c["answer"] for c in chain(model(), 9, **settings).stream(QUESTION) if "answer" in c]
    stream = chain(model(), 9, **settings).astream(QUESTION)
    assert [c["answer"] async for c in stream if "answer" in c] == pieces == [expected]


def test_the_critic_reads_an_object_as_json() -> None:
    critic = ScriptedChat(replies=[graded(9)])
    create_sage_chain(structured("At seven."), retriever(), critic=critic, critic_method="prompt").invoke(
        "When?"
    )
    assert '{"answer":"At seven."}' in str(critic.seen[0])


def test_the_object_of_the_best_round_is_the_answer() -> None:
    output = chain(structured("By boat.", "At seven."), 2, 9, max_rounds=2).invoke(QUESTION)
    assert output["answer"] == When(answer="At seven.") and output["sage"]["score"] == 9
    output = chain(structured("By boat.", "At seven."), 5, 2, max_rounds=2).invoke(QUESTION)
    assert output["answer"] == When(answer="By boat.")


CITED = [{"type": "citation", "url": "https://x.org", "cited_text": "at seven"}]


@pytest.mark.parametrize(
    ("message", "citations"),
    [
        (AIMessage([{"type": "text", "text": "At seven.", "annotations": CITED}]), CITED),
        (AIMessage("At seven.", additional_kwargs={"citations": CITED}), CITED),
        (AIMessage("At seven.", response_metadata={"citations": CITED}), CITED),
        (AIMessage("At seven."), None),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"max_rounds": 1}])
def test_the_provider_s_citations_are_kept(
    message: AIMessage, citations: Any, settings: dict[str, Any]
) -> None:
    output = chain(ScriptedChat(replies=[message]), 9, **settings).invoke(QUESTION)
    assert (output["answer"], output["sage"].get("citations")) == ("At seven.", citations)
    [trace] = [
        c["sage"]
        for c in chain(ScriptedChat(replies=[message]), 9, **settings).stream(QUESTION)
        if "sage" in c
    ]
    assert trace.get("citations") == citations


class Both(BaseRetriever):
    """Both texts."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=t), score=0.5 + 0.1 * i) for i, t in enumerate(TEXTS)]


@pytest.mark.parametrize("streaming", [False, True])
def test_marks_lead_from_statements_to_passages(streaming: bool) -> None:
    answer = "The ferry leaves at seven. Tickets cost nine crowns."
    output = chain(ScriptedChat(replies=[answer]), 9).invoke(QUESTION)
    engine = SageQueryEngine.from_args(Both(), llm=ScriptedLLM.of([answer]), streaming=streaming)
    response = engine.query(QUESTION)
    texts = [n.node.text for n in response.source_nodes]
    for marks, passages in (
        (chain_marks(output), [d.page_content for d in output["context"]]),
        (engine_marks(response, QUESTION), texts),
    ):
        said = {mark.text.strip(): mark for mark in marks if mark.text.strip()}
        first, second = said["The ferry leaves at seven."], said["Tickets cost nine crowns."]
        assert first.support == "supported" and first.evidence is not None and first.passage is not None
        assert first.evidence.of(passages[first.passage]) == TEXTS[1]
        assert second.support != "supported" and second.passage is None
        assert "".join(mark.text for mark in marks) == answer


def test_marks_of_something_else() -> None:
    for wrong in ({"answer": "x"}, "text", None):
        with pytest.raises(InputError):
            chain_marks(wrong)
        with pytest.raises(InputError):
            engine_marks(wrong)
    assert engine_marks(Response(None)) == ()


def test_a_conversation() -> None:
    llm = ScriptedLLM.of(["When does the ferry leave?", "At seven."])
    chat = SageQueryEngine.from_args(Both(), llm=llm, feedback="off").as_chat_engine()
    llm._answers = ["At seven."]
    assert str(chat.chat(QUESTION)) == "At seven."
    llm._answers = ["When does the ferry leave on Sundays?", "At nine."]
    reply = chat.chat("And on Sundays?")
    assert str(reply) == "At nine." and len(reply.source_nodes) == 2
    assert "When does the ferry leave on Sundays?" in llm.asked("answer")[-1]


def test_a_conversation_in_langchain() -> None:
    model = ScriptedChat(replies=["When does the ferry leave on Sundays?"])
    standalone = (
        RunnableLambda(lambda turn: turn["chat_history"] + [turn["input"]]) | model | StrOutputParser()
    )
    question = RunnableLambda(lambda turn: standalone if turn["chat_history"] else turn["input"])
    answering = ScriptedChat(replies=["At seven.", "At nine."])
    chat = RunnablePassthrough.assign(input=question) | chain(answering, 9, 9)
    assert chat.invoke({"input": QUESTION, "chat_history": []})["answer"] == "At seven."
    output = chat.invoke({"input": "And on Sundays?", "chat_history": [QUESTION, "At seven."]})
    assert output["answer"] == "At nine." and output["input"] == "When does the ferry leave on Sundays?"
    assert "When does the ferry leave on Sundays?" in str(answering.seen[1])
