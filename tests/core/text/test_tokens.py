"""Token counters: right counts, no special tokens, lone surrogates survived, picklable, one load for many threads."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sage_core.errors import InputError, ModelError
from sage_core.text.tokens import CallableCounter, TokenCounter, bare_tokenizer, count_with, get_counter
from sage_core.text.wordpiece import TOKENIZER_FILE, shared_wordpiece
from tests.fakes.scripts import SCRIPTS

NAMES = ["bert", "words", "chars", str(TOKENIZER_FILE)]


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
    assert get_counter("chars").count(" a b\tc\n") == 7
    assert get_counter("bert").count("") == 0


@pytest.mark.slow
@given(st.text())
def test_bert_counts_as_the_tokenizers_library_does_where_it_knows_the_text(text: str) -> None:
    found = Tokenizer.from_file(str(TOKENIZER_FILE)).encode(text, add_special_tokens=False)
    assert get_counter("bert").count(text) >= len(found)
    if "[UNK]" not in found.tokens and all(ord(sign) < 0x900 for sign in text):
        assert get_counter("bert").count(text) == len(found)


@given(st.text())
def test_a_model_measures_sentences_as_the_counter_does(text: str) -> None:
    _, ids, tokens = shared_wordpiece().encode(["First.", text])
    assert tokens.tolist() == get_counter("bert").count_many(["First.", text])
    assert (tokens >= ids).all()


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_unknown_runs_count_by_their_length(tiktoken_cache: None, script: str) -> None:
    text = SCRIPTS[script]
    large_vocabulary = get_counter("cl100k_base").count(text)
    assert large_vocabulary <= 1.3 * get_counter("bert").count(text)
    if script not in ("georgian", "hindi"):  # BERT knows their letters and drops their vowel signs
        assert large_vocabulary <= 1.3 * get_counter(str(TOKENIZER_FILE)).count(text)


def test_a_tokenizer_file_that_pads_and_cuts_does_neither_here() -> None:
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    assert count_with(bare_tokenizer(tokenizer), ["one two", "word " * 20]) == [2, 20]
    assert tokenizer.truncation["max_length"] == 8


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cf", "Zl", "Zp", "Cs"]))))
def test_additive_counters_add_up_over_spaces(texts: list[str]) -> None:
    for name in ("bert", "words"):
        counter = get_counter(name)
        assert counter.count(" ".join(texts)) == sum(counter.count_many(texts))


def test_tiktoken_counts_special_tokens_as_text(tiktoken_cache: None) -> None:
    counter = get_counter("cl100k_base")
    assert counter.count("hello world") == 2
    assert counter.count("<|endoftext|>") > 1
    assert counter.count_many(["hello world", "\ud800"])[0] == 2


def test_a_folder_with_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(TOKENIZER_FILE.read_bytes())
    assert get_counter(str(tmp_path)).count("Three short words") == 3


def test_any_function_is_a_counter() -> None:
    counter = CallableCounter(vowels, "vowels")
    assert counter.count_many(["aeiou", "xyz"]) == [5, 0]
    assert pickle.loads(pickle.dumps(counter)).count("banana") == 3
    with pytest.raises(InputError, match="name"):
        CallableCounter(vowels, "")
    with pytest.raises(InputError, match="function"):
        CallableCounter("vowels", "vowels")  # type: ignore[arg-type]


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bert"):
        get_counter("")
    with pytest.raises(InputError, match="nothing-here"):
        get_counter(str(tmp_path / "nothing-here"))
    with pytest.raises(ModelError, match=r"bert, words, chars"):
        get_counter("nothing-here").count("x")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError):
        get_counter(str(tmp_path)).count("x")


def test_threads_share_one_vocabulary() -> None:
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda n: get_counter("bert").count("word " * n), range(200)))
    assert counts == list(range(200))
