"""A small real LLM on 127.0.0.1 through every door: it ends, the usage is right, what it invents is marked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document as LlamaDocument
from llama_index.core import VectorStoreIndex

from sage_app import LLMAnswerer, Sage
from sage_app.models import OpenAIChat
from sage_app.pipeline.results import Answer
from sage_core.feedback import FeedbackResult
from sage_core.verify import mark_answer
from sage_langchain import MiniLMEmbeddings, SageRetriever, SageTextSplitter, create_sage_chain
from sage_llamaindex import MiniLMEmbedding, SageNodeParser, SageQueryEngine, feedback_of
from sage_llamaindex import SageRetriever as LlamaRetriever
from tests.fakes.real_llm import MOST_TOKENS, RealChat, RealLLM, RealServer

pytestmark = pytest.mark.soak

GUIDE = (
    "# Harbor guide\n\nThe ferry to the island of Skell leaves at 9:15 on Sundays and takes 40 minutes. It "
    "carries twelve cars. A ticket costs 7 euros, and children under six travel free.\n\n## Crew\n\nThe ferry has "
    "a crew of five. The captain's name is painted on the bridge door.\n\n## Lighthouse\n\nThe lighthouse was built "
    "in 1874 of white granite. Its lamp can be seen for 21 miles.\n"
)
# No passage says it: a model of this size makes up a name or a nation all the same.
UNSAID = "Who built the lighthouse?"
STOPS = {"accepted", "max_rounds", "unchanged", "budget", "critic_failed", "contradicted"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with RealServer(tmp_path_factory.mktemp("smollm2")) as running:
        yield running


def ends_well(server: RealServer, text: str, feedback: Any) -> None:
    """An answer, a reason to stop, and, if the reply says it, as many tokens as the model's tokenizer counts."""
    assert text.strip() and feedback.stop_reason in STOPS
    first = feedback.rounds[0]
    if not first.answer_usage.estimated:  # the end of the turn is a token
        assert 0 <= first.answer_usage.completion - server.tokens(first.answer) <= 2
    assert first.answer_usage.completion <= 2 * MOST_TOKENS and feedback.usage.calls >= len(feedback.rounds)


@pytest.fixture
def sage(server: RealServer, tmp_path: Path) -> Iterator[Sage]:
    (tmp_path / "guide.md").write_text(GUIDE)
    chat = OpenAIChat(server.model, base_url=server.base_url, api_key="none", max_tokens=MOST_TOKENS)
    with Sage(tmp_path / "store", answerer=LLMAnswerer(chat)) as own:
        own.ingest([tmp_path / "guide.md"])
        yield own


class TestSage:
    def test_ask(self, server: RealServer, sage: Sage) -> None:
        answer = sage.ask(UNSAID)
        ends_well(server, answer.text, answer.feedback)
        assert not answer.feedback.usage.estimated
        passages = sum(server.tokens(hit.chunk.text) for hit in answer.retrieval.hits)
        assert answer.feedback.rounds[0].answer_usage.prompt > passages
        # What no passage has is not called supported.
        assert {m.support for m in answer.marks() if "British" in m.text} <= {"unsure", "unsupported"}
        assert any(m.support in ("unsure", "unsupported") for m in answer.marks())

    async def test_aask(self, server: RealServer, sage: Sage) -> None:
        answer = await sage.aask(UNSAID)
        ends_well(server, answer.text, answer.feedback)

    def test_stream(self, sage: Sage) -> None:
        events = list(sage.stream(UNSAID))
        final = events[-1]
        assert isinstance(final, Answer) and final.feedback.stop_reason in STOPS
        pieces = "".join(e for e in events if isinstance(e, str))
        assert final.text in pieces and len([e for e in events if isinstance(e, str)]) > 3
        assert any(m.support in ("unsure", "unsupported") for m in final.marks())


class TestLlamaIndex:
    @pytest.fixture
    def index(self) -> VectorStoreIndex:
        return VectorStoreIndex.from_documents(
            [LlamaDocument(text=GUIDE)], transformations=[SageNodeParser()], embed_model=MiniLMEmbedding()
        )

    async def test_query_and_aquery(self, server: RealServer, index: VectorStoreIndex) -> None:
        engine = SageQueryEngine.from_args(LlamaRetriever.from_index(index), llm=RealLLM(server=server))
        for response in (engine.query(UNSAID), await engine.aquery(UNSAID)):
            feedback = feedback_of(response)
            assert feedback is not None
            ends_well(server, str(response), feedback)

    def test_streamed(self, server: RealServer, index: VectorStoreIndex) -> None:
        engine = SageQueryEngine.from_args(
            LlamaRetriever.from_index(index), llm=RealLLM(server=server), streaming=True
        )
        response: Any = engine.query(UNSAID)
        assert "".join(response.response_gen).strip()


class TestLangChain:
    async def test_invoke_ainvoke_and_stream(self, server: RealServer) -> None:
        pieces = SageTextSplitter(add_start_index=True).split_documents([Document(GUIDE)])
        store = InMemoryVectorStore.from_documents(pieces, MiniLMEmbeddings())
        chain = create_sage_chain(RealChat(server=server), SageRetriever.from_vectorstore(store))
        for found in (chain.invoke(UNSAID), await chain.ainvoke(UNSAID)):
            ends_well(server, found["answer"], FeedbackResult.from_dict(found["sage"]))
        streamed = "".join(piece["answer"] for piece in chain.stream(UNSAID) if "answer" in piece)
        assert streamed.strip()


def test_an_invented_captain_is_marked() -> None:
    marks = mark_answer("The ferry takes 40 minutes. Captain Elen steers it.", [GUIDE])
    assert [m.support for m in marks if m.text.strip()] == ["supported", "unsupported"]
