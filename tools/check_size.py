#!/usr/bin/env python3
"""Fails when a function is longer than 70 lines or a file longer than 500. Run by ctest as `tidy_size`.

Function ends are found by indentation, which clang-format guarantees. Exceptions are listed here, each with its reason.
"""
import pathlib
import re
import sys

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
LONG_FILES: dict[str, str] = {}      # path: reason
LONG_FUNCTIONS: dict[str, str] = {}  # "path:name": reason


def functions(text: str):
    """(name, first line, lines) of each function body: a line that ends in `{` and holds `)`, up to its closing brace."""
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        head = lines[i]
        if re.search(r"\)\s*(const|noexcept|override|final|->[^{;]*|\s)*\{\s*$", head) and not re.match(
                r"\s*(if|for|while|switch|else|do|namespace|\}|case|return)\b", head):
            indent = len(head) - len(head.lstrip())
            # A wrapped signature starts on an earlier, less indented line.
            first = i
            while first > 0 and lines[first - 1].strip() and not lines[first - 1].rstrip().endswith((";", "}", "{", ":", "*/")) \
                    and not lines[first - 1].lstrip().startswith(("//", "#")):
                first -= 1
            indent = min(indent, len(lines[first]) - len(lines[first].lstrip()))
            end = i + 1
            while end < len(lines) and not re.match(rf"^\s{{{indent}}}\}}", lines[end]):
                end += 1
            names = re.findall(r"([A-Za-z_~][\w:~]*)\s*\(", " ".join(lines[first:i + 1]))
            yield names[0] if names else "?", first + 1, end - first + 1
            if indent == 0:
                i = end
        i += 1


def violations(root: pathlib.Path) -> list[str]:
    found = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cc", ".inc"} or path.name.endswith(("_test.cc", "_bench.cc")):
            continue
        relative, text = str(path.relative_to(root)), path.read_text()
        count = len(text.splitlines())
        if count > FILE_LINES_MAX and relative not in LONG_FILES:
            found.append(f"{relative}: {count} lines, limit {FILE_LINES_MAX}")
        for name, line, length in functions(text):
            if length > FUNCTION_LINES_MAX and f"{relative}:{name}" not in LONG_FUNCTIONS:
                found.append(f"{relative}:{line}: {name} has {length} lines, limit {FUNCTION_LINES_MAX}")
    return found


if __name__ == "__main__":
    bad = violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(bad) if bad else "sizes: every function and file fits")
    sys.exit(1 if bad else 0)
