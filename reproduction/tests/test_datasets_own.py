"""Our own format, the development sets, and what `load_dataset` does with any set."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest
from sage_eval.datasets import dataset_names, load_dataset, save_dataset
from sage_eval.datasets.load import DEV_SETS
from sage_eval.records import Dataset, EvalDocument, EvalQuestion, Evidence

from sage_core.errors import InputError
from sage_core.text.spans import Span

DOCUMENTS = [
    {"doc_id": "mill", "title": "The mill", "text": "The mill stands by the weir. Its wheel is oak."},
    {"doc_id": "ferry", "title": "The ferry", "text": "A ferry crosses at noon.", "abstract": "Times."},
]
QUESTIONS = [
    {
        "qid": "q1",
        "doc_id": "mill",
        "question": "What is the wheel made of?",
        "answers": ["oak"],
        "evidence": [
            {"start": 29, "end": 46, "text": "Its wheel is oak."},
            {"doc_id": "ferry", "start": 0, "end": 24},
        ],
    },
    {
        "qid": "q2",
        "doc_id": "ferry",
        "question": "When does it cross?",
        "options": ["at dawn", "at noon"],
        "gold": 1,
        "answers": ["at noon"],
        "hard": True,
    },
]


def write(folder, documents=DOCUMENTS, questions=QUESTIONS, name="tiny", zipped=False):
    for kind, rows in (("docs", documents), ("questions", questions)):
        text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        if zipped:
            (folder / f"{name}_{kind}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"{name}_{kind}.jsonl").write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("zipped", [False, True])
def test_a_pair_is_found_by_stem_folder_or_either_file(tmp_path, zipped):
    stem = write(tmp_path, zipped=zipped)
    ending = ".jsonl.gz" if zipped else ".jsonl"
    sets = [
        load_dataset("jsonl", path)
        for path in (stem, tmp_path, f"{stem}_docs{ending}", f"{stem}_questions{ending}")
    ]
    assert all(s == sets[0] for s in sets)
    data = load_dataset(str(stem))
    assert data.documents == (
        EvalDocument("mill", DOCUMENTS[0]["text"], "The mill"),
        EvalDocument("ferry", DOCUMENTS[1]["text"], "The ferry", "Times."),
    )
    assert data.questions[0].evidence == (Evidence("mill", Span(29, 46)), Evidence("ferry", Span(0, 24)))
    assert data.questions[1] == EvalQuestion(
        "q2", "ferry", "When does it cross?", ("at noon",), (), ("at dawn", "at noon"), 1, True
    )
    assert data.source.endswith(f"tiny_questions{ending}")
    assert not data.pooled


def test_what_is_saved_is_loaded_again(tmp_path):
    data = load_dataset(str(write(tmp_path)), pooled=True)
    saved = save_dataset(data, tmp_path / "new folder" / "copy")
    again = load_dataset("jsonl", saved[0], pooled=True)
    assert (again.documents, again.questions, again.pooled) == (data.documents, data.questions, True)
    before = [p.read_bytes() for p in saved]
    save_dataset(again, tmp_path / "new folder" / "copy")
    assert [p.read_bytes() for p in saved] == before


def broken(change, **fields):
    """The questions with the first changed."""
    return [{**QUESTIONS[0], **fields, **change}, QUESTIONS[1]]


@pytest.mark.parametrize(
    ("documents", "questions", "message"),
    [
        (DOCUMENTS, ["{nothing"], r"tiny_questions\.jsonl, line 1: not valid JSON"),
        (DOCUMENTS, [QUESTIONS[0], "[1]"], r"line 2: .*one JSON object a line, not \[1\]"),
        ([{"doc_id": "mill"}], QUESTIONS, r"tiny_docs\.jsonl, line 1: the field 'text' is missing"),
        ([DOCUMENTS[0], DOCUMENTS[0]], QUESTIONS, r"line 2: there is a document 'mill' already"),
        ([{**DOCUMENTS[0], "text": None}], QUESTIONS, r"'text' must be a text, not None"),
        (DOCUMENTS, [QUESTIONS[1], QUESTIONS[1]], r"line 2: there is a question 'q2' already"),
        (DOCUMENTS, broken({"doc_id": "barn"}), r"line 1: there is no document 'barn'"),
        (DOCUMENTS, broken({"answers": "oak"}), r"'answers' must be a list of texts, not 'oak'"),
        (DOCUMENTS, broken({"answers": [1]}), r"'answers' must be a list of texts"),
        (DOCUMENTS, broken({"gold": 4}), r"gold is 4, but there are 0 options"),
        (DOCUMENTS, broken({"gold": True}), r"'gold' must be a whole number"),
        (DOCUMENTS, broken({"hard": "very"}), r"'hard' must be true or false"),
        (DOCUMENTS, broken({"evidence": [7]}), r"line 1, evidence\[0\]: must be an object"),
        (DOCUMENTS, broken({"evidence": [{"start": 0}]}), r"evidence\[0\]: the field 'end' is missing"),
        (DOCUMENTS, broken({"evidence": [{"start": 9, "end": 99}]}), r"\(9, 99\) is no part of document 'mill'"),
        (DOCUMENTS, broken({"evidence": [{"start": 5, "end": 5}]}), r"\(5, 5\) is no part"),
        (DOCUMENTS, broken({"evidence": [{"start": 0, "end": 8, "text": "Its mill"}]}), r"are 'The mill', not"),
        (DOCUMENTS, broken({"evidence": [{"doc_id": "x", "start": 0, "end": 8}]}), r"no document 'x'"),
        (DOCUMENTS, [], r"no questions in"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_named_with_its_line(tmp_path, documents, questions, message):
    stem = write(tmp_path, documents, questions)
    with pytest.raises(InputError, match=message):
        load_dataset(str(stem))


def test_missing_and_damaged_files_are_told(tmp_path):
    with pytest.raises(InputError, match=r"no .*none_docs\.jsonl"):
        load_dataset("jsonl", tmp_path / "none")
    with pytest.raises(InputError, match="found none"):
        load_dataset("jsonl", tmp_path)
    write(tmp_path, zipped=True)
    whole = (tmp_path / "tiny_docs.jsonl.gz").read_bytes()
    (tmp_path / "tiny_docs.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="download complete"):
        load_dataset("jsonl", tmp_path)
    (tmp_path / "tiny_docs.jsonl.gz").write_bytes(gzip.compress(b'{"doc_id": "\xff"}\n'))
    with pytest.raises(InputError, match="not UTF-8"):
        load_dataset("jsonl", tmp_path)
    write(tmp_path, name="second")
    with pytest.raises(InputError, match="found second, tiny"):
        load_dataset("jsonl", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "qualty"}, "there is no data set 'qualty'; there are quality"),
        ({"name": "qualty", "path": "/"}, "there is no data set 'qualty'"),
        ({"name": "jsonl"}, "give the path"),
        ({"name": "dev/squad2_dev16", "split": "test"}, "has no splits"),
        ({"name": "quality", "path": "nowhere.dev"}, "no file or folder nowhere.dev"),
    ],
)
def test_wrong_arguments_say_what_is_right(arguments, message):
    with pytest.raises(InputError, match=message):
        load_dataset(**arguments)


def test_a_sample_draws_the_same_questions_for_the_same_seed(tmp_path):
    questions = [{**QUESTIONS[1], "qid": f"q{i}", "doc_id": ("mill", "ferry")[i % 2]} for i in range(40)]
    whole = load_dataset(str(write(tmp_path, questions=questions)))
    some = whole.sample(5, seed=1)
    assert [q.id for q in some.questions] == [q.id for q in whole.sample(5, seed=1).questions]
    assert [q.id for q in some.questions] != [q.id for q in whole.sample(5, seed=2).questions]
    assert len(whole.sample(99).questions) == 40
    assert len(whole.sample(1).documents) == 1  # only the one asked about
    pooled = load_dataset(str(tmp_path / "tiny"), pooled=True)
    assert len(pooled.sample(1).documents) == 2


def test_repeated_ids_are_named():
    document = EvalDocument("d", "text")
    with pytest.raises(InputError, match="documents with the same id: d"):
        Dataset("x", (document, document), ())
    question = EvalQuestion("q", "d", "?")
    with pytest.raises(InputError, match="questions with the same id: q"):
        Dataset("x", (document,), (question, question))


@pytest.mark.parametrize(
    ("name", "documents", "questions", "with_evidence"),
    [
        ("squad2_dev16", 16, 2910, 2910),
        ("clapnq_dev", 600, 300, 299),
        ("hotpot_sample", 100, 100, 100),
        ("onestopqa", 30, 486, 486),
        ("cuad_leval", 23, 154, 154),
        ("nq_leval", 21, 109, 33),
        ("quality_leval", 8, 94, 0),
        ("qasper_leval", 12, 89, 17),
    ],
)
def test_every_development_set_loads(sage_data, monkeypatch, name, documents, questions, with_evidence):
    monkeypatch.setenv("SAGE_DATA", str(sage_data))
    data = load_dataset(f"dev/{name}")
    assert (len(data.documents), len(data.questions)) == (documents, questions)
    assert sum(bool(q.evidence) for q in data.questions) == with_evidence
    assert data.pooled is (name in ("squad2_dev16", "clapnq_dev", "hotpot_sample", "onestopqa"))
    assert load_dataset(f"dev/{name}", sage_data / "dev").questions == data.questions
    if name == "onestopqa":
        assert all(":Adv:" in d.id for d in data.documents)
    if name in ("onestopqa", "quality_leval"):
        assert all(q.options[q.gold] in q.answers for q in data.questions)


def test_a_missing_development_set_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("SAGE_DATA", str(tmp_path))
    with pytest.raises(InputError, match="set SAGE_DATA"):
        load_dataset("dev/squad2_dev16")
    (tmp_path / "dev").mkdir()
    write(tmp_path / "dev")
    with pytest.raises(InputError, match="there are tiny"):
        load_dataset("dev/squad2_dev16")
    assert len(load_dataset("dev/tiny").questions) == 2


def test_all_names_have_a_line_about_them():
    names = dataset_names()
    assert {"quality", "qasper", "narrativeqa", "triviaqa", "squad", "jsonl"} <= names.keys()
    assert {f"dev/{name}" for name in DEV_SETS} <= names.keys()
    assert all(names.values())


@pytest.mark.slow
def test_importing_data_sets_and_metrics_loads_nothing_heavy():
    code = (
        "import sage_eval.datasets, sage_eval.metrics, sys;"
        "print(sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("torch", "nltk", "rouge_score", "pyarrow", "huggingface_hub", "lxml", "scipy", "sklearn"):
        assert f"'{name}'" not in done.stdout
