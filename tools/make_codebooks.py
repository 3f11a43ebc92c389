#!/usr/bin/env python3
"""Writes src/kernels/formats/codebooks.inc: the grids of GGUF's codebook formats, which are part of their definition.

An entry of IQ2 and IQ1 grids holds eight places of two bits (lowest first), one of IQ3 four places of three bits; what a place
stands for is in codebook.cc. Taken from PyPI `gguf`, which test and product therefore share: that our reading of the blocks is
right is what tests/golden/formats.json and llama.cpp (tests/oracle) say.

    pip install gguf==0.19.0 && python3 tools/make_codebooks.py > src/kernels/formats/codebooks.inc
"""
from gguf import quants

GRIDS = {"kGridIq2Xxs": quants.IQ2_XXS, "kGridIq2Xs": quants.IQ2_XS, "kGridIq2S": quants.IQ2_S, "kGridIq3Xxs": quants.IQ3_XXS,
         "kGridIq3S": quants.IQ3_S, "kGridIq1": quants.IQ1_S}


def main() -> None:
    print("// Made by tools/make_codebooks.py; part of codebook.cc.")
    for name, kind in GRIDS.items():
        kind.init_grid()
        entries, places = kind.grid_shape
        bits = 2 if places == 8 else 3
        numbers = [sum(kind.grid_map.index(int(value)) << (bits * i) for i, value in enumerate(row))
                   for row in kind.grid.reshape(entries, places)]
        print(f"constexpr uint16_t {name}[{entries}] = {{")
        for at in range(0, entries, 16):
            print("    " + " ".join(f"{number}," for number in numbers[at:at + 16]))
        print("};")


if __name__ == "__main__":
    main()
