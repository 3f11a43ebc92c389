"""Policies, limits and deadlines as clients and operators meet them. Times are reported, not asserted."""
import concurrent.futures
import statistics
import subprocess
import threading
import time

import httpx
import pytest

from conftest import BINARY, MODEL, Server

WORDS = "The harbour master counted the boats again before the storm came in from the west. "


def body(prompt, **fields):
    return {"prompt": prompt, "max_tokens": 24, "temperature": 0, "seed": 1, "ignore_eos": True} | fields


def text(answer):
    assert answer.status_code == 200, answer.text
    return [choice["text"] for choice in answer.json()["choices"]]


def test_every_policy_and_mode_gives_the_same_bytes():
    prompts = [WORDS * (1 + i % 4) + str(i) for i in range(8)]
    seen = []
    for flags in [(), ("--scheduling-policy", "priority"), ("--scheduling-policy", "shortest-prefill"),
                  ("--scheduling-policy", "fair", "--fair-weights", "a=2"), ("--scheduling-mode", "orca"),
                  ("--scheduling-mode", "static"), ("--itl-slo-ms", "30")]:
        one = Server("--max-num-seqs", "3", "--max-model-len", "1024", *flags)
        try:
            def ask(item):
                extra = {"priority": item[0] % 3} if "priority" in flags else {"user": "ab"[item[0] % 2]}
                return text(one.post("/v1/completions", body(item[1], **extra)))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                seen.append(list(pool.map(ask, enumerate(prompts))))
            assert one.metric("vllm:num_requests_running") == 0
            assert one.metric("pagoda:kv_cache_slot_seconds_total") > 0
        finally:
            one.kill()
    assert all(answers == seen[0] for answers in seen)


def test_wishes_nobody_heeds_are_refused(server):
    answer = server.post("/v1/completions", body("x", priority=1))
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "priority"
    assert "--scheduling-policy priority" in answer.json()["error"]["message"]


@pytest.mark.parametrize("flags, words", [
    (["--scheduling-policy", "lifo"], "fcfs, priority, shortest-prefill, fair"),
    (["--scheduling-mode", "magic"], "paged, orca, static"),
    (["--scheduling-policy", "fair", "--fair-weights", "a=-1"], "--fair-weights"),
    (["--fair-weights", "a=1"], "without --scheduling-policy fair"),
    (["--preemption-mode", "migrate"], "auto, recompute, swap"),
    (["--preemption-mode", "swap"], "needs --swap-space"),
    (["--preemption-mode", "swap", "--swap-space", "1", "--no-enable-prefix-caching"], "needs --enable-prefix-caching"),
    (["--preemption-mode", "swap", "--swap-space", "1", "--scheduling-mode", "orca"], "needs --scheduling-mode paged"),
])
def test_bad_flags_end_at_once(flags, words):
    done = subprocess.run([BINARY, "serve", MODEL, "--port", "0", *flags], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0 and words in done.stderr


def test_a_full_queue_says_when_to_come_again():
    one = Server("--max-num-seqs", "1", "--max-queue", "2", "--max-model-len", "1024")
    try:
        text(one.post("/v1/completions", body(WORDS)))
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda i: one.post("/v1/completions", body(f"{i}", max_tokens=100)), range(12)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused and len(refused) < 12
        for answer in refused:
            assert answer.json()["error"]["type"] == "rate_limit_error"
            assert 1 <= int(answer.headers["retry-after"]) <= 600
        assert one.metric("vllm:admission_rejections_total") == len(refused)
    finally:
        one.kill()


def test_a_deadline_ends_waiting_and_running(server):
    late = server.post("/v1/completions", body("x", max_tokens=2000, deadline_ms=300))
    assert late.status_code == 504 and "deadline of 300 ms" in late.json()["error"]["message"]
    fine = server.post("/v1/completions", body("x", timeout=60))
    assert fine.status_code == 200


def test_a_long_prompt_among_readers():
    """What --itl-slo-ms does on the real engine: reported; only the answers are asserted."""
    answers = []
    for flags in [(), ("--itl-slo-ms", "60")]:
        one = Server("--max-model-len", "8192", *flags)
        gaps, heads = [], []
        started = threading.Barrier(5)

        def read(i):
            got, last = "", None
            with httpx.stream("POST", one.url + "/v1/completions", timeout=120,
                              json=body(f"{i} {WORDS}", max_tokens=160, stream=True)) as stream:
                for line in stream.iter_lines():
                    if not line.startswith("data: {"):
                        continue
                    now, got = time.monotonic(), got + line
                    if last is None:
                        started.wait(60)
                    else:
                        gaps.append(now - last)
                    last = now
            return got

        def long_prompt():
            started.wait(60)
            began = time.monotonic()
            answer = text(one.post("/v1/completions", body(WORDS * 80, max_tokens=1)))
            heads.append(time.monotonic() - began)
            return answer

        try:
            with concurrent.futures.ThreadPoolExecutor(5) as pool:
                readers = [pool.submit(read, i) for i in range(4)]
                answers.append(pool.submit(long_prompt).result())
                for reader in readers:
                    reader.result()
        finally:
            one.kill()
        p99 = statistics.quantiles(gaps, n=100)[98]
        print(f"{' '.join(flags) or 'no objective'}: p99 {p99 * 1e3:.0f} ms between tokens, prompt {heads[0]:.1f} s")
    assert answers[0] == answers[1]
