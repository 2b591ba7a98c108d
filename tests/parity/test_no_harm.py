"""Whatever is asked and however it is written, no door of ours loses what plain search over the same index finds.

Forty questions over the sample documents, and the same with capitals, courtesy, a name that no text says, and as
requests; and small talk. Compared with the best passage of the framework's own retriever over the same index.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document as Source
from llama_index.core import VectorStoreIndex

from sage_langchain import MiniLMEmbeddings, SageTextSplitter
from sage_llamaindex import MiniLMEmbedding, SageNodeParser
from tests.parity.asking import SENDING

ROOT = Path(__file__).parents[2]
ROWS = [
    json.loads(line)
    for line in (ROOT / "notebooks/island_questions.jsonl").read_text(encoding="utf-8").splitlines()
]

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "capitals": lambda q: re.sub(r"\b[a-z]{5,}", lambda m: m[0].title(), q),
    "request": lambda q: f"Summarize what the documents say about this: {q}",
    "mail": lambda q: f"Write an email to Mr Fairweather-Oduya that answers him: {q}",
    "courtesy": lambda q: f"Hello! I hope you are well. {q} Thank you so much in advance!",
    "a name": lambda q: f"What does Priscilla Vandermeer say: {q}",
}
LANGCHAIN, ASKING = (
    {"LangChain retriever", "compressor", "chain"},
    {"engine", "engine of an engine", "engine without feedback", "chain"},
)
TALK = [
    "Thank you!", "Hello", "ok", "Who are you?", "That was helpful, thanks.", "Give me an overview.",
    "What are the main themes?", "List three things a visitor should know.", "Tell me more.", "And then?",
]  # fmt: skip


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    folder = ROOT / "demo/documents"
    return {p.name: p.read_text("utf-8") for p in sorted(folder.iterdir()) if p.suffix in (".md", ".txt")}


@pytest.fixture(scope="module")
def index(texts: dict[str, str]) -> VectorStoreIndex:
    documents = [Source(text=text, metadata={"file_name": name}) for name, text in texts.items()]
    return VectorStoreIndex.from_documents(
        documents, transformations=[SageNodeParser()], embed_model=MiniLMEmbedding()
    )


@pytest.fixture(scope="module")
def store(texts: dict[str, str]) -> InMemoryVectorStore:
    documents = [Document(text, metadata={"source": name}) for name, text in texts.items()]
    pieces = SageTextSplitter(add_start_index=True).split_documents(documents)
    return InMemoryVectorStore.from_documents(pieces, MiniLMEmbeddings())


@pytest.fixture(scope="module")
def doors(index: VectorStoreIndex, store: InMemoryVectorStore) -> dict[str, Callable[[str], list[str]]]:
    """What each door sends of a question."""
    return {name: partial(send, index=index, store=store) for name, send in SENDING.items()}


def plain(text: str) -> str:
    return " ".join(text.split())


def test_the_questions_are_of_these_documents(texts: dict[str, str]) -> None:
    whole = plain(" ".join(texts.values()))
    assert sum(plain(row["evidence"][0]["quote"]) in whole for row in ROWS) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_plain_search_finds_is_lost(
    form: str,
    index: VectorStoreIndex,
    store: InMemoryVectorStore,
    doors: dict[str, Callable[[str], list[str]]],
) -> None:
    lost: dict[str, list[Any]] = {}
    stock, held = index.as_retriever(similarity_top_k=1), 0
    for i, row in enumerate(ROWS):
        question, quote = FORMS[form](row["question"]), plain(row["evidence"][0]["quote"])
        best = {
            "llama": quote in plain(stock.retrieve(question)[0].text),
            "lang": quote in plain(store.similarity_search(question, k=1)[0].page_content),
        }
        held += sum(best.values())
        for door, ask in doors.items():
            if door in ASKING and i % 4:
                continue  # they send what their retrievers send, and take longer
            sent, found = ask(question), best["lang" if door in LANGCHAIN else "llama"]
            if not sent or (found and not any(quote in plain(text) for text in sent)):
                lost.setdefault(door, []).append(row["id"])
    assert held >= 20, "else this says nothing"
    assert lost == {}


@pytest.mark.parametrize("said", TALK)
def test_small_talk_gets_an_answer(said: str, doors: dict[str, Callable[[str], list[str]]]) -> None:
    for door, ask in doors.items():
        assert ask(said), door
