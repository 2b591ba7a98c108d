"""`sage-rag questions` and `sage-rag eval gate`."""

import json

from sage_app.cli.main import run

RETRIEVER = """
from pathlib import Path

PARTS = [p for f in sorted(Path("docs").glob("*.md")) for p in f.read_text().split("\\n\\n")]

def search(question):
    words = set(question.lower().split())
    return sorted(PARTS, key=lambda part: -len(words & set(part.lower().split())))[:3]

def worse(question):
    return search(question) if len(question) % 2 else []
"""


def test_from_documents_to_an_exit_code(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "docs").mkdir()
    for i in range(12):
        lines = [
            f"The keeper of lamp {i}{j} mends brass shutters number{i}x{j} before dusk." for j in range(3)
        ]
        (tmp_path / "docs" / f"{i}.md").write_text("\n\n".join([f"# Lamp {i}", *lines]))
    (tmp_path / "gate_app.py").write_text(RETRIEVER)
    assert run(["questions", "docs", "-o", "q.jsonl", "--limit", "30"]) == 0
    assert run(["questions", "docs", "-o", "q.jsonl"]) == 2  # nothing is overwritten
    gate = ["eval", "gate", "q.jsonl", "--retriever", "gate_app:search"]
    assert run([*gate]) == 2
    assert run([*gate, "--save", "base.json"]) == 0
    assert run([*gate, "--against", "base.json"]) == 0
    capsys.readouterr()
    assert (
        run(["eval", "gate", "q.jsonl", "--retriever", "gate_app:worse", "--against", "base.json", "--json"])
        == 1
    )
    printed = json.loads(capsys.readouterr().out)
    assert printed["comparison"]["worse"] is True and printed["comparison"]["lost"]
    assert run(["eval", "gate", "q.jsonl", "--retriever", "gate_app:worse", "--against", "base.json"]) == 1
    assert "WORSE" in capsys.readouterr().out
    assert run(["eval", "gate", "q.jsonl", "--against", "no.json"]) == 2
