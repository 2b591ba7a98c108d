"""What the check makes of answers that a real language model wrote, right ones and invented ones.

    python benchmarks/real_answers.py                 # some minutes; reads the saved answers
    python benchmarks/real_answers.py --write         # writes them anew: an hour of one core

SmolLM2-135M-Instruct (`benchmarks/local_llm.py`) answers 200 questions of four development sets three times:
from passages that hold the answer, from other passages of the same document, and from none. An answer is
right where it contains a gold answer or has a token F1 of at least .6 with one, and no invention: a number or
name that neither the passages nor the question have. Of the rest it is wrong where it has an invention or
shares no word with any gold answer; what is left is unclear and not in the rates, as are abstentions. An
answer from other passages is never right. Answers from none are checked against the passages that hold the
answer. "Another" are the wrong ones that give another number or name where the gold answer is one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_core.feedback import Verdict
from sage_core.verify import LocalCritic, LocalJudge, abstains, check, settled

sys.path.insert(0, str(Path(__file__).parent))
from judge import with_interval

SEED = 11
SAVED = Path(__file__).with_name("data") / "real_answers.jsonl"
SETS = {"squad2_dev16": 100, "fairytaleqa": 40, "covidqa": 30, "table_qa": 30}
"""Questions of each set."""
SHOWN = ("right passages", "other passages", "no passages")
_PASSAGES, _WORDS, _TOKENS = 3, 130, 48
_PROMPT = (
    "Answer the question in one short sentence, from the passages only.\n\n{passages}\n\nQuestion: {question}"
)
_ALONE = "Answer the question in one short sentence.\n\nQuestion: {question}"


@dataclass(frozen=True)
class Case:
    """A question, its gold answers, the passages that hold one, and others of its document."""

    id: str
    question: str
    answers: list[str]
    right: list[str]
    others: list[str]


def read(data: Path, name: str) -> list[dict[str, Any]]:
    """The objects of a development file."""
    with gzip.open(data / "dev" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def cases(data: Path) -> Iterator[Case]:
    """The questions, the same in every run."""
    for name, count in SETS.items():
        rng = random.Random(f"{SEED}{name}")
        made = list(_tables(read(data, name)) if name == "table_qa" else _texts(data, name, rng))
        yield from rng.sample(made, min(count, len(made)))


def _texts(data: Path, name: str, rng: random.Random) -> Iterator[Case]:
    parts = {d["doc_id"]: list(_parts(d["text"])) for d in read(data, f"{name}_docs")}
    rows = read(data, f"{name}_questions")
    rng.shuffle(rows)
    for row in rows[:600]:
        answers = [a for a in row["answers"] if len(a.split()) <= 12]
        proof = [e["text"] for e in row["evidence"]][:1]
        own = [p for p in parts[row["doc_id"]] if answers and any(_holds(p, a) for a in answers)]
        near = [
            p
            for p in own
            if proof
            and len(set(bare(proof[0])) & set(bare(p))) > 0.5 * min(len(bare(p)), len(bare(proof[0])))
        ]
        others = [p for p in parts[row["doc_id"]] if p not in own]
        if near and len(others) >= 2 * _PASSAGES:
            others = rng.sample(others, 2 * _PASSAGES - 1)
            right = [near[0], *others[_PASSAGES:]]
            rng.shuffle(right)
            yield Case(f"{name}:{row.get('qid')}", row["question"], answers, right, others[:_PASSAGES])


def _parts(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        words = paragraph.split()
        for i in range(0, len(words), _WORDS):
            if len(words[i : i + _WORDS]) > 25:
                yield " ".join(words[i : i + _WORDS])


def _tables(rows: Sequence[dict[str, Any]]) -> Iterator[Case]:
    for i, row in enumerate(rows):
        lines = ["| " + " | ".join(cells) + " |" for cells in row["table"][:14]]
        lines.insert(1, "|" + " --- |" * len(row["table"][0]))
        other = rows[(i + 7) % len(rows)]["paragraphs"][:2]
        answers = row["answers"] if "answers" in row else [row["answer"]]
        yield Case(
            f"table_qa:{i}", row["question"], answers, ["\n".join(lines), *row["paragraphs"][:1]], other
        )


def _holds(passage: str, answer: str) -> bool:
    return f" {' '.join(bare(answer))} " in f" {' '.join(bare(passage))} "


def bare(text: str) -> list[str]:
    """Words without punctuation and articles."""
    return re.findall(r"[^\W_]+", re.sub(r"\b(?:a|an|the)\b", " ", text.lower()))


def f1(said: str, gold: str) -> float:
    """Token F1."""
    a, b = bare(said), bare(gold)
    same = sum(min(a.count(w), b.count(w)) for w in set(a))
    return 2 * same / (len(a) + len(b)) if same else 0.0


def write(data: Path) -> None:
    """Answer what is not answered yet, and append it to the saved answers."""
    from local_llm import LocalLLM

    SAVED.parent.mkdir(exist_ok=True)
    done = {(r["id"], r["shown"]) for r in saved()}
    llm = LocalLLM()
    with SAVED.open("a", encoding="utf-8") as out:
        for shown in SHOWN:
            for case in cases(data):
                if (case.id, shown) in done:
                    continue
                passages = {"right passages": case.right, "other passages": case.others}.get(shown, [])
                text = (_PROMPT if passages else _ALONE).format(
                    passages="\n\n".join(passages), question=case.question
                )
                answer = llm.generate([{"role": "user", "content": text}], _TOKENS)
                out.write(
                    json.dumps({"id": case.id, "shown": shown, "answer": answer}, ensure_ascii=False) + "\n"
                )
                out.flush()


def saved() -> list[dict[str, str]]:
    """The saved answers: id of the question, what the model was shown, its answer."""
    if not SAVED.exists():
        return []
    return [json.loads(line) for line in SAVED.read_text(encoding="utf-8").splitlines()]


def label(case: Case, shown: str, answer: str) -> str:
    """``"right"``, ``"wrong"``, ``"another"`` (wrong, another number or name), or ``"unclear"``."""
    if abstains(answer):
        return "unclear"
    passages = case.others if shown == "other passages" else case.right
    known = set(bare(" ".join([case.question, *passages])))
    invented = [w for w in values(answer) if w not in known]
    if any(_holds(answer, gold) or f1(answer, gold) >= 0.6 for gold in case.answers):
        return "unclear" if invented or shown == "other passages" else "right"
    said = set(bare(answer)) - set(bare(case.question))
    if not invented and any(said & set(bare(gold)) for gold in case.answers):
        return "unclear"
    is_value = all(set(bare(gold)) & set(values(f". {gold}")) for gold in case.answers)
    other = set(values(answer)) - set(bare(case.question))
    return "another" if is_value and other and shown != "other passages" else "wrong"


def values(text: str) -> list[str]:
    """The words of a text that are numbers or names: with a digit, or a capital that begins no sentence."""
    found = re.finditer(r"(?<![.!?:\"“] )(?<!\A)(?<!\w)(?:[A-Z]\w+|\w*\d\w*)", text)
    return [word for m in found for word in bare(m[0])]


def report(data: Path, every: int) -> None:
    """Print what the verdict, the marks and the local critics make of each answer."""
    by_id = {case.id: case for case in cases(data)}
    rows: list[dict[str, Any]] = []
    judge = LocalJudge()
    for row in saved()[::every]:
        case, shown, answer = by_id[row["id"]], row["shown"], row["answer"]
        if not answer.strip() or (kind := label(case, shown, answer)) == "unclear":
            continue
        passages = case.others if shown == "other passages" else case.right
        approved = settled(Verdict(9), case.question, answer, passages, judge=judge)
        plain = check(case.question, passages, answer, judge=judge)
        auto, alone = (
            LocalCritic(case.question, judge=judge, alone=alone).grade(passages, answer)
            for alone in (False, True)
        )
        rows.append({
            "shown": shown, "right": kind == "right", "another": kind == "another",
            "approved": approved, "plain": plain,
            "auto": None if auto is None else settled(auto, case.question, answer, passages, judge=judge),
            "local": alone and settled(alone, case.question, answer, passages, judge=judge),
        })  # fmt: skip
    for name in ("all", *SHOWN):
        some = [r for r in rows if name in ("all", r["shown"])]
        if some:
            _line(name, some)


def _line(name: str, rows: Sequence[dict[str, Any]]) -> None:
    right, wrong = ([r for r in rows if r["right"] is x] for x in (True, False))
    known = [r for r in rows if r["plain"].probability is not None]
    labels, scores = [r["right"] for r in known], [r["plain"].probability for r in known]
    area = f"AUROC {with_interval(labels, scores)}" if 0 < sum(labels) < len(labels) else ""
    print(f"{name}: {len(right)} right, {len(wrong)} wrong; support {area}")

    def share(some: Sequence[dict[str, Any]], holds: Callable[[dict[str, Any]], bool]) -> str:
        return f"{sum(map(holds, some))} of {len(some)}" if some else "none"

    print(
        f"  contradicted: {share(wrong, lambda r: any(m.instead for m in r['approved'].marks))} wrong, "
        f"{share(right, lambda r: any(m.instead for m in r['approved'].marks))} right\n"
        f"  another number or name: stopped {share([r for r in wrong if r['another']], _stopped)}\n"
        f"  a critic that approves everything: let through {share(wrong, lambda r: r['approved'].accepted)} "
        f"wrong, lost {share(right, lambda r: not r['approved'].accepted)} right\n"
        f"  check(): accepted {share(wrong, lambda r: r['plain'].accepted)} wrong, "
        f"{share(right, lambda r: r['plain'].accepted)} right\n"
        f"  auto: asks the LLM for {share(rows, lambda r: r['auto'] is None)}; by itself accepts "
        f"{share(wrong, lambda r: r['auto'] is not None and r['auto'].accepted)} wrong, refuses "
        f"{share(right, lambda r: r['auto'] is not None and not r['auto'].accepted)} right\n"
        f"  local: accepts {share(wrong, lambda r: r['local'].accepted)} wrong, "
        f"{share(right, lambda r: r['local'].accepted)} right"
    )


def _stopped(row: dict[str, Any]) -> bool:
    return not row["approved"].accepted


def main() -> None:
    """Write answers, or measure on the saved ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SAGE_DATA", "../shared/data")))
    parser.add_argument("--write", action="store_true", help="let the model answer what is not saved")
    parser.add_argument("--every", type=int, default=1, help="only each so many-th answer")
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.data)
    report(arguments.data, arguments.every)


if __name__ == "__main__":
    main()
