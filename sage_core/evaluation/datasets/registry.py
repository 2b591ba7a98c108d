"""The published formats by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sage_core.evaluation.datasets import narrativeqa, qasper, quality, squad, triviaqa
from sage_core.evaluation.datasets.contents import Contents, Wanted
from sage_core.evaluation.datasets.files import Record


@dataclass(frozen=True, slots=True)
class Format:
    """A published data set, or a variant of one.

    Attributes:
        name: As given to `load_dataset`.
        about: A line about it.
        files: What to give the path of.
        split: The split that is measured on: test where its answers are public.
        hub: Its name on the Hugging Face hub, with its configuration; None where it is not there.
        read: Reads the published files.
        from_rows: Reads the rows of the hub.
    """

    name: str
    about: str
    files: str
    split: str
    hub: str | None
    read: Callable[[Path, Wanted], Contents]
    from_rows: Callable[[Iterable[Record], str, Wanted], Contents]


def _quality(name: str, about: str, *, hard: bool, html: bool) -> Format:
    return Format(
        name,
        about,
        quality.FILES,
        "dev",
        None if html else "emozilla/quality",
        partial(quality.read_quality, hard=hard, html=html),
        partial(quality.quality_from_rows, hard=hard),
    )


def _narrativeqa(name: str, about: str, *, summaries: bool) -> Format:
    return Format(
        name,
        about,
        narrativeqa.FILES,
        "test",
        "deepmind/narrativeqa",
        partial(narrativeqa.read_narrativeqa, summaries=summaries),
        partial(narrativeqa.narrativeqa_from_rows, summaries=summaries),
    )


def _triviaqa(name: str, about: str, *, domain: str) -> Format:
    return Format(
        name,
        about,
        triviaqa.FILES,
        "dev",
        f"mandarjoshi/trivia_qa/rc.{domain}",
        partial(triviaqa.read_triviaqa, domain=domain),
        triviaqa.triviaqa_from_rows,
    )


def _squad(name: str, about: str, hub: str | None) -> Format:
    return Format(name, about, squad.FILES, "dev", hub, squad.read_squad, squad.squad_from_rows)


_ALL = (
    _quality("quality", "QuALITY: multiple choice about long stories and articles", hard=False, html=False),
    _quality("quality-hard", "the hard part of QuALITY", hard=True, html=False),
    _quality("quality-html", "QuALITY with the HTML of its articles", hard=False, html=True),
    _quality("quality-hard-html", "the hard part of QuALITY, with HTML", hard=True, html=True),
    Format(
        "qasper",
        "QASPER: questions about papers, evidence by paragraph",
        qasper.FILES,
        "test",
        "allenai/qasper",
        qasper.read_qasper,
        qasper.qasper_from_rows,
    ),
    _narrativeqa("narrativeqa", "NarrativeQA: whole books and film scripts", summaries=False),
    _narrativeqa("narrativeqa-summaries", "NarrativeQA over its summaries", summaries=True),
    _triviaqa("triviaqa", "TriviaQA over its Wikipedia pages", domain="wikipedia"),
    _triviaqa("triviaqa-web", "TriviaQA over its web pages", domain="web"),
    _squad("squad", "SQuAD 1.1, and translations of it", "rajpurkar/squad"),
    _squad("squad-pt", "SQuAD 1.1 in Portuguese, a machine translation", "nunorc/squad_v1_pt"),
    _squad(
        "squad2", "SQuAD 2.0, and translations of it; some questions have no answer", "rajpurkar/squad_v2"
    ),
)
FORMATS = {f.name: f for f in _ALL}
