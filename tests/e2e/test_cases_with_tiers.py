"""Failures that users of other engines reported (shared cases K01, K03, K09, D03, D07), on servers whose KV goes to disk and to host
memory and comes back: a server, then another one that knows only the folder, against one without cache, bit for bit.

Case K11 is src/scheduler/scheduler_test.cc: no request makes a real model fail.
"""
import concurrent.futures
import random

import pytest

TIERS = ["--swap-space", "64MiB", "--preemption-mode", "swap"]
PLAIN = ["--no-enable-prefix-caching"]


def ask(server, prompt, **fields):
    body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "seed": 1, "logprobs": 1, "ignore_eos": True} | fields
    answer = server.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def choices(server, prompts, at_once=False, **fields):
    def one(prompt):
        return ask(server, prompt, **fields)["choices"]
    if not at_once:
        return [one(prompt) for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(one, prompts))


def lives(own_server, folder, *flags, model):
    """A server with all tiers, and one that comes after it."""
    for _ in range(2):
        one = own_server("--kv-dir", str(folder), *TIERS, *flags, model=model)
        yield one
        assert one.stop() == 0


@pytest.mark.slow
def test_k01_cached_prefixes_change_no_bit(own_server, server, tmp_path):
    """8 random prompts (the case has 16) of 512 characters twice, then with a suffix; a pool that holds three of them (preempting: test_kv_tiers)."""
    rng = random.Random(20261130)
    prompts = ["".join(rng.choice("abcdefghijklmnop qrstuvwxyz.,") for _ in range(512)) for _ in range(8)]
    load = prompts + prompts + [prompt + " and so on" for prompt in prompts]
    plain = own_server(*PLAIN)
    want = choices(plain, prompts, max_tokens=16) * 2 + choices(plain, load[16:], max_tokens=16)
    from_tiers = 0
    for one in lives(own_server, tmp_path, "--kv-cache-memory", "24MiB", model="smollm2:135m"):
        assert choices(one, load, at_once=True, max_tokens=16) == want
        from_tiers += one.metric("pagoda:kv_tier_blocks_loaded_total")
    assert from_tiers > 0


def test_k03_sliding_windows_are_reused(own_server, tmp_path):
    """gemma3:270m (window 512, every sixth layer full): one prompt four times, then a fork that leaves it."""
    ids = [(i * 7919 + i // 50 * 31) % 40000 + 10 for i in range(700)]
    fork = ids[:600] + ids[:60]
    plain = own_server(*PLAIN, model="gemma3:270m")
    want, other = choices(plain, [ids, fork])
    for life, one in enumerate(lives(own_server, tmp_path, model="gemma3:270m")):
        answers = [ask(one, prompt) for prompt in [ids] * 4 + [fork]]
        assert [a["choices"] for a in answers] == [want] * 4 + [other]
        assert all(a["usage"]["prompt_tokens_details"]["cached_tokens"] > 500 for a in answers[1 - life:])


@pytest.mark.parametrize("model", ["smollm2:135m", "gemma3:270m"])  # heads of 64 and 256; 40, 80, 96, 128 are kernel tests
@pytest.mark.parametrize("kv", ["q8_0", "q4_0"])
def test_k09_small_kv_types_work(own_server, tmp_path, model, kv):
    """600 tokens: finite logprobs, and the same bits from the disk, scales included."""
    ids = [(i * 7919 + i // 50 * 31) % 40000 + 10 for i in range(600)]
    seen = []
    for one in lives(own_server, tmp_path, "-ctk", kv, "-ctv", kv, model=model):
        answer = ask(one, ids)
        seen.append(answer["choices"])
        assert all(-60 < logprob <= 0 for logprob in answer["choices"][0]["logprobs"]["token_logprobs"])
    assert seen[0] == seen[1]
    assert answer["cache"][0]["from"]["disk"] == 592


def test_d03_nothing_is_cut(own_server, tmp_path):
    """A prompt that is too long is refused with the numbers; one that fits is counted as /tokenize counts it."""
    for one in lives(own_server, tmp_path, "--max-model-len", "256", model="smollm2:135m"):
        text = "MARKER " + "the quick brown fox " * 40
        count = one.post("/tokenize", {"prompt": text}).json()["count"]
        assert count < 256 and ask(one, text)["usage"]["prompt_tokens"] == count
        refused = one.post("/v1/completions", {"prompt": text * 2, "max_tokens": 8})
        longer = one.post("/tokenize", {"prompt": text * 2}).json()["count"]
        assert refused.status_code == 400 and str(longer) in refused.text and "256" in refused.text


@pytest.mark.slow
def test_d07_batches_of_mixed_lengths(own_server, tmp_path):
    """Prompts of 1, 2, 31, 32, 33 and 129 tokens in one batch, on the best kernels and on the portable ones."""
    prompts = [[(i * 7919 + length) % 40000 + 10 for i in range(length)] for length in (1, 2, 31, 32, 33, 129)]
    want = choices(own_server(*PLAIN), prompts)
    for one in lives(own_server, tmp_path, model="smollm2:135m"):
        assert choices(one, prompts, at_once=True) == want
    portable = own_server("--kv-dir", str(tmp_path / "none"), *TIERS, env={"PAGODA_ISA": "portable"})
    portable.wait_line("isa: portable")
    assert choices(portable, prompts, at_once=True) == want
