"""Token counters: right counts, no special tokens, lone surrogates survived, picklable, one load for many threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sage_core.errors import InputError
from sage_core.segmentation import Segmenter
from sage_core.text.tokens import (
    CallableCounter,
    PieceCounter,
    TokenCounter,
    TokenizerCounter,
    bare_tokenizer,
    count_with,
    get_counter,
)
from sage_core.text.wordpiece import TOKENIZER_FILE, shared_wordpiece
from tests.fakes.scripts import SCRIPTS

NAMES = ["bert", "words"]


def vowels(text: str) -> int:
    return sum(text.count(letter) for letter in "aeiou")


@pytest.mark.parametrize("name", NAMES)
def test_counters_follow_the_protocol(name: str) -> None:
    counter = get_counter(name)
    assert isinstance(counter, TokenCounter)
    assert counter.name == name
    texts = ["", "One word.", "two  words\n", "naïve café", "\ud800 lone", "x" * 300]
    assert counter.count_many(texts) == [counter.count(text) for text in texts]
    again = pickle.loads(pickle.dumps(counter))
    assert again == counter
    assert again.count_many(texts) == counter.count_many(texts)


def test_known_counts() -> None:
    assert get_counter("bert").count("Unbelievable lighthouses, twice!") == 6
    assert get_counter("words").count(" a b\tc\n") == 3
    assert CallableCounter(len, "chars").count(" a b\tc\n") == 7
    assert get_counter("bert").count("") == 0


@pytest.mark.slow
@given(st.text())
def test_pieces_are_counted_as_by_the_tokenizers_library_does_where_it_knows_the_text(text: str) -> None:
    found = Tokenizer.from_file(str(TOKENIZER_FILE)).encode(text, add_special_tokens=False)
    assert PieceCounter().count(text) >= len(found)
    if "[UNK]" not in found.tokens and all(ord(sign) < 0x900 for sign in text):
        assert PieceCounter().count(text) == len(found)


@given(st.text())
def test_a_model_measures_sentences_as_the_counter_does(text: str) -> None:
    _, ids, tokens = shared_wordpiece().encode(["First.", text])
    assert tokens.tolist() == PieceCounter().count_many(["First.", text])
    assert (tokens >= ids).all()


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_unknown_runs_count_by_their_length(tiktoken_cache: None, script: str) -> None:
    text = SCRIPTS[script]
    large_vocabulary = get_counter("cl100k_base").count(text)
    assert large_vocabulary <= 1.3 * PieceCounter().count(text)
    if script not in ("georgian", "hindi"):  # BERT knows their letters and drops their vowel signs
        assert large_vocabulary <= 1.3 * TokenizerCounter(Tokenizer.from_file(str(TOKENIZER_FILE))).count(
            text
        )


def test_a_tokenizer_file_that_pads_and_cuts_does_neither_here() -> None:
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    assert count_with(bare_tokenizer(tokenizer), ["one two", "word " * 20]) == [2, 20]
    assert tokenizer.truncation["max_length"] == 8


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Zl", "Zp", "Cs"]))))
def test_additive_counters_add_up_over_spaces(texts: list[str]) -> None:
    for counter in (PieceCounter(), get_counter("words")):
        assert counter.count(" ".join(texts)) == sum(counter.count_many(texts))


def test_tiktoken_counts_special_tokens_as_text(tiktoken_cache: None) -> None:
    counter = get_counter("cl100k_base")
    assert counter.count("hello world") == 2
    assert counter.count("<|endoftext|>") > 1
    assert counter.count_many(["hello world", "\ud800"])[0] == 2


def test_any_function_is_a_counter() -> None:
    counter = CallableCounter(vowels, "vowels")
    assert counter.count_many(["aeiou", "xyz"]) == [5, 0]
    assert pickle.loads(pickle.dumps(counter)).count("banana") == 3
    with pytest.raises(InputError, match="name"):
        CallableCounter(vowels, "")
    with pytest.raises(InputError, match="function"):
        CallableCounter("vowels", "vowels")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "bart", "BAAI/bge-small-en-v1.5", None])
def test_errors_say_what_to_do(name: str) -> None:
    with pytest.raises(InputError, match=r"bert, words.*TokenizerCounter"):
        get_counter(name)


def test_threads_share_one_vocabulary() -> None:
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda n: get_counter("bert").count("word " * n), range(200)))
    assert counts == list(range(200))


# Ten languages that most people speak, and three more; written for this test.
FERRY = {
    "English": "The ferry leaves the harbor at seven every morning except on Sundays. Passengers buy their tickets "
    "on board and must arrive ten minutes before departure. In winter the crossing takes longer because of the ice.",
    "Chinese": "除星期日外，渡轮每天早上七点离开港口。乘客在船上买票，必须在出发前十分钟到达。"
    "冬天由于结冰，渡海需要更长的时间。",
    "Hindi": "रविवार को छोड़कर नौका हर सुबह सात बजे बंदरगाह से निकलती है। यात्री अपने टिकट नाव पर ही खरीदते हैं और उन्हें प्रस्थान से दस "
    "मिनट पहले पहुँचना होता है। सर्दियों में बर्फ के कारण पार करने में अधिक समय लगता है।",
    "Spanish": "El transbordador sale del puerto a las siete todas las mañanas excepto los domingos. Los pasajeros "
    "compran sus billetes a bordo y deben llegar diez minutos antes de la salida. En invierno la travesía dura más "
    "a causa del hielo.",
    "French": "Le ferry quitte le port à sept heures tous les matins sauf le dimanche. Les passagers achètent leurs "
    "billets à bord et doivent arriver dix minutes avant le départ. En hiver, la traversée dure plus longtemps à "
    "cause de la glace.",
    "Arabic": "تغادر العبّارة الميناء في الساعة السابعة كل صباح ما عدا أيام الأحد. يشتري الركاب تذاكرهم على متنها "
    "ويجب أن يصلوا قبل المغادرة بعشر دقائق. في الشتاء يستغرق العبور وقتًا أطول بسبب الجليد.",
    "Bengali": "রবিবার ছাড়া প্রতিদিন সকাল সাতটায় ফেরি বন্দর ছেড়ে যায়। যাত্রীরা ফেরিতে উঠে টিকিট কেনেন এবং ছাড়ার দশ মিনিট আগে "
    "তাঁদের পৌঁছাতে হয়। শীতকালে বরফের কারণে পার হতে বেশি সময় লাগে।",
    "Portuguese": "A balsa sai do porto às sete todas as manhãs, exceto aos domingos. Os passageiros compram os seus "
    "bilhetes a bordo e devem chegar dez minutos antes da partida. No inverno a travessia demora mais por causa do "
    "gelo.",
    "Russian": "Паром отходит из гавани в семь часов каждое утро, кроме воскресенья. Пассажиры покупают билеты на "
    "борту и должны прибыть за десять минут до отправления. Зимой переправа занимает больше времени из-за льда.",
    "Urdu": "فیری اتوار کے سوا ہر صبح سات بجے بندرگاہ سے روانہ ہوتی ہے۔ مسافر اپنے ٹکٹ جہاز پر خریدتے ہیں اور انہیں "
    "روانگی سے دس منٹ پہلے پہنچنا ہوتا ہے۔ سردیوں میں برف کی وجہ سے پار کرنے میں زیادہ وقت لگتا ہے۔",
    "German": "Die Fähre verlässt den Hafen jeden Morgen außer sonntags um sieben Uhr. Die Fahrgäste kaufen ihre "
    "Fahrkarten an Bord und müssen zehn Minuten vor der Abfahrt da sein. Im Winter dauert die Überfahrt wegen des "
    "Eises länger.",
    "Japanese": "フェリーは日曜日を除く毎朝七時に港を出発します。乗客は船内で切符を買い、出発の十分前までに到着しなければなりません。"
    "冬は氷のために渡るのに時間がかかります。",
    "Thai": "เรือข้ามฟากออกจากท่าเรือเวลาเจ็ดโมงเช้าทุกวันยกเว้นวันอาทิตย์ ผู้โดยสารซื้อตั๋วบนเรือและต้องมาถึงสิบนาทีก่อนเรือออก "
    "ในฤดูหนาวการข้ามใช้เวลานานขึ้นเพราะน้ำแข็ง",
}


@pytest.mark.parametrize("language", sorted(FERRY))
def test_translations_are_of_one_size(language: str) -> None:
    english = PieceCounter().count(FERRY["English"])
    assert get_counter("bert").count(FERRY["English"]) == english
    assert get_counter("bert").count(FERRY[language]) == pytest.approx(english, rel=0.2)


@pytest.mark.parametrize("language", sorted(FERRY))
def test_translations_are_cut_into_as_many_chunks(language: str) -> None:
    text = " ".join([FERRY[language]] * 20)
    counter = get_counter("bert")
    chunks = [span.of(text) for span in Segmenter().segment(text)]
    assert max(counter.count_many(chunks)) <= 130
    assert len(chunks) == pytest.approx(len(Segmenter().segment(" ".join([FERRY["English"]] * 20))), rel=0.25)


def test_english_keeps_its_pieces_whatever_names_are_in_it() -> None:
    text = (
        "The Tōkyō (東京) ferry, called “Κύμα”, was built by Škoda and is the oldest of the fleet — by far."
    )
    assert get_counter("bert").count(text) == PieceCounter().count(text)
