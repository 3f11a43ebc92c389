#!/usr/bin/env bash
# Installs the Debian packages of tools/packages.txt that are missing. Usage: install_packages.sh [build|test|ci]
#   build  what `./run` needs (default);  test  what `./test` needs too;  ci  what `.ci/run` needs too
set -euo pipefail
cd "$(dirname "$0")/.."
scope=${1:-build}

wanted() {
  while read -r package kind; do
    case "$package" in ''|'#'*) continue ;; esac
    case "$scope:${kind:-build}" in
      build:build|test:build|test:test|ci:*) echo "$package" ;;
    esac
  done < tools/packages.txt
}

missing=()
for package in $(wanted); do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "pagoda: installing Debian packages: ${missing[*]}" >&2
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "pagoda: neither root nor sudo; ask an administrator to run: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
