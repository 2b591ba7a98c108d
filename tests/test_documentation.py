"""README, docs and contributing guide say what is true: every Python block runs, every command exists, every link leads somewhere."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest

from scripts import make_images
from tests.app.cli.conftest import load_once  # noqa: F401
from tests.markdown import (
    ROOT,
    SCENES,
    blocks,
    check_command,
    command_lines,
    furnish,
    run_command,
    run_python,
    stories,
)

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").is_dir(), reason="the documentation is not part of the source distribution"
)
PACKAGES = ("reproduction", "training", "sage_app/ray")
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    + [ROOT / package / "README.md" for package in PACKAGES]
)
STORIES = stories(PAGES)
OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SCORE = re.compile(r"\b0\.\d\d\b")
LINK = re.compile(r"(?<!!)!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


@pytest.mark.slow
@pytest.mark.docs
@pytest.mark.parametrize("name", STORIES)
def test_blocks_run(name, tmp_path, monkeypatch, capsys):
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SAGE_LLM", "SAGE_STORE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path)
    story = STORIES[name]
    with contextlib.contextmanager(SCENES[story[0].scene])(monkeypatch) as names:
        if story[0].scene == "shell":
            for block in story:
                for words in command_lines(block.code):
                    run_command(words, monkeypatch)
        else:
            run_python(story, {**names, "__name__": "__main__"})
    shown = capsys.readouterr().out
    assert shown.strip(), "an example shows something"
    for printed in OUTPUT.findall(story[0].path.read_text("utf-8")) if name == "README.md-quickstart" else ():
        assert SCORE.sub("0.00", printed) in SCORE.sub("0.00", shown), "README shows other output"
        start = SCORE.sub("0.00", shown).index(SCORE.sub("0.00", printed))
        scores = [SCORE.findall(text) for text in (printed, shown[start : start + len(printed)])]
        assert np.allclose(*np.array(scores, float), atol=0.03), "README shows other scores"


def test_readme_is_a_screen_with_an_example_for_each_framework():
    code = "".join(block.code for block in STORIES["README.md-quickstart"])
    assert all(f"from {package} import" in code for package in ("sage_llamaindex", "sage_langchain"))
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 90 and {"make demo", "make test"} <= {line[:9].strip() for line in lines[:25]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_run_or_checked(page):
    for block in blocks(page):
        assert not (block.language in ("python", "bash") and block.indent), (
            f"{block.where}: indented, never run"
        )
        if block.language == "python":
            assert block.scene in SCENES, f"{block.where}: name its scene, <!-- run: ... -->"
        if block.language == "bash":
            for words in command_lines(block.code):
                check_command(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files(page):
    """Of what GitHub shows. Anchors and links between pages of the site are checked by its strict build."""
    for match in LINK.finditer(page.read_text("utf-8")):
        target = (match[1] or match[2]).partition("#")[0]
        if target and not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_readme_and_picture_have_the_figures_of_the_results():
    """`python scripts/make_images.py recall` makes the picture; the table of the README is by hand."""
    assert (ROOT / "docs/images/recall.svg").read_text("utf-8") == make_images.recall_svg()
    readme = (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"\**(\d+)% in ([\d,]+)\**, (\d+) ms", readme)
    measured = [row[-3:] for row in make_images.results().values()]
    assert sorted((int(a), int(b.replace(",", "")), int(c)) for a, b, c in rows) == sorted(
        (round(recall), round(tokens), round(ms)) for recall, tokens, ms in measured
    )


def test_pictures_of_cuts_show_where_is_cut():
    """`python scripts/make_images.py cuts` draws them anew."""
    pytest.importorskip("langchain_text_splitters", reason="the langchain extra is not installed")
    page = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    for name in make_images.CUTS:
        picture = (ROOT / "docs" / "images" / f"cuts-{name}.svg").read_text("utf-8")
        assert make_images.cuts_svg(name) == picture and f"images/cuts-{name}.svg" in page
        stock, ours = picture.split(">sage-rag<")
        assert make_images.RED in stock and make_images.RED not in ours


@pytest.mark.slow
@pytest.mark.docs
@pytest.mark.parametrize("name", make_images.PAGES)
def test_pictures_of_pages_have_the_figures_of_the_command(name, tmp_path):
    """`python scripts/make_images.py inspect playground` takes them anew."""
    for package in ("llama_index.core", "starlette"):
        pytest.importorskip(package)
    shown, _ = make_images.figures(name, tmp_path)
    assert make_images.note_of((ROOT / "docs" / "images" / f"{name}.png").read_bytes()) == shown
    page = (ROOT / "docs" / f"{make_images.PAGES[name]}.md").read_text("utf-8")
    assert f"![{shown}](images/{name}.png)" in page


# What people see of a measured figure: "4 of 744", "89% in 547", "71 to 80%", "95.0 in 1,120", ".50 to .98".
FIGURE = re.compile(
    r"(?<![\w.])(?:(?P<part>\d[\d,]*) of (?P<whole>\d[\d,]*)|(?P<share>\d+(?:\.\d)?)%? in (?P<tokens>\d[\d,]*)"
    r"|(?P<low>\d*\.\d+|\d+) to (?P<high>\.\d+|\d+%))(?![\w.%]|,\d)"
)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.parent.name in ("docs", ROOT.name)], ids=lambda p: p.name
)
def test_figures_of_a_page_stand_in_the_results(page):
    """Both numbers of a pair, as printed or rounded, stand in one paragraph or table row of a results file."""
    files = [ROOT / "benchmarks" / "RESULTS.md", *(ROOT / "benchmarks" / "log").glob("*.md")]
    passages = [part for file in files for part in re.split(r"\n\n|\n(?=[|-])", file.read_text("utf-8"))]
    known = [
        {shown for n in re.findall(r"\d[\d,]*(?:\.\d+)?|\.\d+", p) for shown in _as_shown(n)}
        for p in passages
    ]
    prose = re.sub(r"^```.*?^```|<!--.*?-->|!\[.*?\]\(.*?\)", "", page.read_text("utf-8"), flags=re.S | re.M)
    for match in FIGURE.finditer(" ".join(prose.split())):
        pair = {n.strip(",%").replace(",", "") for n in match.groups() if n}
        if match[0] in NOT_MEASURED:
            continue
        assert any(pair <= numbers for numbers in known), f"{page.name}: {match[0]!r} stands in no results"


def _as_shown(number: str) -> set[str]:
    """A measured number as pages write it: as it is, to a whole number, or as a percentage."""
    value = float(number.replace(",", ""))
    return {
        number.replace(",", ""),
        f"{value:.0f}",
        f"{value:.1f}",
        f"{100 * value:.0f}",
        f"{value:.2f}".lstrip("0"),
    }


NOT_MEASURED = {"1 to 10"}
"""What a page says of a setting, not of a measurement."""


def test_answers_of_a_real_llm_are_those_of_the_table():
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    table = results.split("| % of the evidence's gain |")[1].split("\n\n")[0]
    shares = {row: [int(n) for n in re.findall(r"(\d+) \[", row)] for row in table.splitlines()[2:]}
    ours, index, chain = (
        [n for row, mine in shares.items() if row.startswith(names) and " - " not in row for n in mine]
        for names in ("| the stock", "| LlamaIndex stock", "| LangChain stock")
    )
    for page in ("README.md", "benchmarks/RESULTS.md"):
        said = " ".join((ROOT / page).read_text("utf-8").split())
        spans = re.findall(
            r"512 tokens of ours over a stock index bring (\d+) to (\d+)%, of stock LlamaIndex (\d+) to (\d+)%, of stock LangChain (\d+) to (\d+)%",
            said,
        )
        assert [tuple(map(int, span)) for span in spans] == [
            (min(ours), max(ours), min(index), max(index), min(chain), max(chain))
        ]


def test_the_site_lists_every_page():
    yaml = pytest.importorskip("yaml")

    class Loader(yaml.SafeLoader):
        """Reads the tags that are meant for MkDocs as plain text."""

    Loader.add_multi_constructor("tag:", lambda loader, suffix, node: None)
    Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)

    def leaves(node):
        if isinstance(node, str):
            yield node
        else:
            for child in node.values() if isinstance(node, dict) else node:
                yield from leaves(child)

    pages = {str(Path(p).relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    order = list(leaves(config["nav"]))
    assert set(order) == pages
    in_readme = re.findall(r"\]\(docs/([\w-]+\.md)\) ·", (ROOT / "README.md").read_text("utf-8"))
    assert in_readme == [page for page in order if "/" not in page], "one order in README and navigation"


def test_the_workflow_and_ci_run_targets_that_exist():
    offered = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path in (ROOT / ".github" / "workflows" / "ci.yml", ROOT / ".ci" / "run"):
        runs = re.findall(r"^\s*(?:- run: |run: )?make (.+)$", path.read_text("utf-8"), re.MULTILINE)
        targets = {word for run in runs for word in run.split() if word.replace("-", "").isalpha()}
        assert targets and targets <= offered, path
