"""What cuts tear in real documentation: labels, directives, literal blocks and fences.

    apt-get download python3.11-doc docker-doc ... && dpkg -x *.deb FOLDER
    python benchmarks/documentation.py FOLDER --pages 40 --seed 1

Reads up to ``--pages`` pages of each package below ``usr/share/doc``: the sources that Sphinx ships
(``*.rst.txt``) and Markdown. A label or a directive is torn if another chunk holds the first word that it
announces, a block of at most 600 characters if a chunk begins inside it.
"""

from __future__ import annotations

import argparse
import bisect
import gzip
import random
import re
from collections import Counter
from pathlib import Path

from sage_core import Segmenter

_LABEL = re.compile(r"(?m)^ *\.\. _[^\n]+:[ \t]*\n\s*(?=\S)")
_DIRECTIVE = re.compile(r"(?m)^( *)\.\. [\w:.+-]+::[^\n]*\n(?:[ \t]*\n)*\1[ ]+(?=\S)")
_LITERAL = re.compile(
    r"(?m)^( *)(?!\.\. )\S[^\n]*::[ \t]*\n(?:[ \t]*\n)*((?:\1[ ]+\S[^\n]*\n(?:[ \t]*\n)*)+)"
)
_FENCE = re.compile(r"(?ms)^ *((`{3,})[^\n`]*\n.*?^ *\2)[ \t]*$")
_LONGEST = 600


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torn, seen = Counter[str](), Counter[str]()
    segmenter = Segmenter()
    for package in sorted((options.folder / "usr/share/doc").iterdir()):
        files = sorted(f for f in package.rglob("*") if re.search(r"\.(?:rst\.txt|md(?:\.gz)?)\Z", f.name))
        files = [file for file in files if file.is_file() and 1_500 < file.stat().st_size < 120_000]
        for file in random.Random(options.seed).sample(files, min(options.pages, len(files))):
            data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            text = data.decode("utf-8", "replace")
            spans = segmenter.segment(text)
            starts = [span.start for span in spans]
            seen["pages"] += 1
            seen["chunks"] += len(spans)
            torn["chunks"] += sum(not any(map(str.isalnum, span.of(text))) for span in spans)
            for name, pattern in (("labels", _LABEL), ("directives", _DIRECTIVE)):
                for match in pattern.finditer(text):
                    first = match.start() + len(match[0]) - len(match[0].lstrip())
                    seen[name] += 1
                    torn[name] += bisect.bisect(starts, first) != bisect.bisect(starts, match.end())
            for name, pattern, group in (("literal blocks", _LITERAL, 2), ("fences", _FENCE, 1)):
                for match in pattern.finditer(text):
                    block = match[group].strip()
                    begin = text.index(block, match.start(group))
                    if len(block) <= _LONGEST:
                        seen[name] += 1
                        inside = bisect.bisect(starts, begin), bisect.bisect_left(starts, begin + len(block))
                        torn[name] += inside[0] != inside[1]
    for name, count in seen.items():
        print(f"{name}: {count}" if name == "pages" else f"{name}: {torn[name]} torn of {count:,}")


if __name__ == "__main__":
    main()
