#!/usr/bin/env python3
"""Fails when a file in src/ includes a folder its layer may not use. Run by ctest as `tidy_layers`."""
import pathlib
import re
import sys

MAY_USE = {  # folder: the src/ folders it may include, besides itself. Calls go down, values come up.
    "core": [],
    "metrics": ["core"],
    "sizing": ["core"],
    "text": ["core"],
    "grammar": ["text", "core"],
    "jinja": ["core"],
    "kernels": ["core"],
    "kvcache": ["core"],
    "weights": ["kernels", "text", "core"],
    "model": ["weights", "kernels", "core"],
    "sampling": ["kernels", "core"],
    "engine": ["model", "weights", "sampling", "kvcache", "kernels", "sizing", "metrics", "core"],
    "scheduler": ["engine", "kvcache", "sampling", "grammar", "text", "sizing", "metrics", "core"],
    "workload": ["scheduler", "engine", "sampling", "text", "metrics", "core"],
    "dialog": ["core"],
    "api": ["scheduler", "dialog", "jinja", "grammar", "text", "sizing", "metrics", "core"],
    "apps": None,  # everything
}
# Types that pass through a layer between two others: scheduler hands the engine's and the sampler's values up.
VALUES_UP = {"api": ["engine/batch.h", "sampling/params.h"]}

TEST_FILE = re.compile(r"_test\.cc$|_for_test\.h$|test_\w+\.h$|_support\.h$")


def below(layer: str) -> set[str]:
    """Every layer under `layer`: what a test of it links anyway, so it may build its subject from the ground up."""
    direct = set(MAY_USE[layer])
    return direct.union(*(below(other) for other in direct))


def violations(src: pathlib.Path) -> list[str]:
    found = []
    for path in sorted(p for p in src.rglob("*") if p.suffix in {".h", ".cc", ".cu", ".cuh", ".inc"}):
        here = path.relative_to(src).parts[0]
        if here not in MAY_USE:
            found.append(f"{path}: folder {here}/ is not in the layer table")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"((\w+)/[^"]*)"', line)
            if not match or MAY_USE[here] is None or match[2] == here or match[2] in MAY_USE[here]:
                continue
            if TEST_FILE.search(path.name) and match[2] in below(here):
                continue
            if match[1] not in VALUES_UP.get(here, []):
                found.append(f"{path}:{number}: {here}/ may not include {match[2]}/")
    return found


if __name__ == "__main__":
    bad = violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src"))
    print("\n".join(bad) if bad else "layers: every include points down")
    sys.exit(1 if bad else 0)
