"""Parquet files in the hub's columns, and the hub itself: its real client against a small server of ours."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sage_eval.datasets import load_dataset
from sage_eval.datasets.hub import choose_files, hub_rows

from sage_core.errors import InputError, MissingExtraError

pytestmark = pytest.mark.slow

arrow = pytest.importorskip("pyarrow", reason='pyarrow is not installed: pip install "sage-rag[hub]"')
parquet = pytest.importorskip("pyarrow.parquet")

QUALITY = [
    {"article": "A lamp.", "question": "What?", "options": ["lamp", "wick"], "answer": 0, "hard": False},
    {"article": "A lamp.", "question": "Who?", "options": ["Ana", "Ida"], "answer": 1, "hard": True},
    {"article": "A well.", "question": "Why?", "options": ["dry", "deep"], "answer": 1, "hard": False},
]


def write(path: Path, rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    return path


def test_quality_rows(tmp_path):
    path = write(tmp_path / "x.parquet", QUALITY)
    data = load_dataset("quality", path)
    assert [d.text for d in data.documents] == ["A lamp.", "A well."]
    assert [(q.document, q.gold, q.hard) for q in data.questions] == [
        ("article 1", 0, False),
        ("article 1", 1, True),
        ("article 2", 1, False),
    ]


def test_a_folder_is_read_by_split(tmp_path):
    for split, rows in (("train", QUALITY[:1]), ("validation", QUALITY[1:])):
        write(tmp_path / "data" / f"{split}-00000-of-00001.parquet", rows)
    assert len(load_dataset("quality", tmp_path).questions) == 2
    assert len(load_dataset("quality", tmp_path, split="train").questions) == 1
    with pytest.raises(InputError, match="none of 2 Parquet files"):
        load_dataset("quality", tmp_path, split="test")


def test_qasper_rows_are_objects_of_lists(tmp_path):
    answer = {
        "unanswerable": False,
        "extractive_spans": ["two"],
        "yes_no": None,
        "free_form_answer": "",
        "evidence": ["We use two gauges."],
        "highlighted_evidence": [],
    }
    row = {
        "id": "1",
        "title": "Tides",
        "abstract": "We read tides.",
        "full_text": {"section_name": ["Method"], "paragraphs": [["We use two gauges."]]},
        "qas": {
            "question": ["How many?", "Why?"],
            "question_id": ["a", "b"],
            "answers": [
                {"answer": [answer, {**answer, "unanswerable": True}], "annotation_id": ["x", "y"]},
                {"answer": [{**answer, "extractive_spans": [], "yes_no": False}], "annotation_id": ["z"]},
            ],
        },
    }
    data = load_dataset("qasper", write(tmp_path / "test.parquet", [row]))
    assert data.documents[0].text == "Tides\n\nWe read tides.\n\nMethod\n\nWe use two gauges."
    first, second = data.questions
    assert (first.answers, second.answers) == (("two", "Unanswerable"), ("No",))
    assert first.evidence[0].span.of(data.documents[0].text) == "We use two gauges."


def test_narrativeqa_rows(tmp_path):
    document = {
        "id": "n",
        "kind": "gutenberg",
        "start": "Produced by Nobody",
        "end": "eBooks .",
        "summary": {"text": "A well runs dry.", "title": "The Well"},
        "text": "<html><pre>HEAD Produced by Nobody. <b>Dry.</b> new eBooks. FOOT</pre></html>",
    }
    rows = [
        {"document": document, "question": {"text": q}, "answers": [{"text": "Ida"}, {"text": "Ida"}]}
        for q in ("Who?", "Who left?")
    ]
    path = write(tmp_path / "test.parquet", rows)
    data = load_dataset("narrativeqa", path)
    assert [d.text for d in data.documents] == ["Produced by Nobody. Dry. new eBooks."]
    assert (data.documents[0].title, data.documents[0].abstract) == ("The Well", "A well runs dry.")
    assert [(q.id, q.answers) for q in data.questions] == [("n:1", ("Ida",)), ("n:2", ("Ida",))]


def test_triviaqa_rows(tmp_path):
    row = {
        "question": "Which river?",
        "question_id": "t1",
        "entity_pages": {"filename": ["Test.txt"], "title": ["Test"], "wiki_context": ["A stream."]},
        "search_results": {
            "filename": ["1.txt", "2.txt"],
            "title": ["A", "B"],
            "search_context": ["", "Fish."],
        },
        "answer": {"value": "Test", "aliases": ["River Test", "Test"]},
    }
    path = write(tmp_path / "validation.parquet", [row])
    data = load_dataset("triviaqa", path)
    assert data.documents[0].text == "Test\n\nA stream.\n\nB\n\nFish."
    assert data.questions[0].answers == ("Test", "River Test")
    assert [d.id for d in load_dataset("triviaqa", path, pooled=True).documents] == ["Test.txt", "2.txt"]


def test_squad_rows_are_gathered_into_articles(tmp_path):
    def row(key, title, context, *answers):
        found = {"text": list(answers), "answer_start": [context.index(a) for a in answers]}
        return {"id": key, "title": title, "context": context, "question": "?", "answers": found}

    rows = [
        row("a", "Bridge", "It burned in 1411.", "1411"),
        row("b", "Ford", "A ford is near.", "ford", "A ford"),
        row("c", "Bridge", "It burned in 1411.", "burned"),
        row("d", "Bridge", "Stone came later."),
    ]
    path = tmp_path / "validation.parquet"
    schema = arrow.Table.from_pylist(rows[:2]).schema
    parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), path)
    data = load_dataset("squad2", path)
    assert [d.text for d in data.documents] == ["It burned in 1411.\n\nStone came later.", "A ford is near."]
    assert {q.id: q.answers for q in data.questions} == {
        "a": ("1411",),
        "b": ("ford", "A ford"),
        "c": ("burned",),
        "d": ("",),
    }


def test_malformed_rows_are_named(tmp_path):
    path = write(tmp_path / "x.parquet", [QUALITY[0], {**QUALITY[1], "answer": 9}])
    with pytest.raises(InputError, match=r"x\.parquet, row 2: the right option is none of the 2"):
        load_dataset("quality", path)
    with pytest.raises(InputError, match=r"row 1: the field 'context' is missing"):
        load_dataset("squad", write(tmp_path / "y.parquet", [{"title": "t"}]))
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match=r"cannot read the Parquet file .*x\.parquet"):
        load_dataset("quality", path)


NAMES = [
    "rc/train-00000-of-00002.parquet",
    "rc/train-00001-of-00002.parquet",
    "rc/validation-00000-of-00001.parquet",
    "rc.wikipedia/validation/0000.parquet",
    "rc.web/partial-validation/0000.parquet",
]


def test_files_are_chosen_by_configuration_and_split():
    assert choose_files(NAMES, "rc", "train", "x") == NAMES[:2]
    assert choose_files(NAMES, "", "train", "x") == NAMES[:2]
    assert choose_files(NAMES, "rc.wikipedia", "validation", "x") == [NAMES[3]]
    assert choose_files(NAMES, "rc.web", "validation", "x") == [NAMES[4]]
    assert choose_files(NAMES, "", "test", "x") == []
    assert choose_files(["dev.parquet", "default/validation-0.parquet"], "", "validation", "x") == [
        "default/validation-0.parquet"
    ]
    with pytest.raises(InputError, match=r"several configurations: add one of rc, rc\.web, rc\.wikipedia"):
        choose_files(NAMES, "", "validation", "x")


@pytest.mark.parametrize("address", ["hf://", "hf://owner", "hf://a/b/c/d", "hf://a//b"])
def test_addresses_are_checked(address):
    with pytest.raises(InputError, match="write hf://owner/name"):
        hub_rows(address, "test")


@pytest.mark.parametrize("module", ["pyarrow.parquet", "huggingface_hub"])
def test_a_missing_library_names_its_extra(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"sage-rag\[hub\]"):
        load_dataset("quality")


def test_offline_says_what_to_do(monkeypatch):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match=r"cannot get emozilla/quality from the hub .*download it and give its path"
    ):
        load_dataset("quality")


class _Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as its client needs for public files: nothing in main, Parquet in the other branch."""

    root: Path
    asked: list[str]

    def do_HEAD(self):
        self._serve(body=False)

    def do_GET(self):
        self._serve(body=True)

    def _serve(self, *, body):
        self.asked.append(self.path)
        path = self.path.partition("?")[0].replace("%2F", "/")
        headers = {"X-Repo-Commit": "0" * 40}
        if path.startswith("/api/datasets/owner/tiny/"):
            names = ["plain/dev/0000.parquet"] if "refs/convert" in path else ["README.md"]
            if "/tree/" in path:
                content = json.dumps([{"type": "file", "path": n, "size": 1, "oid": "a"} for n in names])
            else:
                content = json.dumps(
                    {"id": "owner/tiny", "sha": "0" * 40, "siblings": [{"rfilename": n} for n in names]}
                )
            data, headers["Content-Type"] = content.encode(), "application/json"
        elif path.endswith("/plain/dev/0000.parquet"):
            data, headers["ETag"] = (self.root / "x.parquet").read_bytes(), '"abc"'
        else:
            self.send_error(404)
            return
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_args):
        pass


def test_rows_come_from_the_hub_with_its_own_client(tmp_path):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    write(tmp_path / "x.parquet", QUALITY)
    handler = type("Hub", (_Hub,), {"root": tmp_path, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = (
        "from sage_eval.datasets import load_dataset\n"
        "data = load_dataset('quality', 'hf://owner/tiny')\n"
        "print(data.source, [q.text for q in data.questions])\n"
        "try: load_dataset('quality', 'hf://owner/tiny', split='test')\n"
        "except ValueError as error: print(error)\n"
        "try: load_dataset('quality', 'hf://owner/none')\n"
        "except ValueError as error: print(error)\n"
    )
    port = server.server_address[1]
    settings = {
        "HF_ENDPOINT": f"http://127.0.0.1:{port}",
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path / "home"),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, **settings, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
            timeout=60,
        )
    finally:
        server.shutdown()
    assert done.returncode == 0, f"{done.stderr}\n{handler.asked}"
    first, no_split, no_set = done.stdout.strip().splitlines()
    assert first == "hf://owner/tiny ['What?', 'Who?', 'Why?']"
    assert "no Parquet file for the split 'test'" in no_split
    assert no_set.startswith("cannot get owner/none from the hub")
