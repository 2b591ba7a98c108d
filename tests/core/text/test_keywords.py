"""Words as search and ranking compare them, in scripts with and without spaces."""

import pytest

from sage_core.text.keywords import bm25_share, gram_share, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("मौसम कैसा है?", ["मौसम", "कैसा", "है"]),
        ("আবহাওয়া কেমন।", ["আবহাওয়া", "কেমন"]),
        ("汽车电池。iPhone15和", ["汽车", "车电", "电池", "iphone15", "和"]),
        ("น้ำที่นี่", ["น้ํา" + "ที่", "ที่นี่"]),
        ("Die Batterien des Autos", ["die", "batterien", "des", "auto"]),
        ("The batteries of the cars", ["battery", "car"]),
        ("كِتَابٌ كـبير", ["كتاب", "كبير"]),
        ("می‌خواهم", ["میخواهم"]),
    ],
)
def test_words_of_a_script(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_word_is_one_however_it_is_composed() -> None:
    assert words("Ubungen für alle: U\u0308bung") == words("Ubungen fu\u0308r alle: Übung")
    assert words("स\u095cक और पेड़ बड़े हैं") == words("स\u0921\u093cक और पेड\u093c बड\u093cे हैं")


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("汽车的电池能用多久?", "汽车电池通常可以用五年。", "火车站在城市的北边。"),
        ("रेल का किराया कितना है?", "रेल का किराया सौ रुपये है।", "मौसम आज अच्छा है और धूप है।"),
        ("แบตเตอรี่รถยนต์ใช้ได้นานแค่ไหน", "แบตเตอรี่ของรถยนต์ใช้ได้ห้าปี", "สถานีรถไฟอยู่ทางเหนือของเมือง"),
    ],
)
def test_the_right_passage_shares_more(question: str, right: str, wrong: str) -> None:
    for share in (bm25_share, gram_share):
        better, worse = share(words(question), [words(right), words(wrong)])
        assert better > 2 * worse
