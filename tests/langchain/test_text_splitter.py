"""The text splitter: exact offsets, a hard limit, and the whole of LangChain's interface."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

import sage_core
from sage_core.errors import InputError
from sage_core.segmentation import Segmenter
from sage_langchain import SageTextSplitter
from tests.fakes.langchain import TEXT, WordEmbeddings
from tests.fakes.models import HashModel

VOCABULARY = Path(sage_core.__file__).parent / "text" / "tokenizer.json"


def word_length(text: str) -> int:
    return len(text.split())


def splitter(**settings) -> SageTextSplitter:
    return SageTextSplitter(model=HashModel(), **settings)


REPEATED = st.text(alphabet="ab. \n", max_size=200)
ANY = st.one_of(REPEATED, st.text(max_size=120), st.sampled_from([TEXT, TEXT * 3, " ", "a" * 5000]))


@given(text=ANY, size=st.integers(1, 60), unit=st.sampled_from([len, word_length]))
def test_the_limit_is_hard_whatever_is_counted(text, size, unit):
    made = splitter(chunk_size=size, length_function=unit)
    documents = made.create_documents([text])
    assert all(unit(d.page_content) <= size for d in documents)
    assert [d.page_content for d in documents] == made.split_text(text)
    assert all(d.page_content == d.page_content.strip() for d in documents)


def test_metadata_is_copied_deeply_for_every_chunk():
    given_ = {"source": "a", "tags": ["x"]}
    documents = splitter(chunk_size=40).create_documents([TEXT], [given_])
    documents[0].metadata["tags"].append("changed")
    assert given_ == {"source": "a", "tags": ["x"]}
    assert documents[1].metadata == {"source": "a", "tags": ["x"]}


def test_bad_arguments_are_named():
    made = splitter()
    for named, use in (
        ("metadatas", lambda: made.create_documents(["a", "b"], [{}])),
        ("create_documents", lambda: made.create_documents("one text")),
        ("split_documents", lambda: made.split_text(Document(page_content="x"))),
    ):
        with pytest.raises(InputError, match=named):
            use()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"chunk_size": WordEmbeddings()}, "^chunk_size"),
        *[({"chunk_size": size}, "^chunk_size") for size in ("100", 10.5, True, 0, -1)],
        ({"chunk_size": 10, "segmenter": Segmenter(HashModel())}, "chunk_size, length_function"),
        ({"chunk_size": 10, "target_tokens": 20, "length_function": word_length}, "chunk_size"),
        ({"chunk_size": 1000, "target_tokens": 100}, "target_tokens"),
    ],
)
def test_sizes_that_are_none_or_do_not_fit_are_named_as_the_user_named_them(settings, named):
    with pytest.raises(InputError, match=named):
        SageTextSplitter(**settings)


def test_what_does_nothing_is_told_once_and_accepted():
    with pytest.warns(UserWarning, match="^chunk_overlap=20 does nothing") as told:
        made = splitter(chunk_size=100, chunk_overlap=20)
    assert len(told) == 1 and made._chunk_overlap == 0
    with pytest.warns(UserWarning, match="^strip_whitespace=False does nothing"):
        assert splitter(strip_whitespace=False).split_text(" One. ") == ["One."]


def test_every_argument_reaches_the_segmenter():
    s = splitter(chunk_size=50, keep_separator=True).segmenter
    assert (s.max_tokens, s.target_tokens) == (50, 33)
    ready = Segmenter(HashModel(), max_tokens=33)
    assert SageTextSplitter(segmenter=ready).segmenter is ready
    lines = lambda text: text.splitlines(keepends=True)  # noqa: E731
    paper = Segmenter(HashModel(), sentences=lines, threshold=1.0, strategy="threshold", min_tokens=0)
    whole = SageTextSplitter(segmenter=paper)
    assert whole.split_text("One. Two.\nThree. Four.") == ["One. Two.", "Three. Four."]


async def test_async_twins_give_the_same():
    made = splitter(chunk_size=40, add_start_index=True)
    documents = [Document(page_content=TEXT)]
    expected = made.split_documents(documents)
    assert await made.atransform_documents(documents) == expected
    both = await asyncio.gather(*(made.atransform_documents(documents) for _ in range(4)))
    assert both == [expected] * 4


def test_ids_are_not_reused():
    document = Document(page_content=TEXT, id="doc-7", metadata={"a": 1})
    assert all(d.id is None and d.metadata == {"a": 1} for d in splitter().split_documents([document]))
    assert document.metadata == {"a": 1}


def test_pickles_and_threads():
    made = splitter(chunk_size=40, length_function=word_length, add_start_index=True)
    again = pickle.loads(pickle.dumps(made))
    texts = [f"{TEXT} {i}" for i in range(24)]
    expected = [made.split_text(t) for t in texts]
    assert [again.split_text(t) for t in texts] == expected
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(made.split_text, texts)) == expected


def test_texts_are_segmented_in_common_batches():
    model = HashModel()
    SageTextSplitter(model=model).create_documents([f"One {i}. Two. Three." for i in range(50)])
    assert model.calls == 1


def test_lengths_are_not_measured_over_and_over():
    calls = 0

    def counted(text: str) -> int:
        nonlocal calls
        calls += 1
        return len(text.split())

    text = " ".join(f"Sentence number {i} has seven words here." for i in range(3000))
    chunks = splitter(chunk_size=50, length_function=counted).split_text(text)
    assert max(len(c.split()) for c in chunks) <= 50
    assert calls <= 3 * 3000


@pytest.mark.slow
def test_huggingface_constructor():
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(VOCABULARY))
    made = SageTextSplitter.from_huggingface_tokenizer(tokenizer, chunk_size=12, model=HashModel())
    assert type(made) is SageTextSplitter
    assert max(len(tokenizer.tokenize(chunk)) for chunk in made.split_text(TEXT)) <= 12


def test_tiktoken_constructor(monkeypatch):
    tiktoken = pytest.importorskip("tiktoken")
    # A byte-level encoding made here, because tiktoken fetches its own over the network.
    made_here = tiktoken.Encoding(
        "gpt2",
        pat_str=r"\w+|\s+|[^\w\s]+",
        mergeable_ranks={bytes([i]): i for i in range(256)},
        special_tokens={"<|endoftext|>": 256},
    )
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: made_here)
    made = SageTextSplitter.from_tiktoken_encoder(chunk_size=30, model=HashModel(), add_start_index=True)
    chunks = made.create_documents([TEXT])
    assert max(len(c.page_content.encode()) for c in chunks) <= 30
    for chunk in chunks:
        start = chunk.metadata["start_index"]
        assert TEXT[start : start + len(chunk.page_content)] == chunk.page_content
    with pytest.raises(ValueError, match="endoftext"):
        made.split_text("a <|endoftext|> b")
    free = SageTextSplitter.from_tiktoken_encoder(chunk_size=30, model=HashModel(), disallowed_special=())
    assert free.split_text("a <|endoftext|> b") == ["a <|endoftext|> b"]


def test_accepted_where_langchain_asks_for_a_text_splitter():
    pytest.importorskip("langchain_classic")
    from langchain_classic.retrievers import ParentDocumentRetriever
    from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
    from langchain_classic.storage import InMemoryStore
    from langchain_core.vectorstores import InMemoryVectorStore

    made = splitter(chunk_size=40)
    pipeline = DocumentCompressorPipeline(transformers=[made])
    documents = [Document(page_content=TEXT)]
    assert pipeline.compress_documents(documents, "bees") == made.split_documents(documents)
    parents = ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(WordEmbeddings()), docstore=InMemoryStore(), child_splitter=made
    )
    parents.add_documents(documents)
    assert parents.invoke("presses by the canal")[0].page_content == TEXT
