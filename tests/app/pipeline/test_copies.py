"""A text that stands in two documents is sent once, and both places are named."""

from pathlib import Path

from sage_app import LLMAnswerer, Sage
from sage_app.models import OpenAIChat
from sage_app.rendering.rows import retrieval_rows
from tests.fakes.llm_server import LLMServer

SAME = "A boat may lie at the pontoon for two nights without a fee."
OTHER = "The harbor master keeps the keys of the crane, which nobody else may use. "
QUESTION = "How many nights may a boat lie at the pontoon?"


def test_both_places_of_a_text_are_named(tmp_path: Path) -> None:
    for name, title in (("a.md", "Rules of 2023"), ("b.md", "Rules of 2024")):
        (tmp_path / name).write_text(f"# {title}\n\n{OTHER * 12}\n\n## Berths\n\n{SAME}\n")
    with LLMServer(lambda request: "Two." if not request.is_critic else '{"score": 9}') as server:
        answerer = LLMAnswerer(OpenAIChat("m", base_url=server.base_url))
        with Sage(tmp_path / "store", answerer=answerer) as sage:
            sage.ingest([tmp_path / "a.md", tmp_path / "b.md"])
            found = sage.retrieve(QUESTION)
            answer = sage.ask(QUESTION)
        sent = server.requests[0].user
    [candidate] = [c for c in found.candidates if SAME in c.chunk.text]
    [copy] = candidate.copies
    names = {Path(c.source).name for c in (candidate.chunk, copy)}
    assert names == {"a.md", "b.md"}
    assert [Path(str(p["source"])).name for p in candidate.to_dict()["also_in"]] == [Path(copy.source).name]
    [row] = [row for row in retrieval_rows(found) if SAME in row.text]
    assert all(name in row.place for name in names)
    assert sent.count(SAME) == 1 and "Rules of 2023" in sent and "Rules of 2024" in sent
    assert sum(SAME in c.chunk.text for c in answer.sources) == 1
