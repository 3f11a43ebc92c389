#!/usr/bin/env python3
"""Fails when an object built for one ISA exports a weak symbol, or lacks the instructions it was written for. Run by ctest
as `tidy_isa_symbols`.

An inline function or template instantiated in such an object carries wide instructions; the linker may hand that copy to
the rest of the program, and an older CPU then dies with SIGILL. Usage: check_isa_symbols.py LIBRARY.a
"""
import subprocess
import sys

# What an object must hold at 512 bits, by part of its name: not every CPU that builds can run it and show.
MEANT = {"avx512_block256": ("vpmaddubsw", "vpdpwssd"), "avx512_block32": ("vpdpbusd",), "avx512_float": ("vfmadd",)}


def missing_instructions(library: str) -> list[str]:
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    wanted, member = {(part, meant) for part, all_meant in MEANT.items() for meant in all_meant}, ""
    for line in listing.splitlines():
        if line.endswith("elf64-x86-64"):
            member = line
        elif "zmm" in line and "avx512" in member:
            wanted -= {(part, meant) for part, meant in wanted if part in member and meant in line}
    return [f"x86_{part}: no {meant} on zmm registers" for part, meant in sorted(wanted)]


def weak_symbols(library: str) -> list[str]:
    listing = subprocess.run(["nm", "-C", library], capture_output=True, text=True, check=True).stdout
    found, member, seen = [], "", 0
    for line in listing.splitlines():
        if line.endswith(".o:"):
            member = line[:-1]
            seen += member.startswith("x86_")
        elif member.startswith("x86_") and len(parts := line.split(maxsplit=2)) == 3 and parts[1] in "WVu":
            # Sanitizer builds add their own comdat descriptors; they hold no code.
            if not any(mark in parts[2] for mark in ("asan", "ubsan", "odr_", "DW.ref.")):
                found.append(f"{member}: {parts[2]}")
    if seen == 0:
        found.append(f"{library} holds no x86_*.o: the check looked at nothing")
    return found


if __name__ == "__main__":
    bad = weak_symbols(sys.argv[1]) + missing_instructions(sys.argv[1])
    print("\n".join(bad) if bad else "isa objects: no weak symbols, and the instructions meant")
    sys.exit(1 if bad else 0)
