"""Goal: architectures that no real model here covers compute what llama.cpp computes.

Method: small models with random weights (tools/make_tiny_model.py) in every family and head layout; llama.cpp's logprobs at
160 positions become a golden file, and `pagoda eval golden` says how far ours are (KL divergence on the 32 likeliest tokens and
one bucket for the rest). A wrong rope pairing, window, norm, bias or scale gives a KL near 1e-1 on these models. The last 60
tokens are llama.cpp's own greedy answer: where our likeliest token is its at each position but for ties, our greedy answer is the same ids.
Windows are 32 tokens and original contexts 64, so that most positions lie beyond both.

Bounds: both engines keep K and V in f16 and sum in f32, so with F32 weights only f16 roundings that fall differently remain:
2^-11 of a value, averaged over hidden values, moves a logprob by some 1e-4 to 1e-3, and a KL is half the variance of that: below
1e-6 (seen: 5e-8). F16 weights: llama.cpp also rounds activations to f16, ten times the variance (seen: 5e-7); BF16 weights: to
bf16, three bits less, 64 times the variance of that (seen: 3e-5). Quantized weights:
both round activations to int8, each in its own way, llama.cpp with one scale per 256 for K-quants: relative error 1e-2 on logits
of spread two to four, KL a few 1e-3 (seen: 2e-3).
"""
import contextlib
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

import llama_cpp
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
VOCAB = SHARED / "cases" / "vocab" / "ggml-vocab-llama-spm.gguf"
PAGODA = os.environ.get("PAGODA_BIN", str(ROOT / "build" / "release" / "pagoda"))
PROMPT, ANSWER, TOP = 100, 60, 32
TOKENS = PROMPT + ANSWER
EXACT, HALF, BFLOAT, QUANTIZED = 1e-6, 1e-5, 3e-4, 5e-3

