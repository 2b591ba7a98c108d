"""What contexts are made of: chunks, windows, documents in order, whole texts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sage_eval.methods import FixedChunker, make_chunker, make_method
from sage_eval.methods.chunking import cut_to
from sage_eval.methods.context_builders import SentenceWindow
from sage_eval.readers import ExtractiveReader
from sage_eval.records import EvalDocument, EvalQuestion, Piece

from reproduction.tests.island import DOCUMENT, LIGHTHOUSE, PARAGRAPHS, SEALS
from sage_app.answers import ExtractiveAnswerer
from sage_app.models import OpenAIChat
from sage_core.errors import InputError
from sage_core.llm.prompting import NO_ANSWER
from sage_core.text.sentences import split_sentences
from sage_core.text.tokens import get_counter
from tests.fakes.llm_server import LLMServer
from tests.fakes.models import HashEmbedder

COUNT = get_counter().count
SMALL = {"kind": "fixed", "tokens": 30}

TEXTS = st.lists(
    st.sampled_from(
        ["The ferry leaves. ", "Why not?\n\n", "A heading\n\n", "- an item\n", "word " * 40, "Yes. ", "灯台。", "\n"]
    ),
    max_size=30,
).map("".join)  # fmt: skip


def answered(spec, question=LIGHTHOUSE, documents=(DOCUMENT,)):
    method = make_method(spec, reader=ExtractiveReader(), embedder=HashEmbedder())
    method.prepare(documents)
    return method.answer(question)


# -- chunks -------------------------------------------------------------------------------------------


@given(TEXTS, st.integers(3, 40))
@example("The ferry leaves. 灯台。", 6)
def test_fixed_chunks_are_whole_sentences_within_the_size_and_as_full_as_they_can_be(text, tokens):
    spans = FixedChunker(tokens).segment_many([text])[0]
    assert "".join("".join(s.of(text) for s in spans).split()) == "".join(text.split())
    assert all(COUNT(s.of(text)) <= tokens for s in spans)
    starts = {s.start for s in split_sentences(text)}
    fitting = all(COUNT(s.of(text)) <= tokens for s in split_sentences(text))
    if fitting:
        assert all(s.start in starts for s in spans)
        for before, after in itertools.pairwise(spans):
            more = [s for s in split_sentences(text) if before.start <= s.start <= after.start]
            # Two languages together may be more to read than each alone.
            together = COUNT(text[before.start : more[-1].end])
            assert max(together, sum(COUNT(s.of(text)) for s in more)) > tokens


@given(TEXTS, st.integers(4, 40), st.integers(1, 12))
def test_overlapping_chunks_repeat_whole_sentences_and_stay_within_the_size(text, tokens, overlap):
    overlap = min(overlap, tokens - 1)
    spans = FixedChunker(tokens, overlap=overlap).segment_many([text])[0]
    plain = FixedChunker(tokens - overlap).segment_many([text])[0]
    assert [s.end for s in spans] == [s.end for s in plain]
    starts = {s.start for s in split_sentences(text)}
    for before, span, bare in zip([None, *spans], spans, plain, strict=False):
        assert COUNT(span.of(text)) <= tokens
        repeated = text[span.start : bare.start]
        assert span.start <= bare.start and COUNT(repeated) <= overlap
        if span.start < bare.start:
            assert span.start in starts and span.start > before.start


def test_an_overlap_by_hand():
    text = "One two three four. Five six. Seven eight nine ten. Eleven twelve."
    spans = FixedChunker(13, overlap=4).segment_many([text])[0]
    assert [s.of(text) for s in spans] == [
        "One two three four. Five six.",
        "Five six. Seven eight nine ten. Eleven twelve.",
    ]


def test_chunkers_by_name():
    assert len(make_chunker("sentences").segment_many([DOCUMENT.text])[0]) == len(
        split_sentences(DOCUMENT.text)
    )
    assert make_chunker({"kind": "segmenter", "max_tokens": 40}).max_tokens == 40
    assert make_chunker("paper").threshold == 0.55 and make_chunker("paper").strategy == "threshold"
    assert make_chunker("fixed").fingerprint != make_chunker(SMALL).fingerprint
    by_words = make_chunker({"kind": "fixed", "tokens": 12, "counter": "words"})
    assert max(len(s.of(DOCUMENT.text).split()) for s in by_words.segment_many([DOCUMENT.text])[0]) <= 12
    with pytest.raises(InputError, match="no setting 'size'"):
        make_chunker({"kind": "fixed", "size": 3})


def test_an_llm_cuts_where_it_says_and_leaves_a_window_whole_if_it_says_nothing():
    pytest.importorskip("openai", reason="the scripted server is spoken to by the openai client")
    text = "We keep a grey cat. Her name is Sorrel. Anders is my neighbor. He mends clocks."
    replies = ['{"starts": [1, 3]}', "<think>[2]</think>I would rather not."]
    with LLMServer(lambda request: replies[0]) as running:
        chat = OpenAIChat("cutter", base_url=running.base_url, api_key="sk-test", max_retries=0)
        cutter = make_chunker("llm", chat)
        (spans,) = cutter.segment_many([text])
        assert [s.of(text) for s in spans] == [text[:39], text[40:]]
        assert "3. Anders is my neighbor." in running.requests[0].user
        del replies[0]
        assert [s.of(text) for s in cutter.segment_many([text])[0]] == [text]
        method = make_method(
            {"method": "naive", "index": "bm25", "chunks": "llm"},
            reader=ExtractiveAnswerer(),
            summary_model=chat,
        )
        assert method.prepare([EvalDocument("cat", text)])["segment"].calls == 1
    with pytest.raises(InputError, match="needs an LLM"):
        make_chunker("llm")


@given(TEXTS, st.integers(1, 60))
def test_the_start_of_a_text_fits_and_is_its_start(text, tokens):
    kept = cut_to(text, tokens, counter=get_counter()).of(text)
    # One character may have more tokens than are allowed; it is not divided.
    assert (COUNT(kept) <= tokens or len(kept.strip()) == 1) and text.lstrip().startswith(kept.lstrip())
    if COUNT(text) <= tokens:
        assert kept == text


# -- document order -----------------------------------------------------------------------------------


def test_dos_rag_keeps_the_budget_and_the_order_of_the_document():
    result = answered({"method": "dos-rag", "budget": 60, "chunks": SMALL})
    assert 30 < result.context_tokens <= 60
    assert [p.span for p in result.context] == sorted(p.span for p in result.context)
    wide = answered({"method": "dos-rag", "budget": 5000, "chunks": SMALL})
    # All of it fits: one passage, the whole document, white space between the chunks included.
    assert [p.text for p in wide.context] == [DOCUMENT.text]
    assert len(wide.ranked) > 5
    unjoined = answered({"method": "naive", "order": "document", "chunks": SMALL, "top_k": 3})
    assert len(unjoined.context) <= 3


def test_documents_stay_apart():
    other = EvalDocument("other", "The lighthouse of Varn was built by nobody. It is a rock.")
    result = answered({"method": "dos-rag", "budget": 5000}, documents=(DOCUMENT, other))
    assert {p.document: p.text for p in result.context} == {"island": DOCUMENT.text, "other": other.text}


# -- sentence windows ---------------------------------------------------------------------------------


def window(size, *sentences):
    arrangement = SentenceWindow(size)
    spans = split_sentences(DOCUMENT.text)
    pieces = [Piece(s.of(DOCUMENT.text), "island", s) for s in spans]
    arrangement.prepare({"island": DOCUMENT.text}, pieces)
    return arrangement.arrange([pieces[i] for i in sentences])


def test_a_window_is_the_sentence_and_its_neighbors():
    spans = split_sentences(DOCUMENT.text)
    (alone,) = window(1, 4)
    assert alone.span == (spans[3].start, spans[5].end) and alone.text == alone.span.of(DOCUMENT.text)
    (bare,) = window(0, 4)
    assert bare.span == spans[4]
    (first,) = window(3, 0)
    assert first.span == (spans[0].start, spans[3].end)
    (last,) = window(3, len(spans) - 1)
    assert last.span.end == spans[-1].end


def test_windows_that_meet_are_one_at_the_place_of_the_best():
    spans = split_sentences(DOCUMENT.text)
    found = window(1, 20, 5, 7, 12)
    assert [p.span for p in found] == [
        (spans[19].start, spans[21].end),
        (spans[4].start, spans[8].end),
        (spans[11].start, spans[13].end),
    ]
    assert window(1) == ()


def test_sentence_window_method_finds_sentences_and_sends_more():
    result = answered({"method": "sentence-window", "top_k": 1, "window": 1, "index": "bm25"})
    assert result.ranked[0].piece.text == "The lighthouse was built in 1871 by the engineer Maren Tolk."
    (sent,) = result.context
    assert result.ranked[0].piece.text in sent.text and "whale oil" in sent.text
    assert "The captain decides at six" in sent.text


# -- whole documents ----------------------------------------------------------------------------------


def test_full_context_is_the_document_or_says_that_it_was_cut(caplog):
    whole = answered("full-context")
    assert whole.context == (Piece(DOCUMENT.text, "island", (0, len(DOCUMENT.text))),)
    assert whole.stop_reason == "" and whole.ranked == () and not caplog.text
    cut = answered({"method": "full-context", "max_tokens": 60})
    assert cut.stop_reason == "truncated" and 30 < cut.context_tokens <= 60
    assert DOCUMENT.text.startswith(cut.context[0].text) and cut.context[0].text.endswith(".")
    assert f"of {len(DOCUMENT.text)} characters" in caplog.text
    blank = answered("full-context", documents=(EvalDocument("island", "  \n"),))
    assert (blank.answer, blank.stop_reason) == (NO_ANSWER, "empty")


def test_title_and_abstract_are_all_that_is_sent():
    result = answered("title+abstract")
    assert [p.text for p in result.context] == ["Hestran", "A guide to an island of two hundred people."]
    # The title stands in the text, the abstract does not.
    assert result.context[0].span.of(DOCUMENT.text) == "Hestran" and result.context[1].span is None
    bare = answered("title+abstract", documents=(EvalDocument("island", DOCUMENT.text),))
    assert bare.stop_reason == "empty" and bare.answer == NO_ANSWER


def test_a_document_that_was_not_prepared_is_told():
    with pytest.raises(InputError, match="'elsewhere' was not prepared"):
        answered("full-context", EvalQuestion("q", "elsewhere", "Who?"))


def test_without_an_llm_the_extractive_reader_chooses_from_the_context():
    assert answered("full-context", SEALS).choice == 1
    assert PARAGRAPHS[3].split(".")[0] in answered("full-context", SEALS).answer
