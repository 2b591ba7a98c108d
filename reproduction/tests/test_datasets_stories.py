"""NarrativeQA and TriviaQA, whose texts lie in files of their own: tiny files of ours."""

from __future__ import annotations

import csv
import json

import pytest
from sage_eval.datasets import load_dataset

from sage_core.errors import InputError

LISTING = [
    "document_id",
    "set",
    "kind",
    "story_url",
    "story_file_size",
    "wiki_url",
    "wiki_title",
    "story_word_count",
    "story_start",
    "story_end",
]
PLAIN = "HEADER of new eBooks.\r\nProduced by Nobody\r\n\r\nThe well ran dry, and \x93Ida\x94 left.\r\nEnd of new eBooks.\r\nFOOTER"
PAGE = "<html><head><script>if ( window ) {}</script></head><body><pre>THE WELL Written by Nobody\n\nIDA goes.\n\nFADE   OUT.</pre><p>advert</p></body></html>"


def write_csv(path, header, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


@pytest.fixture
def narrativeqa(tmp_path):
    write_csv(
        tmp_path / "documents.csv",
        LISTING,
        ["book", "test", "gutenberg", "u", 1, "w", "The Well", 9, "Produced by Nobody", "new eBooks ."],
        ["film", "test", "movie", "u", 1, "w", "The Well (film)", 9, "if ( window", "FADE OUT ."],
        ["other", "train", "movie", "u", 1, "w", "Elsewhere", 9, "x", "y"],
        ["early", "valid", "movie", "u", 1, "w", "Early", 9, "not in it", "neither"],
    )
    header = "document_id,set,question,answer1,answer2,question_tokenized,answer1_tokenized,answer2_tokenized"
    write_csv(
        tmp_path / "qaps.csv",
        header.split(","),
        ["book", "test", "Why does Ida leave?", "The well is dry.", "No water", "", "", ""],
        ["film", "test", "Who goes?", "Ida", "Ida", "", "", ""],
        ["book", "test", "Who leaves, and what of\nit?", "Ida", "", "", "", ""],
        ["other", "train", "?", "x", "y", "", "", ""],
        ["early", "valid", "?", "x", "y", "", "", ""],
    )
    write_csv(
        tmp_path / "third_party" / "wikipedia" / "summaries.csv",
        ["document_id", "set", "summary", "summary_tokenized"],
        ["book", "test", " A well runs dry.\n\nIda leaves. ", ""],
        ["film", "test", "Ida goes.", ""],
    )
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "book.content").write_bytes(
        PLAIN.encode("cp1252", "replace").replace(b"?Ida?", b"\x93Ida\x94")
    )
    (tmp_path / "tmp" / "film.content").write_text(PAGE)
    (tmp_path / "tmp" / "early.content").write_text("All of it. Café.")
    return tmp_path


def test_narrativeqa_stories_are_cut_at_their_marks(narrativeqa):
    data = load_dataset("narrativeqa", narrativeqa)
    book, film = data.documents
    assert (book.title, book.abstract) == ("The Well", "A well runs dry.\n\nIda leaves.")
    assert book.text == "Produced by Nobody\n\nThe well ran dry, and “Ida” left.\nEnd of new eBooks."
    assert film.text == "THE WELL Written by Nobody\n\nIDA goes.\n\nFADE   OUT."  # its script is no text
    assert [(q.id, q.document, q.answers) for q in data.questions] == [
        ("book:1", "book", ("The well is dry.", "No water")),
        ("film:1", "film", ("Ida",)),
        ("book:2", "book", ("Ida",)),
    ]
    assert data.questions[2].text == "Who leaves, and what of\nit?"


def test_narrativeqa_without_marks_keeps_the_whole_story(narrativeqa):
    assert load_dataset("narrativeqa", narrativeqa, split="dev").documents[0].text == "All of it. Café."
    (narrativeqa / "third_party" / "wikipedia" / "summaries.csv").unlink()
    assert load_dataset("narrativeqa", narrativeqa, split="valid").documents[0].abstract == ""
    with pytest.raises(InputError, match=r"summaries\.csv"):
        load_dataset("narrativeqa-summaries", narrativeqa)


def test_narrativeqa_summaries_need_no_stories(narrativeqa):
    (narrativeqa / "tmp" / "film.content").unlink()
    data = load_dataset("narrativeqa-summaries", narrativeqa / "documents.csv")
    assert [d.text for d in data.documents] == ["A well runs dry.\n\nIda leaves.", "Ida goes."]
    assert all(d.abstract == "" for d in data.documents)
    with pytest.raises(InputError, match=r"no summary of document 'early'; skip_missing"):
        load_dataset("narrativeqa-summaries", narrativeqa, split="valid")


