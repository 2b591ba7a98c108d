"""The base install is enough for everything offline: no torch, transformers or sentence-transformers."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "demo" / "documents"

# Any attempt to import one of them fails, and is reported even where the importer catches the error.
BLOCKER = """
import sys

class Blocker:
    tried = []

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "sentence_transformers", "scipy"}:
            self.tried.append(name)
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
"""

CORE = """
from sage_app import Sage
from sage_core import HybridReranker, LocalJudge, Segmenter

segmenter = Segmenter()
assert segmenter.segment("The ferry leaves at seven. It returns at dusk.\\n\\nBees live in hives.")
with Sage(sys.argv[1]) as sage:
    sage.ingest([sys.argv[2] + "/water-works.txt"])
    answer = sage.ask("How is the water cleaned?")
    assert answer.text
judge = LocalJudge()
assert judge.claims
(claim,) = judge.claims("", "It opened in 1932.", ["It opened in 1932. It has eight lanes."])
assert claim.probability > 0.5
scores = HybridReranker().score("When does the ferry leave?", ["It leaves at seven.", "Bees fly."])
assert scores[0] > scores[1]
"""

COMMANDS = """
from sage_app.cli.main import run

document = sys.argv[2] + "/water-works.txt"
assert run(["segment", document]) == 0
assert run(["ingest", document, "--store", sys.argv[1]]) == 0
assert run(["ask", "How is the water cleaned?", "--store", sys.argv[1]]) == 0
"""

# Run by `test_layers`, where nothing but the core and the adapter is there.
LANGCHAIN = """
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from sage_core import SelectionConfig
from sage_langchain import MiniLMEmbeddings, SageCompressor, SageTextSplitter

pages = [Document("The ferry leaves at seven. It returns at dusk."), Document("Bees live in hives of wood.")]
store = InMemoryVectorStore(MiniLMEmbeddings())
store.add_documents(SageTextSplitter().split_documents(pages))
found = store.similarity_search("When does the ferry leave?")
best = SageCompressor(selection=SelectionConfig(min_k=1)).compress_documents(found, "When does it leave?")
assert best[0].page_content.startswith("The ferry")
"""

LLAMAINDEX = """
from llama_index.core import Document, VectorStoreIndex
from sage_core import SelectionConfig
from sage_llamaindex import MiniLMEmbedding, SageNodeParser, SageNodePostprocessor

pages = [Document(text="The ferry leaves at seven. It returns at dusk."), Document(text="Bees live in hives.")]
model = MiniLMEmbedding()
index = VectorStoreIndex(SageNodeParser()(pages), embed_model=model)
nodes = index.as_retriever().retrieve("When does the ferry leave?")
postprocessor = SageNodePostprocessor(selection=SelectionConfig(min_k=1))
best = postprocessor.postprocess_nodes(nodes, query_str="When does the ferry leave?")
assert best[0].text.startswith("The ferry")
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [CORE, COMMANDS], ids=["core", "commands"])
def test_nothing_offline_imports_a_framework_of_neural_networks(code: str, tmp_path: Path) -> None:
    check = "assert not Blocker.tried, Blocker.tried\n"
    command = [sys.executable, "-c", BLOCKER + code + check, str(tmp_path / "store"), str(DEMO)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_core_loads_numpy_and_the_standard_library_only() -> None:
    code = (
        "import sys, numpy\n"
        "before = {name.partition('.')[0] for name in sys.modules}\n"
        "import sage_core\n"
        "own = {name.partition('.')[0] for name in sys.modules} - before - sys.stdlib_module_names\n"
        "assert own == {'sage_core'}, own"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
