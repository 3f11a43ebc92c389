"""pagoda plan: the numbers it prints are those a server takes, and serve refuses what does not fit.

Goal: the planned peak is the resident memory of a server whose pool was filled, within 2 %. Method: a small pool, filled by prompts
of arbitrary tokens, after a step with the most rows and the most logits (a scored prompt has both). Both models' embeddings are
tied: of an untied one, pages of the file come on top, as many as the tokens seen (mapped_embedding_bytes at most).
"""
import json
import os
import subprocess

import pytest

from conftest import BINARY

FLAGS = ["--kv-cache-memory", "64MiB", "--max-model-len", "2048", "--max-num-seqs", "32"]


def plan(*flags, code=0):
    done = subprocess.run([BINARY, "plan", *flags, "--json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("model", ["smollm2:135m", "gemma3:270m"])
def test_plan_is_what_a_server_takes(own_server, model):
    planned = plan(model, *FLAGS)
    parts = [planned[f"{part}_bytes"] for part in ("weight", "kv_pool", "swap", "scratch", "vocabulary", "process")]
    assert sum(parts) == planned["peak_bytes"] and planned["fits"] and planned["refusal"] is None
    assert planned["kv_pool_bytes"] == planned["kv_pool_tokens"] * planned["kv_bytes_per_token"]
    assert planned["mapped_embedding_bytes"] == 0
    kinds = planned["kv_bytes_per_token_by_attention"]
    assert kinds["mqa"] <= kinds["gqa"] == planned["kv_bytes_per_token"] <= kinds["mha"]
    assert 0 < planned["floors"]["tpot_ms"] <= planned["floors"]["tpot_batch_ms"] and planned["floors"]["ttft_ms"] > 0

    server = own_server(*FLAGS, model=model)

    def ask(i, tokens, answer, **fields):
        ids = [(i * 7919 + j * 31) % 40000 + 10 for j in range(tokens)]
        body = {"prompt": ids, "max_tokens": answer, "ignore_eos": True} | fields
        assert server.post("/v1/completions", body).status_code == 200

    ask(100, 300, 1, prompt_logprobs=1)
    for i in range(planned["kv_pool_tokens"] // 400 + 2):
        ask(i, 400, 1)
    assert abs(server.resident_bytes() / planned["peak_bytes"] - 1) < 0.02, (server.resident_bytes(), planned)


def test_what_does_not_fit_is_refused_with_numbers_and_ways_out():
    flags = ["--kv-cache-memory", "900GiB", "--max-num-seqs", "4096", "--max-model-len", "8192"]
    planned = plan("smollm2:135m", *flags, code=1)
    assert not planned["fits"] and planned["peak_bytes"] > planned["available_bytes"]
    done = subprocess.run([BINARY, "serve", "smollm2:135m", "--port", "0", *flags], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 1
    for said in ("MiB are available", "KV pool of", "ways out: --kv-cache-memory", "a smaller model", "free "):
        assert said in done.stderr, done.stderr


def test_kv_types_and_swap_space_count():
    f16, small = (plan("qwen2.5-coder:1.5b", *FLAGS, *flags) for flags in ([], ["-ctk", "int8", "-ctv", "int4", "--swap-space", "1GiB"]))
    assert f16["kv_bytes_per_token"] == 28 * 2 * 2 * 128 * 2  # layers, K and V, KV heads, Dh, bytes
    assert small["kv_bytes_per_token"] == 28 * 2 * ((128 + 4) + (64 + 4 * 4))  # a scale a head; scale and minimum for 32
    assert small["weight_bytes"] > f16["weight_bytes"]  # the keys' biases, turned to each position
    assert f16["swap_bytes"] == 0 and (1 << 30) - 16 * small["kv_bytes_per_token"] < small["swap_bytes"] <= 1 << 30
    assert f16["mapped_embedding_bytes"] > 0  # untied


def test_the_environment_counts_as_for_serve():
    flags = ["--kv-cache-memory", "32MiB", "--max-model-len", "1024", "--max-num-seqs", "5", "-ctk", "int8", "--swap-space", "64MiB"]
    env = {"PAGODA_KV_CACHE_MEMORY": "32MiB", "PAGODA_MAX_MODEL_LEN": "1024", "PAGODA_MAX_NUM_SEQS": "5", "PAGODA_CACHE_TYPE_K": "int8",
           "PAGODA_SWAP_SPACE": "64MiB"}
    done = subprocess.run([BINARY, "plan", "smollm2:135m", "--json"], capture_output=True, text=True, timeout=120, check=True,
                          env=os.environ | env)
    by_env, by_flags = json.loads(done.stdout), plan("smollm2:135m", *flags)
    for key in ("kv_pool_bytes", "swap_bytes", "scratch_bytes", "max_model_len", "kv_bytes_per_token"):
        assert by_env[key] == by_flags[key], key
    assert by_env["floors"]["sequences"] == 5


def test_windows_free_what_they_leave():
    """The formula of sizing::kv_sequence_bytes: 3 of 18 layers keep everything, 15 keep their window and a step's rows."""
    planned = plan("gemma3:270m", "--max-model-len", "8192", "--max-num-seqs", "8", "--max-num-batched-tokens", "256")
    layer = 2 * 256 * 2  # K and V, Dh, bytes
    assert abs(planned["kv_sequence_bytes"] / ((3 * 8192 + 15 * (512 + 256)) * layer) - 1) < 0.02
    assert planned["kv_sequences"] == 8 and planned["kv_pool_bytes"] < 0.26 * 8 * 8192 * planned["kv_bytes_per_token"]
