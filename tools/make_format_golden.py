#!/usr/bin/env python3
"""Writes tests/golden/formats.json: for each weight type, the FNV-1a hash of what PyPI `gguf` dequantizes from fixed blocks.

The blocks are not stored: this script and src/kernels/formats/dequantize_test.cc draw the same bytes from the same
generator. Byte = top 8 bits of x, x = 1664525 x + 1013904223 mod 2^32 (Numerical Recipes), x0 = 2026 + type id.
Every f16 scale is then replaced, in turn, by one of SCALES, because random bits would be infinite or NaN too often and
subnormal too seldom.

    pip install gguf==0.19.0 && python3 tools/make_format_golden.py tests/golden/formats.json
"""
import json
import sys

import gguf
import numpy as np

BLOCKS = 64
# Byte offsets of the f16 scales in a block. F32, F16 and BF16 have none, IQ1_M's is scattered: clearing bit 6 of the top byte
# keeps them finite.
F16_FIELDS = {
    "F16": [], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "BF16": [], "F32": [],
    "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": [], "TQ1_0": [52], "TQ2_0": [64],
}
# one, -one, zero, -zero, smallest and largest subnormal, smallest normal, largest, ordinary ones
SCALES = [0x3C00, 0xBC00, 0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x211F, 0xA9D3, 0x1555, 0x2E66, 0x0203]  # an odd number, so that pairs vary


def block_bytes(name: str) -> bytes:
    kind = gguf.GGMLQuantizationType[name]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    count = BLOCKS if gguf.GGML_QUANT_SIZES[kind][0] > 1 else BLOCKS * 32
    x = 2026 + kind.value
    data = bytearray()
    for _ in range(count * size):
        x = (1664525 * x + 1013904223) % 2**32
        data.append(x >> 24)
    turn = 0
    for block in range(count):
        for offset in F16_FIELDS[name]:
            data[block * size + offset:block * size + offset + 2] = SCALES[turn % len(SCALES)].to_bytes(2, "little")
            turn += 1
        if name in ("F32", "F16", "BF16", "IQ1_M"):
            data[block * size + size - 1] &= 0xBF
    return bytes(data)


def fnv1a(data: bytes) -> str:
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = ((hashed ^ byte) * 0x100000001B3) % 2**64
    return f"{hashed:016x}"


def main() -> None:
    hashes = {}
    for name in F16_FIELDS:
        data = np.frombuffer(block_bytes(name), dtype=np.uint8)
        with np.errstate(all="ignore"):
            values = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[name]).astype("<f4")
        hashes[name] = {"blocks_fnv1a64": fnv1a(data.tobytes()),
                        "values_fnv1a64": fnv1a(values.tobytes()), "elements": int(values.size)}
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"oracle": "PyPI gguf, gguf.quants.dequantize", "made_by": "tools/make_format_golden.py",
                   "types": hashes}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