def test_missing_stories_are_told_or_left_out(narrativeqa):
    (narrativeqa / "tmp" / "film.content").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"documents\.csv, line 3: the story is missing.*film\.content.*download_stories"
    ):
        load_dataset("narrativeqa", narrativeqa)
    data = load_dataset("narrativeqa", narrativeqa, skip_missing=True)
    assert [d.id for d in data.documents] == ["book"]
    assert [q.id for q in data.questions] == ["book:1", "book:2"]


def test_malformed_narrativeqa_is_named(narrativeqa):
    write_csv(narrativeqa / "qaps.csv", ["document_id", "set", "question"])
    with pytest.raises(InputError, match=r"qaps\.csv, line 1: no column answer1, answer2"):
        load_dataset("narrativeqa", narrativeqa)
    header = ["document_id", "set", "question", "answer1", "answer2"]
    write_csv(narrativeqa / "qaps.csv", header, ["book", "test", "?"])
    with pytest.raises(InputError, match=r"line 2: the row must have 5 cells"):
        load_dataset("narrativeqa", narrativeqa)
    write_csv(narrativeqa / "qaps.csv", header, ["book", "test", "?", "a", "b", "c"])
    with pytest.raises(InputError, match=r"line 2: the row must have 5 cells"):
        load_dataset("narrativeqa", narrativeqa)
    write_csv(narrativeqa / "qaps.csv", header, ["ghost", "test", "?", "a", "b"])
    with pytest.raises(InputError, match=r"line 2: there is no document 'ghost'"):
        load_dataset("narrativeqa", narrativeqa)
    with pytest.raises(InputError, match=r"no documents\.csv of NarrativeQA in the folder"):
        load_dataset("narrativeqa", narrativeqa / "tmp")


# --- TriviaQA


def trivia(key, wiki=(), web=(), **fields):
    return {
        "Question": "Which river? ",
        "QuestionId": key,
        "QuestionSource": "ours",
        "Answer": {
            "Value": "River Test",
            "Aliases": ["The Test", "River Test"],
            "NormalizedAliases": ["test", "river test"],
            "HumanAnswers": ["Test"],
        },
        "EntityPages": [
            {"Filename": f, "Title": f.removesuffix(".txt"), "DocSource": "Search"} for f in wiki
        ],
        "SearchResults": [{"Filename": f, "Title": "A page", "Rank": 0} for f in web],
        **fields,
    }


def write_trivia(root, *questions, name="wikipedia-dev.json", **fields):
    path = root / "qa" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(
            {"Data": list(questions), "Domain": "Wikipedia", "Version": 1.0, "VerifiedEval": False, **fields}
        )
    )
    return path


@pytest.fixture
def triviaqa(tmp_path):
    pages = {
        "wikipedia/Test.txt": "The Test is a chalk stream.\n",
        "wikipedia/Itchen.txt": "The Itchen joins it.",
        "web/12/12_1.txt": "Anglers love the Test.",
    }
    for name, text in pages.items():
        path = tmp_path / "evidence" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write_trivia(
        tmp_path,
        trivia("t1", wiki=["Test.txt", "Itchen.txt", "Test.txt"], web=["12/12_1.txt"]),
        trivia("t2", wiki=["Itchen.txt"]),
    )
    return tmp_path


def test_triviaqa_joins_the_pages_of_a_question(triviaqa):
    data = load_dataset("triviaqa", triviaqa)
    first, second = data.documents
    assert first.text == (
        "Test\n\nThe Test is a chalk stream.\n\nItchen\n\nThe Itchen joins it.\n\nA page\n\nAnglers love the Test."
    )
    assert (first.id, first.title, second.id) == ("t1", "Test", "t2")
    assert data.questions[0].answers == ("River Test", "The Test", "Test")
    assert data.questions[0].text == "Which river?"
    assert not data.pooled


def test_pooled_triviaqa_has_every_page_once(triviaqa):
    data = load_dataset("triviaqa", triviaqa / "qa" / "wikipedia-dev.json", pooled=True)
    assert [d.id for d in data.documents] == ["wikipedia/Test.txt", "wikipedia/Itchen.txt", "web/12/12_1.txt"]
    assert [q.document for q in data.questions] == ["wikipedia/Test.txt", "wikipedia/Itchen.txt"]
    assert data.pooled


