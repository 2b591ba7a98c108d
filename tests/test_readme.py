"""Runs every Python block of README as a user would paste it.

A comment before a block names who has set the scene: `<!-- run: llamaindex -->` and `<!-- run: langchain -->`
get models of the frameworks' own fake classes, `<!-- run: core -->` a sample file.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(?:<!-- run: (?P<scene>\w+) -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)
BLOCKS = [(m["scene"] or "none", m["code"]) for m in BLOCK.finditer((ROOT / "README.md").read_text("utf-8"))]

GUIDE = """# Island guide

The ferry to the island leaves the north pier at nine every weekday. On Sundays the ferry leaves at eleven,
because the crew rests in the morning. Tickets are sold on board.

The lighthouse was built of grey stone and is open from May to September. Its keeper gives a tour at noon.
"""


def scene_llamaindex(monkeypatch):
    pytest.importorskip("llama_index.core", reason="the llamaindex extra is not installed")
    from llama_index.core import MockEmbedding, Settings
    from llama_index.core.llms import MockLLM

    # The class reads its fields lazily from the environment: set them for this test alone.
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    monkeypatch.setattr(Settings, "_embed_model", MockEmbedding(embed_dim=8))
    return {}


def scene_langchain(monkeypatch):
    pytest.importorskip("langchain_core", reason="the langchain extra is not installed")
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.language_models import FakeListChatModel

    replies = ["The ferry leaves at eleven.", '{"reason": "right", "score": 9, "adjust": 0}']
    return {
        "llm": FakeListChatModel(responses=replies),
        "embeddings": DeterministicFakeEmbedding(size=16),
        "documents": [Document(page_content=GUIDE, metadata={"source": "guide.md"})],
    }


def scene_core(monkeypatch):
    return {}


def test_readme_has_an_example_for_each_way_in():
    assert {scene for scene, _ in BLOCKS} >= {"core", "llamaindex", "langchain"}


@pytest.mark.parametrize(
    ("scene", "code"), BLOCKS, ids=[f"{i}-{scene}" for i, (scene, _) in enumerate(BLOCKS)]
)
def test_block_runs(scene, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guide.md").write_text(GUIDE, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(GUIDE, encoding="utf-8")
    namespace = {**globals()[f"scene_{scene}"](monkeypatch), "__name__": "__main__"}
    exec(compile(code, f"README block ({scene})", "exec"), namespace)
    assert capsys.readouterr().out.strip(), "an example shows something"
