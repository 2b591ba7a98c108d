"""Embedding models by name, and a hosted one through the whole pipeline."""

import hashlib

import numpy as np
import pytest

from sage_app import Sage
from sage_app.models import OpenAIEmbedder, SentenceTransformerEmbedder, named_embedder
from sage_core.embedding import MiniLMEmbedder
from sage_core.errors import InputError, ModelError
from tests.fakes.llm_server import LLMServer


def test_names():
    assert isinstance(named_embedder("all-MiniLM-L6-v2"), MiniLMEmbedder)
    hosted = named_embedder("openai:text-embedding-3-small")
    assert isinstance(hosted, OpenAIEmbedder)
    assert hosted.name == "text-embedding-3-small"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("all-MinLM-L6-v2", "all-MiniLM-L6-v2"),
        ("all-minilm-l6-v2", "all-MiniLM-L6-v2"),
        ("all-MiniLM", "all-MiniLM-L6-v2"),
        ("openia:text-embedding-3-small", "openai:text-embedding-3-small"),
        ("text-embedding-3-large", "openai:text-embedding-3-large"),
        ("openai/text-embedding-3-small", "openai:text-embedding-3-small"),
    ],
)
def test_a_misspelt_name_says_what_was_meant(name, meant, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InputError, match=meant):
        named_embedder(name)


@pytest.mark.parametrize("name", ["all-MiniLM-L12-v2", "all-mpnet-base-v2", "BAAI/bge-small-en-v1.5", "gpt2"])
def test_other_names_of_the_hub_are_no_misspellings(name):
    assert named_embedder(name).name == name


def test_the_models_of_other_servers_are_not_known():
    named_embedder("openai:text-embedding-3-smal", base_url="http://127.0.0.1:9/v1")


def vector(text: str) -> list[float]:
    row = np.zeros(64)
    for word in text.lower().split():
        row[int(hashlib.md5(word.strip("?.,").encode()).hexdigest(), 16) % 64] += 1
    return row.tolist()


@pytest.fixture
def note(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("The ferry leaves the pier at nine.\n\nOats are ground at the mill.", encoding="utf-8")
    return path


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with LLMServer([], embed=vector) as running:
        yield running


def test_sage_takes_a_name_and_asks_the_server_of_the_environment(tmp_path, note, server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    with Sage(tmp_path / "store", embedder="openai:small") as sage:
        sage.ingest(note)
        found = sage.retrieve("When does the ferry leave the pier?")
    assert "nine" in found.candidates[0].chunk.text
    assert {r.body["model"] for r in server.requests} == {"small"}


def test_models_of_sentence_transformers_by_name():
    assert isinstance(named_embedder("sentence-transformers/all-MiniLM-L6-v2", device="cpu"), MiniLMEmbedder)
    elsewhere = named_embedder("all-MiniLM-L6-v2", device="cuda")
    assert isinstance(elsewhere, SentenceTransformerEmbedder)
    assert elsewhere.name == MiniLMEmbedder().name == "all-MiniLM-L6-v2"
    with pytest.raises(InputError):
        SentenceTransformerEmbedder(" ")


@pytest.mark.slow
@pytest.mark.soak  # imports torch
def test_a_folder_without_a_model_says_what_to_do(tmp_path):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(ModelError, match="safetensors"):
        SentenceTransformerEmbedder(tmp_path).embed_query("a question")
