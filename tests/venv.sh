#!/usr/bin/env bash
# Makes .venv with the Python packages of tests/requirements.txt (clients and oracles), once per change of that list.
set -euo pipefail
cd "$(dirname "$0")/.."
want=$(cksum < tests/requirements.txt)
[ "$(cat .venv/.made-from 2>/dev/null)" = "$want" ] && exit 0
echo "pagoda: making .venv from tests/requirements.txt" >&2
python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
echo "$want" > .venv/.made-from
