"""The quickstart of README with everything at its default, and the migrations it promises."""

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from sage_langchain import SageRetriever, SageTextSplitter, create_sage_chain
from tests.fakes.langchain import ScriptedChat, WordEmbeddings, graded

NOTE = """The old school by the canal is empty most of the year. Ibarra keeps her bees on its roof, where
nobody minds the noise. She climbs up on Sundays with sugar and smoke.

The printing house is older. Its presses were bought in 1911 from a newspaper that had failed. Apprentices oil them
every Friday, and visitors may pull one sheet each.

Ferries stopped in 1987, when the bridge was opened. The last ferryman sells tickets at the museum now.
"""


async def test_quickstart():
    documents = [Document(page_content=NOTE * 4, metadata={"source": "note.txt"})]
    embeddings = WordEmbeddings()
    llm = ScriptedChat(replies=["On the roof of the old school.", graded(9)] * 4)

    chunks = SageTextSplitter(add_start_index=True).split_documents(documents)
    store = InMemoryVectorStore(embeddings)
    store.add_documents(chunks)
    retriever = SageRetriever.from_vectorstore(store)
    chain = create_sage_chain(llm, retriever)

    out = chain.invoke({"input": "Where does Ibarra keep her bees?"})
    assert out["answer"] == "On the roof of the old school."
    assert "bees" in out["context"][0].page_content
    assert out["sage"]["stop_reason"] == "accepted"
    for d in out["context"]:
        start = d.metadata["start_index"]
        assert (NOTE * 4)[start : start + len(d.page_content)] == d.page_content
        assert 0 <= d.metadata["relevance_score"] <= 1
    question = {"input": "Where does Ibarra keep her bees?"}
    assert await chain.ainvoke(question) == out
    assert chain.batch([question]) == [out]
    assert [list(c) for c in chain.stream(question)] == [["input"], ["context"], ["answer"], ["sage"]]
