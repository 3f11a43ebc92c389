#!/usr/bin/env bash
# Makes a virtual environment from a requirements list, once per change of that list.
#   tests/venv.sh          .venv         clients and pytest (tests/requirements.txt)
#   tests/venv.sh oracle   .venv-oracle  llama.cpp as an oracle (tests/oracle/requirements.txt), built from source: some minutes
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  '') venv=.venv list=tests/requirements.txt ;;
  oracle) venv=.venv-oracle list=tests/oracle/requirements.txt ;;
  *) echo "usage: tests/venv.sh [oracle]" >&2; exit 2 ;;
esac
want=$(cksum < "$list")
[ "$(cat "$venv/.made-from" 2>/dev/null)" = "$want" ] && exit 0
echo "pagoda: making $venv from $list" >&2
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$list"
echo "$want" > "$venv/.made-from"
