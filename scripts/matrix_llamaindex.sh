#!/usr/bin/env bash
# The LlamaIndex tests on the lowest and the newest llama-index-core that pyproject.toml allows, each in a
# virtual environment of its own, with neither torch nor a vector store installed (those tests skip).
#
#   scripts/matrix_llamaindex.sh                  # lowest and newest
#   scripts/matrix_llamaindex.sh ==0.14.10        # any others, as pip writes them
set -euo pipefail
cd "$(dirname "$0")/.."
unset VIRTUAL_ENV PYTHONPATH
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_WAIT_POLICY=PASSIVE

python="${PYTHON:-python3}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

# "llama-index-core>=0.14,<0.15" -> "==0.14.0" and "<0.15"
allowed="$(grep -oE 'llama-index-core>=[0-9.]+,<[0-9.]+' pyproject.toml | head -n 1)"
lowest="$(sed -E 's/.*>=([0-9]+\.[0-9]+)(\.([0-9]+))?,.*/==\1.\3/; s/\.$/.0/' <<<"$allowed")"
newest="<${allowed##*<}"

if [ $# -eq 0 ]; then set -- "$lowest" "$newest"; fi
for version in "$@"; do
    venv="$folder/venv"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        ".[llamaindex]" "llama-index-core$version" beautifulsoup4 \
        "pytest>=8" "pytest-asyncio>=0.24" "hypothesis>=6.100"
    "$venv/bin/python" -c \
        "from importlib.metadata import version; print('llama-index-core', version('llama-index-core'))"
    "$venv/bin/python" -m pytest tests/llamaindex -p no:cacheprovider
done
