"""The packaged embedding model in both frameworks gives the core's vectors."""

import numpy as np
import pytest
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import TextNode

from sage_core.embedding import MiniLMEmbedder
from sage_core.errors import InputError
from sage_langchain import MiniLMEmbeddings
from sage_llamaindex import MiniLMEmbedding

TEXTS = ["The ferry leaves at nine.", "Oats are ground at the mill.", "🌾", ""]
QUESTION = "When does the ferry leave?"


@pytest.fixture(scope="module")
def expected():
    embedder = MiniLMEmbedder()
    return embedder.embed_documents(TEXTS), embedder.embed_query(QUESTION)


def test_langchain(expected):
    model = MiniLMEmbeddings()
    np.testing.assert_allclose(model.embed_documents(TEXTS), expected[0], atol=1e-5)
    np.testing.assert_allclose(model.embed_query(QUESTION), expected[1], atol=1e-5)


def test_another_model_is_the_framework_s():
    with pytest.raises(InputError, match="HuggingFaceEmbedding"):
        MiniLMEmbedding("BAAI/bge-small-en-v1.5")
    with pytest.raises(TypeError):
        MiniLMEmbeddings("BAAI/bge-small-en-v1.5")


async def test_llamaindex(expected):
    model = MiniLMEmbedding()
    np.testing.assert_allclose(model.get_text_embedding_batch(TEXTS), expected[0], atol=1e-5)
    np.testing.assert_allclose(await model.aget_text_embedding_batch(TEXTS), expected[0], atol=1e-5)
    np.testing.assert_allclose(model.get_query_embedding(QUESTION), expected[1], atol=1e-5)
    np.testing.assert_allclose(await model.aget_query_embedding(QUESTION), expected[1], atol=1e-5)


def test_in_a_pipeline_and_back_from_its_dictionary(expected):
    model = MiniLMEmbedding.from_dict(MiniLMEmbedding(embed_batch_size=3).to_dict())
    assert model.embed_batch_size == 3
    (node,) = IngestionPipeline(transformations=[model]).run(nodes=[TextNode(text=TEXTS[0])])
    np.testing.assert_allclose(node.embedding, expected[0][0], atol=1e-5)
