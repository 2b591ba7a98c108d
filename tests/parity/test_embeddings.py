"""The packaged embedding model in both frameworks gives the core's vectors."""

import numpy as np
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import TextNode

from sage_core.embedding import MiniLMEmbedder
from sage_langchain import MiniLMEmbeddings
from sage_llamaindex import MiniLMEmbedding

TEXTS = ["The ferry leaves at nine.", "Oats are ground at the mill.", "🌾", ""]
QUESTION = "When does the ferry leave?"


async def test_every_way_gives_the_core_s_vectors() -> None:
    documents, question = MiniLMEmbedder().embed_documents(TEXTS), MiniLMEmbedder().embed_query(QUESTION)
    ours, theirs = MiniLMEmbeddings(), MiniLMEmbedding(embed_batch_size=3)
    theirs = MiniLMEmbedding.from_dict(theirs.to_dict())
    assert theirs.embed_batch_size == 3
    nodes = IngestionPipeline(transformations=[theirs]).run(nodes=[TextNode(text=t) for t in TEXTS])
    for found, expected in (
        (ours.embed_documents(TEXTS), documents),
        (ours.embed_query(QUESTION), question),
        (theirs.get_text_embedding_batch(TEXTS), documents),
        (await theirs.aget_text_embedding_batch(TEXTS), documents),
        (theirs.get_query_embedding(QUESTION), question),
        (await theirs.aget_query_embedding(QUESTION), question),
        ([node.embedding for node in nodes], documents),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
