"""What a stock LlamaIndex retriever sends, and what `SageRetriever` sends over the same index.

Usage: python demo/stock_index.py     (offline; needs the extras llamaindex and files)
"""

import json
from collections.abc import Sequence
from pathlib import Path

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.schema import NodeWithScore

from sage_app.documents import read_document
from sage_core import get_counter
from sage_llamaindex import MiniLMEmbedding, SageRetriever

ROOT = Path(__file__).resolve().parent.parent
SHOWN = "What happens to lost things that nobody asks for?", "On which day are gas bottles carried?"
count = get_counter().count


def main() -> None:
    """Show two questions, and count over all forty of the notebooks."""
    paths = sorted((ROOT / "demo" / "documents").iterdir())
    documents = [Document(text=read_document(path).text, metadata={"source": path.name}) for path in paths]
    index = VectorStoreIndex.from_documents(documents, embed_model=MiniLMEmbedding())  # nodes of 1,024 tokens
    ways = {"stock": index.as_retriever(), "sage-rag": SageRetriever.from_index(index)}
    tight = {"stock": ways["stock"], "sage-rag": SageRetriever.from_index(index, max_context_tokens=150)}
    for question in SHOWN:
        print(question)
        for name, retriever in tight.items():
            for node in retriever.retrieve(question):
                start = " ".join(node.text.split())[:100]
                print(f"  {name:8}  {count(node.text):4} tokens of {node.metadata['source']}: {start} ...")
    lines = (ROOT / "notebooks" / "island_questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    print(f"All {len(questions)} questions of notebooks/island_questions.jsonl, with the defaults:")
    for name, retriever in ways.items():
        nodes = [retriever.retrieve(question["question"]) for question in questions]
        tokens = sum(count(node.text) for sent in nodes for node in sent) / len(questions)
        found = sum(evidence_found(q["evidence"], sent) for q, sent in zip(questions, nodes, strict=True))
        print(f"  {name:8}  {found / len(questions):4.0%} of the evidence in {tokens:,.0f} tokens a question")


def evidence_found(evidence: Sequence[dict[str, str]], sent: Sequence[NodeWithScore]) -> float:
    """The share of the quotations that stand in what was sent."""
    text = " ".join(" ".join(node.text for node in sent).split())
    return sum(" ".join(e["quote"].split()) in text for e in evidence) / len(evidence)


if __name__ == "__main__":
    main()
