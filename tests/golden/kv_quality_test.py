"""Goal: storing K and V in fewer bits moves the next-token distributions no further than docs/QUALITY.md says.

Method: `pagoda eval kl` against f16 on one window of a text (PAGODA_TEST_ALL=1: 4,096 tokens, as in the document). Bars are
calibrated: half again the first measurement of each model and type on 256 tokens, and below the bars that were asked
for (fp8 0.02, V in int4 0.02, K and V in int4 0.15) everywhere; int8's 0.002 is below what rounding alone makes of two models.
"""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = ROOT.parent / "shared" / "cases" / "text" / "tinyshakespeare.txt"
PAGODA = os.environ.get("PAGODA_BIN", str(ROOT / "build" / "release" / "pagoda"))
WHOLE = bool(os.environ.get("PAGODA_TEST_ALL"))

# (model, K, V): mean KL allowed. Rounding of activations to int8 alone makes 0.004, 0.0025 and 0.001 (K and V in f32).
BARS = {("smollm2:135m", "int8", "int8"): 0.008, ("smollm2:135m", "fp8", "fp8"): 0.016,
        ("smollm2:135m", "f16", "int4"): 0.02, ("smollm2:135m", "int4", "int4"): 0.15,
        ("gemma3:270m", "int8", "int8"): 0.013, ("gemma3:270m", "fp8", "fp8"): 0.014,
        ("gemma3:270m", "f16", "int4"): 0.0145, ("gemma3:270m", "int4", "int4"): 0.15,
        ("qwen2.5-coder:1.5b", "int8", "int8"): 0.002, ("qwen2.5-coder:1.5b", "fp8", "fp8"): 0.006,
        ("qwen2.5-coder:1.5b", "f16", "int4"): 0.0095, ("qwen2.5-coder:1.5b", "int4", "int4"): 0.03}

# The largest model takes 20 s a pair: of its types the one that its bias of K spoils first, always.
ROWS = [pytest.param(*key, marks=[pytest.mark.slow] if key[0] == "qwen2.5-coder:1.5b" and key[1] != "int4" else [])
        for key in BARS]


@pytest.mark.parametrize("model,k,v", ROWS)
def test_mean_kl_stays_below_its_bar(model, k, v):
    tokens = 4096 if WHOLE else 256
    run = subprocess.run([PAGODA, "eval", "kl", model, str(TEXT), "-ctk", k, "-ctv", v, "--tokens", str(tokens),
                          "--context", str(min(tokens, 1024)), "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    mean = json.loads(run.stdout)["kl_mean"]
    print(model, k, v, f"{mean:.6f}")
    assert 0 < mean <= BARS[model, k, v]
