"""Applications after LlamaIndex' own tutorials and templates; what is changed in each is marked ``# sage``."""

from typing import Any

import pytest
from llama_index.core import Document, Settings, VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter

from sage_llamaindex import (
    MiniLMEmbedding,
    SageNodeParser,
    SageQueryEngine,
    SageRetriever,
)
from tests.apps.readers import GUIDES, ReadingLLM

pytestmark = pytest.mark.apps

FOUND_ON_BOARD = "How long are things kept that were found on board?"
TOUR = "What does a tour of the mill cost?"


def documents() -> list[Document]:
    return [Document(text=text, id_=name, metadata={"file_name": name}) for name, text in GUIDES.items()]


@pytest.fixture(autouse=True)
def llm(monkeypatch: pytest.MonkeyPatch) -> ReadingLLM:
    model = ReadingLLM()
    monkeypatch.setattr(Settings, "_llm", model)
    monkeypatch.setattr(Settings, "_embed_model", MiniLMEmbedding())
    return model


@pytest.fixture(scope="module", params=["chunks", "passages"])
def index(request: pytest.FixtureRequest) -> VectorStoreIndex:
    parser = SageNodeParser() if request.param == "chunks" else SentenceSplitter()  # sage
    return VectorStoreIndex.from_documents(
        documents(), transformations=[parser], embed_model=MiniLMEmbedding()
    )


async def test_starter(index: VectorStoreIndex, tmp_path: Any) -> None:
    """An index that is kept in a folder, loaded and asked."""
    from llama_index.core import StorageContext, load_index_from_storage

    index.storage_context.persist(tmp_path)
    loaded = load_index_from_storage(StorageContext.from_defaults(persist_dir=str(tmp_path)))
    engine = SageQueryEngine.from_index(loaded, critic="local")  # sage
    assert "three months" in str(engine.query(FOUND_ON_BOARD))
    assert "5 pounds" in str(await engine.aquery(TOUR))


def test_ingestion_with_upserts() -> None:
    """A pipeline that cuts and embeds again only the document that has changed."""
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.vector_stores.chroma import ChromaVectorStore

    chromadb = pytest.importorskip("chromadb")
    vectors = ChromaVectorStore(chromadb.EphemeralClient().get_or_create_collection("upserts"))
    pipeline = IngestionPipeline(
        transformations=[SageNodeParser(), MiniLMEmbedding()],  # sage
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
        vector_store=vectors,
    )
    pipeline.run(documents=documents())
    retriever = SageRetriever.from_index(VectorStoreIndex.from_vector_store(vectors))  # sage
    assert "three months" in retriever.retrieve(FOUND_ON_BOARD)[0].text
    changed = documents()
    handbook = next(d for d in changed if d.id_ == "ferry-handbook.md")
    handbook.set_content(handbook.text.replace("three months", "nine weeks"))
    assert {n.ref_doc_id for n in pipeline.run(documents=changed)} == {"ferry-handbook.md"}
    texts = [node.text for node in retriever.retrieve(FOUND_ON_BOARD)]
    assert "nine weeks" in texts[0] and not any("kept for three months" in text for text in texts)


@pytest.mark.parametrize("mode", ["context", "condense_plus_context", "condense_question", "ours"])
async def test_chat(index: VectorStoreIndex, llm: ReadingLLM, mode: str) -> None:
    """Chat engines over our retriever or engine: a question that only the conversation explains; a stream."""
    from llama_index.core.chat_engine import (
        CondensePlusContextChatEngine,
        CondenseQuestionChatEngine,
        ContextChatEngine,
    )

    llm.replies["standalone question"] = llm.replies["conversation (between Human and Assistant)"] = TOUR
    retriever = SageRetriever.from_index(index)  # sage
    engine = SageQueryEngine.from_index(index, critic="local")  # sage
    chat: Any = {
        "context": lambda: ContextChatEngine.from_defaults(retriever=retriever),
        "condense_plus_context": lambda: CondensePlusContextChatEngine.from_defaults(retriever),
        "condense_question": lambda: CondenseQuestionChatEngine.from_defaults(engine),
        "ours": engine.as_chat_engine,
    }[mode]()
    assert chat.chat("Is the mill open to visitors?").response
    question = TOUR if mode == "context" else "And what does it cost?"
    assert any("5 pounds" in n.text for n in chat.chat(question).source_nodes)
    assert len(chat.chat_history) == 4
    chat.reset()
    assert "5 pounds" in str(await chat.achat(TOUR))
