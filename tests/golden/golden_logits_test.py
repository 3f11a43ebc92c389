"""Goal: our logits are as near to an exact float32 evaluation as the bar asks (golden/README of the shared data).

Method: `pagoda eval golden` through the serving engine, all six prompts of each model, KL as a ratio to llama.cpp's.
"""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT.parent / "shared" / "golden"
PAGODA = os.environ.get("PAGODA_BIN", str(ROOT / "build" / "release" / "pagoda"))

BARS = [("smollm2:135m", "golden-smollm2.json", 1.25, 1.7), ("gemma3:270m", "golden-gemma3.json", 0.6, 1.0),
        ("qwen2.5-coder:1.5b", "golden-qwen2.json", 0.25, 1.0)]


@pytest.mark.parametrize("model,file,mean_bar,case_bar", BARS)
def test_logits_meet_the_bar(model, file, mean_bar, case_bar):
    assert (GOLDEN / file).exists(), "the shared data folder is missing"
    run = subprocess.run([PAGODA, "eval", "golden", model, str(GOLDEN / file), "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "tokenizer" not in run.stderr, run.stderr   # our ids are the file's
    got, want = json.loads(run.stdout)["cases"], json.loads((GOLDEN / file).read_text())["cases"]
    assert set(got) == set(want)
    ratio = {name: got[name]["kl_mean"] / want[name]["llama_cpp"]["kl_mean"] for name in want}
    mean = sum(got[n]["kl_mean"] for n in want) / sum(want[n]["llama_cpp"]["kl_mean"] for n in want)
    print(model, f"mean {mean:.3f}", {n: round(r, 3) for n, r in ratio.items()})
    assert mean <= mean_bar and max(ratio.values()) <= case_bar, (mean, ratio)
    for name in want:
        assert abs(got[name]["nll_mean"] - want[name]["nll_mean"]) < 0.1, name
        assert got[name]["top1_agree"] >= 0.85, name
