"""Ways to store K and V as operators meet them: flags under both families of names, refusals that list what there is."""
import json
import os
import pathlib
import subprocess

import pytest

from conftest import BINARY, MODEL, Server

TEXT = pathlib.Path(__file__).resolve().parents[3] / "shared/cases/text/tinyshakespeare.txt"


def pagoda(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=120, env={**os.environ, "NO_COLOR": "1"})


def test_server_with_small_k_and_smaller_v():
    server = Server("-ctk", "int8", "-ctv", "q4_0", "--max-model-len", "2048")
    try:
        pool = server.wait_line(r"kv pool: \d+ blocks of 16 tokens in int8-int4, (\d+) bytes a token")
        assert int(pool.group(1)) == 30 * 3 * (64 + 4 + 32 + 2 * 4)   # layers x heads x (int8 and its scale, int4 and its two)
        body = {"prompt": "The lighthouse keeper wrote down every ship. " * 20, "max_tokens": 16, "temperature": 0, "logprobs": 2}
        answers = [server.post("/v1/completions", body).json() for _ in range(2)]
        assert answers[0]["system_fingerprint"].endswith("kv-int8-int4")
        assert answers[0]["choices"] == answers[1]["choices"]         # cold, and from the cache with its scales
        assert answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 100
    finally:
        server.kill()


def test_the_environment_chooses_too():
    server = Server(env={"PAGODA_KV_CACHE_DTYPE": "fp8", "PAGODA_CACHE_TYPE_V": "bf16"})
    try:
        server.wait_line(r"in fp8_e4m3-bf16, ")
    finally:
        server.kill()


@pytest.mark.parametrize("verb", [["serve", MODEL], ["run", MODEL, "hello"], ["eval", "kl", MODEL, str(TEXT)],
                                  ["bench", "latency", MODEL]])
@pytest.mark.parametrize("flag", ["--kv-cache-dtype", "-ctk", "-ctv"])
def test_unknown_names_are_refused_with_the_list(verb, flag):
    answer = pagoda(*verb, flag, "q5_1")
    assert answer.returncode == 2
    for name in ["q5_1", "f16", "bf16", "f32", "int8", "fp8", "fp8_e5m2", "int4"]:
        assert name in answer.stderr, answer.stderr


def test_perplexity_and_kl_as_json():
    common = [MODEL, str(TEXT), "--tokens", "96", "--context", "48", "--json"]
    kl = pagoda("eval", "kl", *common, "--kv-cache-dtype", "int4")
    assert kl.returncode == 0, kl.stderr
    assert "window 2 of 2" in kl.stderr
    kl = json.loads(kl.stdout)
    assert (kl["k"], kl["v"], kl["windows"], kl["tokens"]) == ("int4", "int4", 2, 96)
    assert kl["kv_bytes_per_token"] < 0.33 * kl["kv_bytes_per_token_f16"]
    assert 0 < kl["kl_mean"] < 1 and kl["kl_mean"] <= kl["kl_max"] and 0.5 < kl["top1_agree"] <= 1
    for flags, key in [([], "perplexity_f16"), (["-ctk", "int4", "-ctv", "int4"], "perplexity")]:
        alone = pagoda("eval", "perplexity", *common, *flags)
        assert json.loads(alone.stdout)["perplexity"] == kl[key]      # the same run, to the bit


def test_f16_against_itself_is_zero():
    answer = pagoda("eval", "kl", MODEL, str(TEXT), "--tokens", "32", "--context", "32", "--json")
    assert json.loads(answer.stdout)["kl_max"] == 0


def test_texts_that_cannot_be_used_are_refused_with_the_numbers(tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("Too short.")
    answer = pagoda("eval", "perplexity", MODEL, str(short))
    assert answer.returncode == 1 and "4 windows of 1024 need 4096" in answer.stderr, answer.stderr
    (tmp_path / "empty.txt").write_text("")
    for path in ["missing.txt", "empty.txt", "."]:
        answer = pagoda("eval", "kl", MODEL, str(tmp_path / path))
        assert answer.returncode == 1 and answer.stderr.strip(), path
    answer = pagoda("eval", "kl", MODEL, str(TEXT), "--tokens", "64", "--context", "65")
    assert answer.returncode == 1 and "longer than the 64" in answer.stderr
