"""Boundaries of texts that are not English: another model judges them, which knows no word."""

import numpy as np
import pytest

from sage_core.segmentation import Segmenter
from sage_core.segmentation.models import grams
from sage_core.segmentation.models.grams import gram_probabilities

VIOLIN_AND_COLUMBUS = {
    "German": [
        "Die Geige hat vier Saiten.", "Die Saiten der Geige werden in Quinten gestimmt.",
        "Man spielt die Geige mit einem Bogen.", "Im Jahr 1492 segelte Kolumbus nach Westen.",
        "Kolumbus erreichte im Oktober eine Insel.", "Auf der Insel traf Kolumbus Menschen.",
    ],
    "Russian": [
        "У скрипки четыре струны.", "Струны скрипки настроены по квинтам.", "На скрипке играют смычком.",
        "В 1492 году Колумб отплыл на запад.", "Колумб достиг острова в октябре.",
        "На острове Колумб встретил людей.",
    ],
    "Hindi": [
        "वायलिन में चार तार होते हैं।", "वायलिन के तार पंचम में मिलाए जाते हैं।", "वायलिन गज से बजाया जाता है।",
        "1492 में कोलंबस पश्चिम की ओर निकला।", "कोलंबस अक्टूबर में एक द्वीप पर पहुँचा।", "द्वीप पर कोलंबस लोगों से मिला।",
    ],
    "Thai": [
        "ไวโอลินมีสี่สาย", "สายของไวโอลินตั้งเป็นคู่ห้า", "ไวโอลินเล่นด้วยคันชัก",
        "ในปี 1492 โคลัมบัสแล่นเรือไปทางตะวันตก", "โคลัมบัสมาถึงเกาะในเดือนตุลาคม", "บนเกาะโคลัมบัสพบผู้คน",
    ],
    "Chinese": [
        "小提琴有四根弦。", "小提琴的弦按五度定音。", "演奏小提琴要用琴弓。", "1492年哥伦布向西航行。",
        "哥伦布在十月到达一座岛屿。", "哥伦布在岛屿上遇到了人。",
    ],
}  # fmt: skip


@pytest.mark.parametrize("language", VIOLIN_AND_COLUMBUS)
def test_a_new_subject_parts_sentences_in_any_language(language: str):
    same = gram_probabilities(VIOLIN_AND_COLUMBUS[language])
    assert same.argmin() == 2 and same[2] < 0.5


def test_the_default_asks_it_about_texts_that_are_not_english_and_only_those():
    german = " ".join(VIOLIN_AND_COLUMBUS["German"])
    english = (
        "The violin has four strings. They are tuned in fifths. In 1492 Columbus sailed west. He found land."
    )
    for counter in ("bert", "words"):
        default, named = Segmenter(counter=counter), Segmenter("context", counter=counter)
        found = [boundary.probability for boundary in default.boundaries(german)]
        assert found == gram_probabilities(VIOLIN_AND_COLUMBUS["German"]).tolist()
        assert named.boundaries(german) != default.boundaries(german)
        assert named.boundaries(english) == default.boundaries(english)
        together = default.segment_many([german, english, "", german])
        assert together == [default.segment(text) for text in (german, english, "", german)]


def test_a_long_document_is_judged_in_pieces(monkeypatch: pytest.MonkeyPatch):
    document = VIOLIN_AND_COLUMBUS["German"] * 60
    whole = gram_probabilities(document)
    monkeypatch.setattr(grams, "_PIECE", 50)
    pieces = gram_probabilities(document)
    assert len(pieces) == len(document) - 1
    # What is standardized is another stretch: nearly the same, and the same places stand out.
    assert np.corrcoef(whole, pieces)[0, 1] > 0.98


@pytest.mark.parametrize(
    "sentences", [[], ["a"], ["", ""], ["。"] * 3, ["0000", "¹"], ["\ud800", "\U0001f600"]]
)
def test_texts_without_letters_have_probabilities(sentences: list[str]):
    same = gram_probabilities(sentences)
    assert len(same) == max(len(sentences) - 1, 0) and np.isfinite(same).all()
