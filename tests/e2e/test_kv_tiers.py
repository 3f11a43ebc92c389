"""The disk tier and the swap space as operators meet them: what was computed survives restarts and kills, and whatever
happens to the folder, the answer is the one without it."""
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

from conftest import BINARY, MODEL

TEXT = "The lighthouse keeper wrote down every ship that passed, its name, its flag and the hour. " * 12


def ask(server, prompt=TEXT, **fields):
    body = {"prompt": prompt, "max_tokens": 12, "temperature": 0, "seed": 1, "logprobs": 2, "ignore_eos": True} | fields
    answer = server.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def entry(answer):
    return answer["cache"][0]


def cache(verb, folder, *more):
    done = subprocess.run([BINARY, "cache", verb, "--kv-dir", str(folder), *more], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


def blocks_in(folder):
    return sorted(pathlib.Path(folder).glob("*/*/*.kv"))


@pytest.fixture(scope="module")
def want(server):
    """The choices without a tier."""
    return ask(server)["choices"]


def saved(server, blocks):
    deadline = time.monotonic() + 20
    while server.metric("pagoda:kv_tier_blocks_saved_total") < blocks:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_restarted_server_answers_from_disk(own_server, tmp_path, want):
    folder = tmp_path / "kv"
    first = own_server("--kv-dir", str(folder))
    cold = ask(first)
    assert cold["choices"] == want
    tokens = cold["usage"]["prompt_tokens"]
    assert entry(cold)["from"] == {"pool": 0, "host": 0, "disk": 0}
    assert first.stop() == 0  # a drain writes what is queued
    assert len(blocks_in(folder)) == (tokens + 11) // 16

    second = own_server("--kv-dir", str(folder))
    warm = ask(second)
    assert warm["choices"] == want
    full = (tokens - 1) // 16 * 16
    assert entry(warm) == {"cached_tokens": full, "from": {"pool": 0, "host": 0, "disk": full}, "left_at": full,
                           "why": "partial_block"}
    assert entry(ask(second))["from"] == {"pool": tokens - 1, "host": 0, "disk": 0}
    assert second.metric("pagoda:kv_tier_blocks_loaded_total") == full / 16
    salted = ask(second, cache_salt="mine")
    assert entry(salted)["from"]["disk"] == 0 and salted["choices"] == want
    second.post("/reset_prefix_cache", None)
    assert entry(ask(second))["cached_tokens"] == 0
    assert second.stop() == 0


def test_kill_and_damage_are_misses(own_server, tmp_path, want):  # kill -9 in a write, flipped bytes, cuts
    folder, rng = tmp_path / "kv", random.Random(20261130)
    for life in range(4):
        one = own_server("--kv-dir", str(folder))
        assert ask(one)["choices"] == want
        saved(one, 1 if life == 0 else 0)
        time.sleep(0.03 * life)
        one.process.send_signal(signal.SIGKILL)
        one.process.wait()
        files = blocks_in(folder)
        assert files
        for path in rng.sample(files, min(3, len(files))):
            size = path.stat().st_size
            if rng.random() < 0.3:
                os.truncate(path, rng.randrange(size))
            else:
                with open(path, "r+b") as file:
                    at = rng.randrange(size)
                    file.seek(at)
                    byte = file.read(1)[0]
                    file.seek(at)
                    file.write(bytes([byte ^ (1 << rng.randrange(8))]))
    code, report = cache("fsck", folder, "--json")
    assert code == 1 and report["bad"]
    code, report = cache("fsck", folder, "--json", "--delete-bad")
    assert code == 0 and report["deleted"] == len(report["bad"])
    assert cache("fsck", folder, "--json")[0] == 0
    one = own_server("--kv-dir", str(folder))
    assert ask(one)["choices"] == want


def test_an_unusable_folder_is_served_without(own_server, tmp_path, want):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    one = own_server("--kv-dir", str(blocked / "kv"))
    assert ask(one)["choices"] == want
    one.wait_line("warning.*kv-dir.*going on without writing")
    assert one.metric("pagoda:kv_tier_up") == 0
    assert one.metric("pagoda:kv_tier_blocks_saved_total") == 0
    assert one.get("/health").status_code == 200


def test_a_full_disk_is_served_without(own_server, tmp_path, want):
    """No file above 100 kB can be written: blocks are larger."""
    import resource
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        one = own_server("--kv-dir", str(tmp_path / "kv"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ask(one)["choices"] == want
    deadline = time.monotonic() + 10
    while one.metric("pagoda:kv_tier_saves_failed_total") == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert one.metric("pagoda:kv_tier_up") == 0
    assert ask(one)["choices"] == want
    assert not blocks_in(tmp_path / "kv")
    assert one.stop() == 0


def test_two_servers_share_a_folder_and_its_limit(own_server, tmp_path, want):
    folder = tmp_path / "kv"
    pair = [own_server("--kv-dir", str(folder), "--kv-dir-max", "8MiB") for _ in range(2)]
    for round in range(3):
        for one in pair:
            assert ask(one)["choices"] == want
            ask(one, TEXT[round * 97:], max_tokens=1)
    for one in pair:
        assert one.stop() == 0
    assert sum(path.stat().st_size for path in blocks_in(folder)) <= 9 << 20
    assert cache("fsck", folder, "--json")[0] == 0


def test_ls_and_explain(own_server, tmp_path):
    folder = tmp_path / "kv"
    one = own_server("--kv-dir", str(folder))
    tokens = ask(one, cache_salt="tenant")["usage"]["prompt_tokens"]
    body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 2}
    chat = one.post("/v1/chat/completions", body).json()
    assert one.stop() == 0
    _, report = cache("ls", folder, "--json")
    space, = report["spaces"]
    assert space["blocks"] == report["blocks"] == len(blocks_in(folder))
    assert space["beginnings"] == 2 and "SmolLM2" in space["model"] or space["model"]
    assert "FINGERPRINT" in cache("ls", folder)[1]

    def explain(*more):
        code, answer = cache("explain", folder, MODEL, "--json", *more)
        assert code == 0
        return answer

    full = (tokens - 1) // 16 * 16
    assert explain("--raw", TEXT)["why"] == "salt"
    answer = explain("--raw", TEXT, "--salt", "tenant")
    assert (answer["prompt_tokens"], answer["disk_tokens"], answer["why"]) == (tokens, full, "partial_block")
    answer = explain("--raw", TEXT[:200] + "But then" + TEXT, "--salt", "tenant")
    assert 0 < answer["disk_tokens"] < 60 and answer["why"] == "new_text"
    request = tmp_path / "request.json"
    request.write_text(json.dumps(body))
    answer = explain("--file", str(request))
    assert answer["prompt_tokens"] == chat["usage"]["prompt_tokens"]
    assert answer["disk_tokens"] == (answer["prompt_tokens"] - 1) // 16 * 16
    text = cache("explain", folder, MODEL, "--file", str(request))[1]
    assert f"left at {answer['disk_tokens']}: " in text


@pytest.mark.parametrize("mode", ["auto", "swap", "recompute"])
def test_swapping_changes_no_byte(own_server, server, mode):
    """Many long answers in a small pool, with host memory for victims, which only --preemption-mode recompute leaves empty."""
    import concurrent.futures
    bodies = [{"prompt": TEXT[i * 40:i * 40 + 400], "max_tokens": 60, "seed": i, "temperature": 1} for i in range(8)]
    small = own_server("--kv-cache-memory", "12MiB", "--swap-space", "0.1", "--preemption-mode", mode)

    def all_of(one):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda body: ask(one, **body)["choices"], bodies))

    assert all_of(small) == all_of(server)
    assert small.metric("vllm:num_preemptions_total") > 0
    swapped = small.metric("pagoda:kv_tier_blocks_saved_total")
    assert swapped == 0 if mode == "recompute" else swapped > 0
    small.wait_idle()
