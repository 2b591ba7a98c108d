"""The offline reranker: its parts by hand and as properties, and what it makes of any search's scores."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_core.errors import InputError, ModelError
from sage_core.ranking import HybridReranker, Place, link, vouch
from sage_core.ranking.calibration import Calibration, Logistic
from sage_core.ranking.features import MEANING, WORDS, Compared, meaning_matrix, standardized, word_matrix
from sage_core.ranking.protocol import score_candidates
from sage_core.selection.rules import EMPTY_BELOW
from sage_core.selection.scales import rank_order
from sage_core.text.keywords import bm25_share, gram_codes, gram_share

LISTS = st.lists(st.sampled_from(["lamp", "keeper", "tower", "salt", "灯台"]), max_size=12)
QUERY = "When was the lighthouse lit for the first time?"
TEXTS = [
    "Gulls nest on the roof of the boathouse. They leave in September.",
    "Building took four years. The lighthouse was first lit on 3 May 1871, in front of a small crowd.",
    "",
    "The lighthouse keeper kept bees.",
    "  \n ",
]


def test_bm25_is_lucene_s_formula_over_its_upper_bound():
    documents = [["lamp", "oil", "lamp"], ["keeper"], ["salt", "lamp", "wind", "sea"]]
    query = ["lamp", "keeper", "unknown"]
    mean = sum(map(len, documents)) / 3
    weights = {t: math.log(1 + (3 - n + 0.5) / (n + 0.5)) for t, n in zip(query, (2, 1, 0), strict=True)}

    def expected(document):
        total = sum(
            weights[t] * document.count(t) / (document.count(t) + 1.5 * (0.25 + 0.75 * len(document) / mean))
            for t in query
        )
        return total / sum(weights.values())

    np.testing.assert_allclose(bm25_share(query, documents), [expected(d) for d in documents], rtol=1e-9)


@given(LISTS, st.lists(LISTS, max_size=6))
def test_shares_lie_between_0_and_1_whatever_the_words(query, documents):
    for shares in (bm25_share(query, documents), gram_share(query, documents)):
        assert shares.shape == (len(documents),)
        assert np.isfinite(shares).all()
        assert ((shares >= 0) & (shares <= 1)).all()
    for document, share in zip(documents, bm25_share(query, documents), strict=True):
        assert (share > 0) == bool(set(query) & set(document))


def test_grams_find_parts_of_words():
    shares = gram_share(["governing"], [["govern"], ["lamp"], ["governing"], []])
    assert 0 < shares[0] < shares[2] == 1
    assert shares[1] == shares[3] == 0


def test_words_are_measured_by_the_best_of_the_list_unless_that_has_little():
    fits, long = ["lamp", "oil", "keeper"], [f"word{i}" for i in range(9)]
    strong = word_matrix("lamp oil keeper", [fits, fits[:1], ["gull"]])
    weak = word_matrix(" ".join(["lamp", *long]), [["lamp"], ["gull"]])
    assert strong[0, 2] == 1 > strong[1, 2] > strong[2, 2] == 0
    np.testing.assert_allclose(weak[0, 2], weak[0, :2].sum() / 0.5)
    assert weak[0, 2] < 1


def test_what_stands_out_counts_for_more_than_its_distance():
    matrix = meaning_matrix(np.array([-1.0, 1.0, 2.0, 3.5]))
    assert matrix.tolist() == [[-1, 0], [1, 0], [2, 0], [3.5, 1.5]]


def test_where_nothing_fits_the_best_is_no_answer():
    filler = [f"Gull number {i} nests on the roof of the boathouse." for i in range(40)]
    scores = [0.5 + 0.1 * math.sin(i) for i in range(40)]
    assert max(HybridReranker().score("What is the melting point of tungsten?", filler, scores)) < 0.05


@pytest.mark.parametrize("unknown", [None, math.nan, -math.inf])
def test_a_score_that_is_not_known_stands_with_the_last(unknown):
    np.testing.assert_allclose(standardized([1.0, unknown, 3.0]), [-1, -1, 1])


@pytest.mark.parametrize("scores", [[1e308, -1e308, 1e308], [1e-300, 2e-300], [math.inf, 2, 1]])
def test_very_large_and_very_small_scores_are_numbers(scores):
    found = standardized(scores)
    assert np.isfinite(found).all()
    assert found[0] == max(found) if scores[0] > scores[1] else found[1] == max(found)


SCORES = [0.31, 0.74, None, 0.42, 0.2]


@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_a_rising_straight_line_of_the_scores_changes_nothing(slope, shift):
    expected = HybridReranker().score(QUERY, TEXTS, SCORES)
    moved = [None if s is None else slope * s + shift for s in SCORES]
    np.testing.assert_allclose(HybridReranker().score(QUERY, TEXTS, moved), expected, rtol=1e-6)


def test_scores_count_beside_the_words():
    texts = ["The boat goes early.", "Gulls nest there."]
    for scores in ([0.8, 0.6], [0.6, 0.8]):
        found = HybridReranker().score(QUERY, texts, scores)
        assert found.index(max(found)) == scores.index(max(scores))
    found = HybridReranker().score(QUERY, [TEXTS[1], texts[0]], [0.6, 0.8])
    assert found[0] > found[1], "words outweigh what only the search says"


@pytest.mark.parametrize("scores", [None, [0.4] * 5, [None] * 5, [math.nan, None, 0.3, None, None]])
def test_without_scores_the_words_decide(scores):
    found = HybridReranker().score(QUERY, TEXTS, scores)
    assert found == HybridReranker().score(QUERY, TEXTS)
    assert rank_order(found)[:2] == [1, 3]


def test_one_candidate_is_judged_by_its_words():
    [alone] = HybridReranker().score(QUERY, [TEXTS[1]], [0.9])
    assert [alone] == HybridReranker().score(QUERY, [TEXTS[1]])
    assert alone > 0


@given(st.text(max_size=60), st.lists(st.tuples(st.text(max_size=80), st.none() | st.floats()), max_size=6))
def test_every_text_gets_a_probability(query, rows):
    texts, scores = [text for text, _ in rows], [score for _, score in rows]
    found = HybridReranker().score(query, texts, scores)
    assert len(found) == len(texts)
    for text, score in zip(texts, found, strict=True):
        assert type(score) is float
        assert 0 <= score <= 1
        if not text.strip():
            assert score == 0
        elif not query.strip():
            assert score == EMPTY_BELOW, "words deny nothing"


def test_a_question_in_another_language_is_denied_by_no_words():
    texts = ["The ferry leaves the island at seven.", "Bees live on the roof of the library.", " "]
    for question in ("Wann legt die Fähre von der Insel ab?", "渡轮几点离开?", "Why?"):
        scores = HybridReranker().score(question, texts, [0.5, 0.4, 0.1])
        assert scores[0] > scores[1] > scores[2] == 0 and scores[0] >= EMPTY_BELOW
    assert max(HybridReranker().score("What is the capital of Peru?", texts, [0.5, 0.4, 0.1])) < EMPTY_BELOW
    german = ["Die Fähre legt um sieben von der Insel ab.", "Die Bienen wohnen auf dem Dach und im Garten."]
    asked = "Wie heißt die Hauptstadt von Peru?"
    assert max(HybridReranker().score(asked, german, [0.5, 0.4])) < EMPTY_BELOW


def test_neighbors_do_not_turn_the_order_of_a_search_in_another_language_around():
    texts = [f"The bees of hive {i} fly out early in the morning." for i in range(8)]
    found = [0.7, *(0.5 - i / 99 for i in range(7))]
    scores = HybridReranker().score("मधुमक्खियाँ कब उड़ती हैं और कहाँ जाती हैं?", texts, found)
    links = link([None, *(Place("a", 60 * i, 60 * i + 59) for i in range(7))])
    lifted = vouch(scores, links, "probability")
    assert max(range(8), key=lambda i: lifted[i] or 0.0) == 0


HIVES = [f"Bees of hive {i} fly at {i}." for i in range(12)]
HIVES[:2] = ["The ferry leaves the capital harbor at seven.", "Céline Österby owns the Wi-Fi."]


@pytest.mark.parametrize(
    "question",
    [
        "When does the Titanic leave?",
        "Which town is the capital of Peru and of Chile?",
        "WHEN DOES THE FERRY LEAVE?",
        "Wann fährt das Schiff Titanic nach Peru?",
    ],
)
def test_capitals_change_no_probability(question: str):
    scores = [0.5 - i / 40 for i in range(12)]
    assert HybridReranker().score(question, HIVES, scores) == HybridReranker().score(
        question.lower(), HIVES, scores
    )


@given(st.permutations(range(len(TEXTS))))
def test_order_of_the_candidates_does_not_matter(order):
    found = HybridReranker().score(QUERY, TEXTS, SCORES)
    shuffled = HybridReranker().score(QUERY, [TEXTS[i] for i in order], [SCORES[i] for i in order])
    np.testing.assert_allclose(shuffled, [found[i] for i in order], rtol=1e-6)


def test_scores_must_be_one_per_text_and_numbers():
    with pytest.raises(InputError, match=r"1.*5"):
        HybridReranker().score(QUERY, TEXTS, [None])
    with pytest.raises(InputError, match="score 1"):
        HybridReranker().score(QUERY, TEXTS, [0.1, "high", 0.2, 0.3, 0.4])


LISTED = st.lists(st.text("abc\u00e9\u706f\U0001f35e", min_size=1, max_size=6), max_size=6)


@given(LISTED, st.lists(LISTED, min_size=1, max_size=5))
def test_grams_found_by_their_codes_are_those_in_the_text(query, documents):
    spaced = [f" {' '.join(d)} " if d else "" for d in documents]
    asked = f" {' '.join(query)} " if query else ""
    wanted = list(dict.fromkeys(asked[i : i + 4] for i in range(max(len(asked) - 3, min(len(asked), 1)))))
    shares = gram_share(query, documents)
    if not wanted:
        assert not shares.any()
        return
    has = np.array([[g in t if len(g) == 4 else g == t for g in wanted] for t in spaced], dtype=float)
    n = len(documents)
    weights = np.log1p((n - has.sum(axis=0) + 0.5) / (has.sum(axis=0) + 0.5))
    np.testing.assert_allclose(shares, np.minimum(has @ weights / weights.sum(), 1), rtol=1e-12)
    known = gram_share(query, documents, [gram_codes(d) for d in documents])
    assert known.tolist() == shares.tolist()


def test_a_cache_of_any_size_changes_nothing():
    expected = HybridReranker().score(QUERY, TEXTS, SCORES)
    for size in (0, 1, 3):
        reranker = HybridReranker(cache_size=size)
        for _ in range(2):
            assert reranker.score(QUERY, TEXTS, SCORES) == expected


def test_it_pickles_without_what_it_kept():
    reranker = HybridReranker()
    scores = reranker.score(QUERY, TEXTS)
    data = pickle.dumps(reranker)
    assert len(data) < 2_000
    assert pickle.loads(data).score(QUERY, TEXTS) == scores


def test_the_answer_ranks_first():
    reranker = HybridReranker()
    scores = reranker.score(QUERY, TEXTS, [0.29, 0.74, 0.0, 0.46, 0.0])
    best, second, third = (scores[i] for i in rank_order(scores)[:3])
    assert rank_order(scores)[:2] == [1, 3]
    assert best > 2 * second > 4 * third
    assert reranker.scale == "probability"
    assert reranker.name == "hybrid"


def test_a_long_text_is_judged_by_its_best_part():
    filler = " ".join(f"Gulls number {i} nest on the roof of the boathouse." for i in range(100))
    middle = f"{filler} {TEXTS[1]} {filler}"
    other = "The lighthouse was closed. " + filler + " " + filler + " It was first painted in 1871."
    short, long, scattered, none = HybridReranker().score(QUERY, [TEXTS[1], middle, other, filler])
    assert none < scattered < long
    assert long > short / 3


@pytest.mark.parametrize("text", ["x" * 100_000, "\r\n".join(["Salt."] * 5_000), "灯台" * 2_000, "." * 5_000])
def test_long_texts_of_any_kind_have_a_probability(text):
    assert 0 <= HybridReranker().score(QUERY, [text, TEXTS[1]])[0] < 0.2


def test_no_similarity_makes_a_chunk_certain():
    calibration = Logistic((1.0, 0.0, 0.0), 0.0, ceiling=0.8)
    features = np.array([[0.0, 0, 0], [1e6, 0, 0]])
    np.testing.assert_allclose(calibration.probability(features), [0.4, 0.8])
    loaded = Calibration.load()
    for model in (loaded.with_scores, loaded.words_only):
        assert 0.5 < model.ceiling <= 1


def test_better_evidence_never_lowers_the_probability():
    loaded = Calibration.load()
    for model in (loaded.with_scores, loaded.words_only):
        assert min(model.coefficients) >= 0 < sum(model.coefficients)


def test_calibrations_that_cannot_be_used(tmp_path):
    path = tmp_path / "calibration.json"
    with pytest.raises(ModelError, match="calibrate_reranker"):
        HybridReranker(calibration=path)
    words = {"intercept": 0, "coefficients": dict.fromkeys(WORDS, 1.0), "ceiling": 1}
    scored = {**words, "coefficients": dict.fromkeys((*MEANING, *WORDS), 1.0)}
    good = {"with_scores": scored, "words_only": words}
    path.write_text(json.dumps(good))
    assert Calibration.load(path).with_scores.coefficients == (1.0,) * 5
    for bad in (
        "[",
        "[]",
        '{"coefficients": {"cosine": 1}}',
        json.dumps({"with_scores": scored}),
        json.dumps({**good, "words_only": scored}),
        json.dumps({**good, "with_scores": {**scored, "intercept": "x"}}),
        json.dumps({**good, "with_scores": {**scored, "ceiling": 0}}),
    ):
        path.write_text(bad)
        with pytest.raises(ModelError):
            HybridReranker(calibration=str(path))
    with pytest.raises(InputError):
        HybridReranker(cache_size=-1)


def test_a_header_s_words_count_half():
    texts, headers = [["opens", "noon"], ["gull"]], [Compared.of("Harbor museum"), None]
    plain = word_matrix("harbor museum opens", texts)
    headed = word_matrix("harbor museum opens", texts, headers=headers)
    full = word_matrix("harbor museum opens", [["harbor", "museum", *texts[0]], texts[1]])
    np.testing.assert_allclose(headed[0, 0], (plain[0, 0] + full[0, 0]) / 2)
    assert plain[0, 1] < headed[0, 1] < full[0, 1]
    assert (headed[1] == 0).all()


def test_a_chunk_is_about_what_its_header_says():
    texts = ["Players advance by mining for resources.", "The sky is the limit, man, and that is the point."]
    headers, scores = ["No Man's Sky", ""], [0.8, 0.7]
    reranker = HybridReranker()
    alone = reranker.score("what is the point in no mans sky", texts, scores)
    headed = reranker.score("what is the point in no mans sky", texts, scores, headers)
    assert headed[0] > 2 * alone[0]
    assert score_candidates(
        reranker,
        "what is the point in no mans sky",
        texts,
        scores,
        headed=[f"{headers[0]}\n{texts[0]}", texts[1]],
    ) == reranker.score("what is the point in no mans sky", texts, scores, ["No Man's Sky\n", ""])


def test_headers_are_one_per_text():
    with pytest.raises(InputError, match="1 headers for 2 texts"):
        HybridReranker().score("Why?", ["a", "b"], None, ["Title"])