def test_the_verified_part_is_what_it_says(triviaqa):
    page = {"Filename": "Test.txt", "Title": "Test"}
    path = write_trivia(
        triviaqa,
        trivia("in", EntityPages=[{**page, "DocPartOfVerifiedEval": True}, {"Filename": "Itchen.txt", "DocPartOfVerifiedEval": False}], QuestionPartOfVerifiedEval=True),
        trivia("out", wiki=["Itchen.txt"], QuestionPartOfVerifiedEval=False),
        name="verified-wikipedia-dev.json",
        VerifiedEval=True,
    )  # fmt: skip
    data = load_dataset("triviaqa", path)
    assert [d.text for d in data.documents] == ["Test\n\nThe Test is a chalk stream."]


def test_a_limit_reads_only_the_pages_it_needs(triviaqa):
    names = [f"q{i}" for i in range(30)]
    for name in names[:20]:
        (triviaqa / "evidence" / "wikipedia" / f"{name}.txt").write_text(f"About {name}.")
    write_trivia(triviaqa, *[trivia(name, wiki=[f"{name}.txt"]) for name in names[:20]])
    some = load_dataset("triviaqa", triviaqa, limit=5, seed=3)
    ids = [q.id for q in some.questions]
    assert ids == sorted(ids, key=names.index)
    assert ids == [q.id for q in load_dataset("triviaqa", triviaqa, limit=5, seed=3).questions]
    assert any(
        ids != [q.id for q in load_dataset("triviaqa", triviaqa, limit=5, seed=s).questions] for s in (4, 5)
    )
    for name in set(names[:20]) - set(ids):
        (triviaqa / "evidence" / "wikipedia" / f"{name}.txt").unlink()
    assert load_dataset("triviaqa", triviaqa, limit=5, seed=3) == some
    # Five are found whatever is missing, as long as there are five.
    found = load_dataset("triviaqa", triviaqa, limit=5, seed=8, skip_missing=True)
    assert {q.id for q in found.questions} == set(ids)


def test_the_test_split_of_triviaqa_has_no_answers(triviaqa):
    question = trivia("t", web=["12/12_1.txt"])
    del question["Answer"]
    write_trivia(triviaqa, question, name="web-test-without-answers.json")
    write_trivia(triviaqa, question, name="web-test.json")
    assert load_dataset("triviaqa-web", triviaqa, split="test").questions[0].answers == ()


def test_missing_pages_are_told_or_left_out(triviaqa):
    write_trivia(triviaqa, trivia("t1", wiki=["Gone.txt", "Test.txt"]), trivia("t2", wiki=["Gone.txt"]))
    with pytest.raises(
        InputError, match=r"Data\[0\], EntityPages\[0\]: the page is missing.*Gone\.txt.*unpack"
    ):
        load_dataset("triviaqa", triviaqa)
    data = load_dataset("triviaqa", triviaqa, skip_missing=True)
    assert [q.id for q in data.questions] == ["t1"]
    write_trivia(triviaqa, trivia("t3"))
    with pytest.raises(InputError, match="'t3' has no page of evidence"):
        load_dataset("triviaqa", triviaqa)


@pytest.mark.parametrize("name", ["../../secret.txt", "/etc/hostname"])
def test_file_names_do_not_lead_out_of_the_evidence(triviaqa, name):
    (triviaqa / "secret.txt").write_text("secret")
    write_trivia(triviaqa, trivia("t", wiki=[name]))
    with pytest.raises(InputError, match="leads out of the folder"):
        load_dataset("triviaqa", triviaqa, skip_missing=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "the field 'Data' is missing"),
        (
            {"Data": [{"QuestionId": "q", "Question": "?", "Answer": "x"}]},
            r"Data\[0\]: 'Answer' must be an object",
        ),
        (
            {"Data": [{"QuestionId": "q", "Question": "?", "Answer": {}}]},
            r"Answer: the field 'Value' is missing",
        ),
        ({"Data": [{"Question": "?"}]}, r"Data\[0\]: the field 'QuestionId' is missing"),
        ({"Data": [{"QuestionId": "q", "EntityPages": "x"}]}, r"'EntityPages' must be a list of objects"),
    ],
)
def test_malformed_triviaqa_is_named(tmp_path, content, message):
    path = tmp_path / "wikipedia-dev.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        load_dataset("triviaqa", path)
