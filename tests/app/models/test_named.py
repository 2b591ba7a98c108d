"""Embedding models by name, and a hosted one through the whole pipeline."""

import json
import shutil

import numpy as np
import pytest

from sage_app import Sage
from sage_app.models import OpenAIEmbedder, SentenceTransformerEmbedder, named_embedder
from sage_core.embedding import MiniLMEmbedder
from sage_core.errors import InputError, ModelError
from tests.fakes.llm_server import LLMServer
from tests.fakes.models import HashEmbedder
from tests.fakes.sentence_transformer import save_transformer


def test_names():
    assert isinstance(named_embedder("all-MiniLM-L6-v2"), MiniLMEmbedder)
    hosted = named_embedder("openai:text-embedding-3-small")
    assert isinstance(hosted, OpenAIEmbedder)
    assert hosted.name == "text-embedding-3-small"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
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


@pytest.fixture
def note(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("The ferry leaves the pier at nine.\n\nOats are ground at the mill.", encoding="utf-8")
    return path


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with LLMServer([], embed=HashEmbedder().embed_query) as running:
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("sentence_transformers")
    return save_transformer(tmp_path_factory.mktemp("model"))


def changed(folder, target, name, **values):
    """A copy of a model's folder, one of its JSON files changed."""
    shutil.copytree(folder, target)
    data = json.loads((target / name).read_text())
    for key, value in values.items():
        data[int(key[1:]) if key[0] == "_" else key] = value
    (target / name).write_text(json.dumps(data))
    return target


@pytest.mark.slow
@pytest.mark.soak  # imports torch
def test_a_folders_own_prompts_are_used_for_questions_and_passages(folder, tmp_path):
    prompts = {"query": "query: ", "passage": "passage: "}
    asked = changed(folder, tmp_path / "m", "config_sentence_transformers.json", prompts=prompts)
    with_prompts, without = SentenceTransformerEmbedder(asked), SentenceTransformerEmbedder(folder)
    text = "The ferry leaves."
    for found, right in (
        (with_prompts.embed_documents([text])[0], without.embed_documents([f"passage: {text}"])[0]),
        (with_prompts.embed_query(text), without.embed_query(f"query: {text}")),
    ):
        np.testing.assert_allclose(found, right, atol=1e-6)
        assert not np.allclose(found, without.embed_query(text), atol=1e-3)


@pytest.mark.slow
@pytest.mark.soak  # imports torch
def test_a_folder_without_modules_warns_and_one_of_a_newer_library_names_the_version(
    folder, tmp_path, caplog
):
    plain = tmp_path / "plain"
    shutil.copytree(folder, plain)
    (plain / "modules.json").unlink()
    SentenceTransformerEmbedder(plain).embed_query("a")
    assert "no modules.json: mean pooling is assumed" in caplog.text
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.of_tomorrow.Transformer"}
    newer = changed(folder, tmp_path / "newer", "modules.json", _0=module)
    with pytest.raises(ModelError, match=r"by sentence-transformers \d.*of_tomorrow"):
        SentenceTransformerEmbedder(newer).embed_query("a")
