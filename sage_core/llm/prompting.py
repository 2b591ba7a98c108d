"""What prompts share: quoted material kept apart from instructions, and the sentence for "no answer"."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sage_core._checks import checked_options
from sage_core.text.language import language_of


class Phrases(NamedTuple):
    """What answers say of themselves, in one language.

    Attributes:
        no_answer: Where the passages do not hold the answer.
        not_sure: How an answer without an LLM begins where it is not known whether a passage answers.
        closest: What such an answer goes on with, before a colon.
        says: What comes before a quotation, with its colon.
    """

    no_answer: str
    not_sure: str
    closest: str
    says: str


_TABLE = """
English: The documents do not say. | I am not sure.
    Closest to an answer | The documents say:
Chinese: 文件中没有说明。 | 我不确定。
    最接近的段落 | 文件中写道:
Hindi: दस्तावेज़ों में यह नहीं बताया गया है। | मुझे पक्का पता नहीं है।
    सबसे मिलता-जुलता अंश | दस्तावेज़ों में लिखा है:
Spanish: Los documentos no lo dicen. | No estoy seguro.
    El pasaje más cercano | Los documentos dicen:
French: Les documents ne le disent pas. | Je ne suis pas sûr.
    Le passage le plus proche | Les documents disent :
Arabic: لا تذكر الوثائق ذلك. | لست متأكدًا.
    أقرب مقطع | تقول الوثائق:
Bengali: নথিগুলোতে তা বলা নেই। | আমি নিশ্চিত নই।
    সবচেয়ে কাছের অংশ | নথিগুলোতে লেখা আছে:
Portuguese: Os documentos não dizem. | Não tenho certeza.
    A passagem mais próxima | Os documentos dizem:
Russian: В документах этого не сказано. | Я не уверен.
    Самый близкий отрывок | В документах сказано:
Urdu: دستاویزات میں یہ نہیں بتایا گیا۔ | مجھے یقین نہیں ہے۔
    سب سے قریبی اقتباس | دستاویزات میں لکھا ہے:
German: In den Dokumenten steht das nicht. | Ich bin nicht sicher.
    Die nächste Stelle | In den Dokumenten steht:
Japanese: 文書には書かれていません。 | 確かではありません。
    最も近い箇所 | 文書にはこうあります:
"""
_LINES = _TABLE.strip().splitlines()
PHRASES = {
    row.partition(":")[0]: Phrases(*(p.strip() for p in f"{row.partition(':')[2]}|{below}".split("|")))
    for row, below in zip(_LINES[::2], _LINES[1::2], strict=True)
}
"""By the English name of the language."""

NO_ANSWER, NOT_SURE = PHRASES["English"][:2]


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

# A block that never ends hides everything after it.
_REASONING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)


def without_reasoning(text: str) -> str:
    """A reply with a line break in place of each block of reasoning (``<think>...</think>``)."""
    return _REASONING.sub("\n", text)


def is_abstention(text: str, sentences: Iterable[str] = (NO_ANSWER,)) -> bool:
    """Whether a reply is one of the agreed sentences and nothing else, whatever its case and quotes.

    `NO_ANSWER` stands for its translations too.
    """
    agreed = {_bare(sentence) for sentence in sentences}
    if _bare(NO_ANSWER) in agreed:
        agreed |= {_bare(phrases.no_answer) for phrases in PHRASES.values()}
    return _bare(text) in agreed


def is_unsure(text: str) -> bool:
    """Whether an answer begins with "I am not sure." in some language."""
    return text.startswith(tuple(phrases.not_sure for phrases in PHRASES.values()))


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


def letter_options(options: Sequence[str]) -> str:
    """Options of a multiple-choice question, one a line, each with its letter (numbers beyond 26)."""
    return "\n".join(f"{option_letter(i)}. {text}" for i, text in enumerate(options))


def option_letter(position: int) -> str:
    """``A`` for 0 up to ``Z`` for 25, then numbers from 27."""
    return chr(ord("A") + position) if position < 26 else str(position + 1)


def question_text(question: str, options: Sequence[str] | None) -> str:
    """The question, with its options below it where there are any.

    Raises:
        InputError: For options that are no list of texts.
    """
    options = checked_options(options)
    return f"{question}\n{letter_options(options)}" if options else question