# name: (flags of make_tiny_model, bound on the KL[, llama.cpp's context settings, flags of eval])
CASES = {
    "llama-gqa-f32": ("--arch llama --type F32", EXACT),
    "llama-mha-f16": ("--arch llama --type F16 --kv-heads 4", HALF),
    "llama-mqa-tied-f32": ("--arch llama --type F32 --kv-heads 1 --tied", EXACT),
    "llama-bias-f32": ("--arch llama --type F32 --bias", EXACT),
    "llama3-factors-f32": ("--arch llama --type F32 --llama3-factors --rope-base 500000", EXACT),
    "llama-linear-f32": ("--arch llama --type F32 --rope-linear 4", EXACT),
    "llama-head-80-f32": ("--arch llama --type F32 --width 320 --head-dim 80", EXACT),
    "llama-q4_k": ("--arch llama --type Q4_K", QUANTIZED),
    "llama-q5_k": ("--arch llama --type Q5_K", QUANTIZED),
    "llama-q3_k": ("--arch llama --type Q3_K", QUANTIZED),
    "llama-q2_k": ("--arch llama --type Q2_K", QUANTIZED),
    "llama-iq4_xs": ("--arch llama --type IQ4_XS", QUANTIZED),
    "llama-iq4_nl": ("--arch llama --type IQ4_NL", QUANTIZED),
    **{f"llama-{kind.lower()}": (f"--arch llama --type {kind}", QUANTIZED)
       for kind in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0")},
    "llama-mxfp4": ("--arch llama --type MXFP4", QUANTIZED),
    "llama-q5_1": ("--arch llama --type Q5_1", QUANTIZED),
    "llama-q4_0": ("--arch llama --type Q4_0", QUANTIZED),
    "llama-q4_1": ("--arch llama --type Q4_1", QUANTIZED),
    "llama-bf16": ("--arch llama --type BF16", BFLOAT),
    "qwen2-f32": ("--arch qwen2 --type F32", EXACT),
    "qwen2-q8_0": ("--arch qwen2 --type Q8_0", QUANTIZED),
    "qwen3-f32": ("--arch qwen3 --type F32 --head-dim 128", EXACT),
    "qwen3-q6_k": ("--arch qwen3 --type Q6_K --head-dim 128", QUANTIZED),
    "gemma3-f32": ("--arch gemma3 --type F32 --layers 7 --window 32 --tied", EXACT),
    "gemma3-q5_0": ("--arch gemma3 --type Q5_0 --layers 7 --window 32 --tied", QUANTIZED),
    "gemma-f32": ("--arch gemma --type F32 --kv-heads 1 --head-dim 128 --tied", EXACT),
    "gemma2-f32": ("--arch gemma2 --type F32 --layers 5 --window 32 --tied --head-dim 128", EXACT),
    "gemma2-caps-f32": ("--arch gemma2 --type F32 --layers 5 --window 32 --tied --softcaps 2 5", EXACT),
    "gemma2-27b-scale-f32": ("--arch gemma2 --type F32 --layers 46 --width 64 --ffn 64 --head-dim 64 --window 32 --tied", HALF),
    "gemma2-q4_k": ("--arch gemma2 --type Q4_K --layers 5 --window 32 --tied --softcaps 2 5", QUANTIZED),
    "qwen2-yarn-f32": ("--arch qwen2 --type F32 --yarn 8 --original-context 64", EXACT),
    "qwen3-yarn-q8_0": ("--arch qwen3 --type Q8_0 --head-dim 128 --yarn 4 --original-context 64", QUANTIZED),
    "llama-yarn-attn-f32": ("--arch llama --type F32 --yarn 4 --original-context 64 --attn-factor 1.25", EXACT),
    # llama.cpp reads these keys only for other families: it is told the values.
    "llama-yarn-betas-f32": ("--arch llama --type F32 --yarn 8 --original-context 64 --yarn-betas 4 0.5", EXACT,
                             {"yarn_beta_fast": 4.0, "yarn_beta_slow": 0.5}),
    "qwen2-yarn-half-f32": ("--arch qwen2 --type F32 --yarn 8 --original-context 64 --yarn-ext 0.5", EXACT,
                            {"yarn_ext_factor": 0.5}),
    "qwen2-yarn-none-f32": ("--arch qwen2 --type F32 --yarn 8 --original-context 64 --yarn-ext 0", EXACT,
                            {"yarn_ext_factor": 0.0}),
    "granite-f32": ("--arch granite --type F32", EXACT),
    "granite-q8_0": ("--arch granite --type Q8_0 --tied --scales 2 0.9 0.1 0.5", QUANTIZED),
    "phi3-f32": ("--arch phi3 --type F32", EXACT),
    "phi3-mha-q4_k": ("--arch phi3 --type Q4_K --kv-heads 4 --tied", QUANTIZED),
    "phi3-long-f32": ("--arch phi3 --type F32 --longrope --original-context 64 --attn-factor 1.19", EXACT),
    "phi3-partial-long-f32": ("--arch phi3 --type F32 --longrope --original-context 64 --rope-dims 48", EXACT),
    "phi3-short-f32": ("--arch phi3 --type F32 --longrope --original-context 4096", EXACT),
    "phi3-served-short-f32": ("--arch phi3 --type F32 --longrope --original-context 512", EXACT, {}, "--max-model-len 256"),
    "llama-long-f32": ("--arch llama --type F32 --longrope --original-context 64 --attn-factor 1.19", EXACT),
}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def golden_of_llama_cpp(model: pathlib.Path, settings: dict) -> dict:
    llm = llama_cpp.Llama(model_path=str(model), n_ctx=256, n_batch=PROMPT, n_threads=2, logits_all=True, verbose=False, **settings)
    rng = np.random.default_rng(7)
    ids = [1] + rng.integers(3, llm.n_vocab(), size=PROMPT - 1).tolist()
    llm.eval(ids)
    while len(ids) < TOKENS:
        ids.append(int(np.argmax(llm.scores[len(ids) - 1])))
        llm.eval(ids[-1:])
    logprobs = log_softmax(np.array(llm.scores[:TOKENS]))
    top = np.argsort(-logprobs, axis=-1, kind="stable")[:, :TOP]
    case = {"text": "", "ids": ids, "top_ids": top.tolist(), "top_logprobs": np.take_along_axis(logprobs, top, -1).tolist(),
            "nll_mean": float(-np.mean([logprobs[t, ids[t + 1]] for t in range(TOKENS - 1)]))}
    return {"top": TOP, "cases": {"random": case}}


def test_data_is_here():
    assert VOCAB.exists(), "the shared data folder is missing"


def make_model(name: str, folder: pathlib.Path) -> pathlib.Path:
    model = folder / f"{name}.gguf"
    subprocess.run([sys.executable, str(ROOT / "tools" / "make_tiny_model.py"), str(model), "--vocab-from", str(VOCAB),
                    *CASES[name][0].split()], check=True)
    return model


def eval_golden(model: pathlib.Path, golden: pathlib.Path, *flags: str, **environment: str) -> dict:
    run = subprocess.run([PAGODA, "eval", "golden", str(model), str(golden), "--json", *flags], capture_output=True, text=True,
                         env={**os.environ, **environment})
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["cases"]["random"]


@pytest.mark.parametrize("name", CASES)
def test_equals_llama_cpp(name, tmp_path):
    _, bound, settings, eval_flags = CASES[name] + ({}, "")[len(CASES[name]) - 2:]
    model, golden = make_model(name, tmp_path), tmp_path / "golden.json"
    golden.write_text(json.dumps(golden_of_llama_cpp(model, settings)))
    result = eval_golden(model, golden, *eval_flags.split())
    print(name, result)
    assert abs(result["kl_mean"]) <= bound and result["kl_max"] <= 20 * bound, result
    case = json.loads(golden.read_text())["cases"]["random"]
    # Two tokens nearer to each other than what the bound lets a logprob move may change places.
    ties = sum(top[0] - top[1] < math.sqrt(2 * 20 * bound) for top in case["top_logprobs"])
    assert result["top1_agree"] >= 1 - ties / TOKENS - 1e-9, (result, ties)
    expected = case["nll_mean"]
    assert abs(result["nll_mean"] - expected) <= {EXACT: 2e-3, HALF: 2e-3, BFLOAT: 1e-2, QUANTIZED: 5e-2}[bound], (result, expected)


@contextlib.contextmanager
def served(model: pathlib.Path):
    """The address of `pagoda serve` once it is ready."""
    server = subprocess.Popen([PAGODA, "serve", str(model), "--port", "0"], stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "NO_COLOR": "1"})
    try:
        port, lines = None, []
        for line in server.stderr:
            lines.append(line)
            if match := re.search(r"\(port (\d+) answers 503", line):
                port = int(match.group(1))
            if "ready: " in line:
                break
        else:
            raise AssertionError("".join(lines))
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.communicate()


