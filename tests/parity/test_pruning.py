"""Pruning and marks are the same in the core and in both frameworks."""

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode

from sage_core.answering import SentencePruner
from sage_langchain import SagePruner as LangChainPruner
from sage_llamaindex import SagePruner as LlamaIndexPruner

QUESTION = "When does the ferry leave for the island?"
TEXTS = [
    "The ferry leaves for the island at seven. Painters came to the coast in 1890. They liked the light.",
    "# Harbor\n\nSeals rest on the banks of the harbor. The ferry passes them slowly.\n\n- No dogs.\n- No fires.",
    "Bees need many flowers in spring. Nobody keeps them on the island now. The ferry brings honey.",
]
SCORES = [0.9, 0.4, 0.05]


@pytest.mark.parametrize("threshold", [0.01, 0.1, 1.0])
def test_the_same_slices(threshold: float):
    pruned = SentencePruner(threshold=threshold).prune(QUESTION, TEXTS, SCORES, "probability")
    expected = [(s.of(t), s.start) for p, t in zip(pruned, TEXTS, strict=True) for s in p.kept]
    documents = [
        Document(t, metadata={"relevance_score": s, "start_index": 0})
        for t, s in zip(TEXTS, SCORES, strict=True)
    ]
    found = LangChainPruner(threshold=threshold).compress_documents(documents, QUESTION)
    assert [(d.page_content, d.metadata["start_index"]) for d in found] == expected
    nodes = [
        NodeWithScore(node=TextNode(text=t, start_char_idx=0, end_char_idx=len(t)), score=s)
        for t, s in zip(TEXTS, SCORES, strict=True)
    ]
    pruner = LlamaIndexPruner(threshold=threshold, scale="probability")
    kept = pruner.postprocess_nodes(nodes, query_str=QUESTION)
    assert [(n.text, n.node.start_char_idx) for n in kept] == expected
