"""Answers without an LLM, by the form of the question: tables, lists, yes/no, comparisons, facts, why, none.

    python benchmarks/forms.py            # the fixture: 120 questions over 12 documents written for it
    python benchmarks/forms.py benchmarks/firm    # 63 questions over ten documents of a firm, more alike
    python benchmarks/forms.py FOLDER     # others: documents and a questions.txt of the same form

Half of the fixture's questions were held back while the rules were written; they are shown apart. Right
is an answer that holds the words of all parts of the gold answer, in their order; wrong is any other one.
A question for yes or no that gets a sentence alone is counted apart, as quoted. "The documents do not say."
and "I am not sure." turn a question down. Of all but those for yes or no it is counted, too, how often what
is displayed, the passages under "I am not sure." among it, holds the gold answer. A line of
``questions.txt``: split, document, form, question and gold answer, with ``|`` between them. A gold answer has
its parts with ``;`` between them, their alternatives
with `` / ``; it is empty where the documents do not say.
"""

from __future__ import annotations

import argparse
import collections
import re
import tempfile
from pathlib import Path

from sage_app import Sage
from sage_core.llm.prompting import NOT_SURE
from sage_core.verify import abstains

WORD = r"\d+(?:[.,:]\d+)*|[^\W\d_]+"
FIXTURE = Path(__file__).parents[1] / "tests" / "fixtures" / "questions"


def outcome(answer: str, gold: str, form: str) -> str:
    """``right``, ``wrong`` or ``turned down``."""
    if answer.startswith(NOT_SURE) or abstains(answer):
        return "turned down"
    if not gold:
        return "wrong"
    if form == "yesno":
        said = re.match(r"The documents suggest (yes|no):", answer)
        return "quoted" if said is None else "right" if said[1] == gold else "wrong"
    return "right" if holds(answer, gold) else "wrong"


def holds(text: str, gold: str) -> bool:
    """Whether a text has the words of all parts of a gold answer."""
    said = _words(text.replace("**", ""))
    parts = [part.split(" / ") for part in gold.split(";")]
    return all(any(_words(one) in said for one in part) for part in parts)


def _words(text: str) -> str:
    """The words and numbers of a text, so that one holds another word by word."""
    return f" {' '.join(re.findall(WORD, text.lower()))} "


def measure(documents: Path, verbose: bool) -> None:
    """Print the outcomes by form, of the questions that tuned and of those held back."""
    counts: dict[tuple[str, str], collections.Counter[str | bool]] = collections.defaultdict(
        collections.Counter
    )
    with tempfile.TemporaryDirectory() as folder, Sage(Path(folder) / "store") as sage:
        sage.ingest([path for path in sorted(documents.iterdir()) if path.name != "questions.txt"])
        for line in (documents / "questions.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            split, _, form, question, gold = line.split("|")
            answer = sage.ask(question).text
            result = outcome(answer, gold, form)
            counts[split, form][result] += 1
            counts[split, "all answerable" if gold else "all unanswerable"][result] += 1
            if gold and form != "yesno":
                counts["any", "shown"][holds(answer, gold)] += 1
            if verbose and result not in ("right" if gold else "turned down", "quoted"):
                print(f"{split} {form} {result}: {question} -> {answer} [{gold}]")
    shown = counts.pop(("any", "shown"))
    print(f"the gold answer is displayed for {shown[True]} of {shown.total()} (without yes or no)")
    for (split, form), own in sorted(counts.items()):
        total = sum(own.values())
        outcomes = ", ".join(
            f"{name} {own[name]} ({own[name] / total:.0%})"
            for name in ("right", "wrong", "quoted", "turned down")
        )
        print(f"{split:5} {form:16} n = {total}: {outcomes}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verbose", action="store_true", help="each question that is not right")
    parser.add_argument("folder", type=Path, nargs="?", default=FIXTURE)
    arguments = parser.parse_args()
    measure(arguments.folder, arguments.verbose)


if __name__ == "__main__":
    main()