# Goal: a server's greedy answer is llama.cpp's, id by id: decode steps, one row each, not only prefill. Method: the prompt of 100
# ids over HTTP; F32 weights, no near ties in these answers (the bound of the KL test says how near).
@pytest.mark.parametrize("name", ["gemma2-caps-f32", "granite-f32", "phi3-partial-long-f32", "qwen2-yarn-f32", "llama-long-f32"])
def test_greedy_answer_is_llama_cpps(name, tmp_path):
    model = make_model(name, tmp_path)
    ids = golden_of_llama_cpp(model, {})["cases"]["random"]["ids"]
    body = {"model": name, "prompt": ids[:PROMPT], "max_tokens": ANSWER, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True}
    with served(model) as url:
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            choice = json.load(answer)["choices"][0]
    assert choice["token_ids"] == ids[PROMPT:], choice


# Goal: what these families add (softcaps, post-norms, cut tensors, scales, stretched rope) has one arithmetic too. Method: the
# same evaluation by the portable kernels with one thread and by the machine's own with three, printed to the last digit.
@pytest.mark.parametrize("name", ["gemma2-caps-f32", "gemma2-q4_k", "granite-q8_0", "phi3-partial-long-f32", "qwen3-yarn-q8_0"])
def test_same_bits_on_every_isa_and_thread_count(name, tmp_path):
    model, golden = make_model(name, tmp_path), tmp_path / "golden.json"
    rng = np.random.default_rng(11)
    ids = [1] + rng.integers(3, 512, size=TOKENS - 1).tolist()
    top = [rng.permutation(512)[:TOP].tolist() for _ in ids]
    golden.write_text(json.dumps({"top": TOP, "cases": {"random": {
        "ids": ids, "top_ids": top, "top_logprobs": [[-6.0] * TOP for _ in ids]}}}))
    alone = eval_golden(model, golden, "--threads", "1", PAGODA_ISA="portable")
    assert alone == eval_golden(model, golden, "--threads", "3")
    assert alone["nll_mean"] > 1
