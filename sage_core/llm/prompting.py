"""What prompts share: quoted material kept apart from instructions, and the sentence for "no answer"."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sage_core._checks import checked_options
from sage_core.text.language import language_of


class Phrases(NamedTuple):
    """What answers say of themselves, in one language.

    Attributes:
        no_answer: Where the passages do not hold the answer.
        closest: How an answer without an LLM begins, which shows passages, before a colon.
    """

    no_answer: str
    closest: str


_TABLE = """
English: The documents do not say. | Closest to an answer
Chinese: 文件中没有说明。 | 最接近的段落
Hindi: दस्तावेज़ों में यह नहीं बताया गया है। | सबसे मिलता-जुलता अंश
Spanish: Los documentos no lo dicen. | El pasaje más cercano
French: Les documents ne le disent pas. | Le passage le plus proche
Arabic: لا تذكر الوثائق ذلك. | أقرب مقطع
Bengali: নথিগুলোতে তা বলা নেই। | সবচেয়ে কাছের অংশ
Portuguese: Os documentos não dizem. | A passagem mais próxima
Russian: В документах этого не сказано. | Самый близкий отрывок
Urdu: دستاویزات میں یہ نہیں بتایا گیا۔ | سب سے قریبی اقتباس
German: In den Dokumenten steht das nicht. | Die nächste Stelle
Japanese: 文書には書かれていません。 | 最も近い箇所
"""
PHRASES = {
    language: Phrases(*(phrase.strip() for phrase in phrases.split("|")))
    for language, _, phrases in (line.partition(":") for line in _TABLE.strip().splitlines())
}
"""By the English name of the language."""

NO_ANSWER = PHRASES["English"].no_answer


def phrases_for(question: str) -> Phrases:
    """The phrases in the language of a question; English ones where there are none."""
    return PHRASES.get(language_of(question) or "", PHRASES["English"])


def quote_question(task: str, mark: str, question: str) -> str:
    """The task of an answer, fenced; below it the language of the question where that is not English."""
    block, language = quote_block("QUESTION", task, mark), language_of(question)
    if language == "English" or not question.strip():
        return block
    if language not in PHRASES:
        return f"{block}\n\nAnswer in the language of the question{f', {language}' if language else ''}."
    own = PHRASES[language].no_answer
    return (
        f"{block}\n\nThe question is in {language}. Answer in {language}, and reply with this sentence in "
        f"place of {NO_ANSWER!r}: {own}"
    )


SEARCH_TOOL = "Finds the passages of the documents that answer a question."
"""Description of a retriever as a tool, for an agent's model."""


def is_abstention(text: str, sentences: Iterable[str] = ()) -> bool:
    """Whether a reply is an agreed sentence, or `NO_ANSWER` in a language, whatever its case and quotes."""
    agreed = (*sentences, *(phrases.no_answer for phrases in PHRASES.values()))
    return _bare(text) in map(_bare, agreed)


def shows_passages(text: str) -> bool:
    """Whether an answer shows passages, as a search does, and says nothing of its own."""
    return text.startswith(tuple(f"{phrases.closest}:" for phrases in PHRASES.values()))


def _bare(text: str) -> str:
    return text.strip().strip("\"'“”*.。।۔ ").casefold()


def delimiter(texts: Sequence[str]) -> str:
    """Eight hexadecimal digits that occur in none of the texts.

    They come from a hash of all the texts, so the same material gives the same prompt, while the author of a
    document cannot predict them: they depend on the question and on every other passage too.
    """
    joined = "\x00".join(texts)
    for salt in range(1_000_000):
        mark = hashlib.sha256(f"{salt}\x00{joined}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
        if mark not in joined:
            return mark
    raise AssertionError("no free mark among a million")  # pragma: no cover


def quote_block(name: str, text: str, mark: str) -> str:
    """The text, unchanged, between a BEGIN and an END line that carry the delimiter ``mark``."""
    return f"<<BEGIN {name} {mark}>>\n{text}\n<<END {name} {mark}>>"


def numbered(passages: Sequence[str]) -> str:
    """Passages under one another, each with its number from 1."""
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(passages, 1))


def search_result(passages: Sequence[str], names: Sequence[Mapping[str, str]]) -> str:
    """What an agent's tool returns of a search.

    Args:
        passages: Each after its title and headings.
        names: For each passage names in it of other documents, each with the document.

    Examples:
        >>> print(search_result(["The Petrel belonged to Mara Holt."], [{"Mara Holt": "holt.md"}]))
        [1] The Petrel belonged to Mara Holt.
        Names documents of this collection: Mara Holt (holt.md)
    """
    if not passages:
        return "Nothing was found."
    texts = []
    for passage, own in zip(passages, names, strict=True):
        named = ", ".join(f"{name} ({document})" for name, document in own.items())
        texts.append(f"{passage}\nNames documents of this collection: {named}" if named else passage)
    return numbered(texts)


def option_letter(position: int) -> str:
    """``A`` for 0 up to ``Z`` for 25, then numbers from 27."""
    return chr(ord("A") + position) if position < 26 else str(position + 1)


def question_text(question: str, options: Sequence[str] | None) -> str:
    """The question, with its options below it where there are any, one a line, each with its letter.

    Raises:
        InputError: For options that are no list of texts.
    """
    lettered = (f"{option_letter(i)}. {text}" for i, text in enumerate(checked_options(options) or ()))
    return "\n".join([question, *lettered])
