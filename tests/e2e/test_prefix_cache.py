"""The prefix cache as clients and operators meet it: faster the second time, the same bytes every time."""
import concurrent.futures
import json
import random

import httpx
import pytest

from conftest import Server

TEXT = "The lighthouse keeper wrote down every ship that passed, its name, its flag and the hour. " * 12


def ask(server, prompt=TEXT, **fields):
    body = {"prompt": prompt, "max_tokens": 12, "temperature": 0, "seed": 1, "logprobs": 2, "ignore_eos": True} | fields
    answer = server.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def entry(tokens, why):
    return {"cached_tokens": tokens, "from": {"pool": tokens, "host": 0, "disk": 0}, "left_at": tokens, "why": why}


def bytes_of(answer):
    """All that must not depend on the cache, as the bytes that came."""
    return json.dumps(answer["choices"])


@pytest.fixture(scope="module")
def cold():
    """The answers of a server without prefix cache."""
    one = Server("--no-enable-prefix-caching")
    try:
        assert ask(one)["cache"] == [entry(0, "off")]
        answers = {n: ask(one, n=n) for n in (1, 3)}
        assert cached(answers[1]) == cached(ask(one)) == 0
        assert one.metric("vllm:prefix_cache_queries_total") == 0
    finally:
        one.kill()
    return answers


def test_bytes_do_not_depend_on_the_cache(server, cold):  # K01, M03
    server.post("/reset_prefix_cache", None)
    first, second = ask(server), ask(server)
    tokens = first["usage"]["prompt_tokens"]
    assert cached(first) == 0 and cached(second) == tokens - 1
    assert bytes_of(first) == bytes_of(second) == bytes_of(cold[1])
    assert bytes_of(ask(server, n=3)) == bytes_of(cold[3])
    scored = ask(server, echo=True)
    assert cached(scored) == 0
    assert scored["choices"][0]["logprobs"]["token_logprobs"][tokens:] == first["choices"][0]["logprobs"]["token_logprobs"]


def test_salts_do_not_meet_and_a_reset_forgets(server):  # K05
    server.post("/reset_prefix_cache", None)
    salts = [("A", False), ("A", True), ("B", False), (None, False), (None, True), ("A", True)]
    for salt, warm in salts:
        answer = ask(server, cache_salt=salt)
        assert (cached(answer) > 0) == warm, salt
        if warm:
            assert answer["cache"] == [entry(cached(answer), "complete")]
        else:
            assert answer["cache"][0]["left_at"] == 0
    assert server.post("/reset_prefix_cache", None).status_code == 200
    again = ask(server)
    assert cached(again) == 0 and again["cache"][0]["why"] == "reset"
    for wrong in ("", "x" * 1025, 7):
        answer = server.post("/v1/completions", {"prompt": "x", "cache_salt": wrong})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "cache_salt"


def test_metrics_count_hits(server):
    names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:prompt_tokens_total")
    server.post("/reset_prefix_cache", None)
    before = [server.metric(name) for name in names]
    tokens = ask(server)["usage"]["prompt_tokens"]
    ask(server)
    queries, hits, prompt = (server.metric(name) - old for name, old in zip(names, before))
    assert (queries, hits, prompt) == (2 * tokens, tokens - 1, 2 * tokens)
    server.wait_idle()


def test_a_cold_prefix_is_computed_once_for_all_who_wait(server, cold):
    server.post("/reset_prefix_cache", None)
    before = server.metric("vllm:prefix_cache_hits_total")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(server), range(8)))
    assert {bytes_of(answer) for answer in answers} == {bytes_of(cold[1])}
    assert sorted(cached(answer) > 0 for answer in answers) == [False] + [True] * 7
    tokens = answers[0]["usage"]["prompt_tokens"]
    assert server.metric("vllm:prefix_cache_hits_total") - before >= 7 * (tokens - 16)


def test_a_chat_finds_its_last_turn(server):
    server.post("/reset_prefix_cache", None)
    messages = [{"role": "user", "content": "Name three birds. " + TEXT[:300]}]
    with_options = {"temperature": 0, "max_tokens": 24}
    first = server.post("/v1/chat/completions", {"messages": messages} | with_options).json()
    messages += [first["choices"][0]["message"], {"role": "user", "content": "And three fish."}]
    second = server.post("/v1/chat/completions", {"messages": messages} | with_options).json()
    assert cached(first) == 0
    assert cached(second) >= first["usage"]["prompt_tokens"]


def test_forks_cancels_and_resets_in_a_small_pool(own_server):  # K07
    """Six requests that fork from one text, asked by 16 clients at once, many of whom hang up; the pool preempts and
    evicts. Every whole answer is the one without cache, and nothing is left over."""
    random.seed(20261129)
    requests = [{"prompt": TEXT[:cut] + tail, "n": n, "cache_salt": salt, "temperature": 1, "seed": cut, "max_tokens": 20,
                 "ignore_eos": True, "logprobs": 1}
                for cut, tail, n, salt in ((900, "", 1, None), (900, "Then", 2, None), (700, "A storm", 1, None),
                                           (300, "", 3, None), (900, "", 1, "mine"), (40, "Fog", 2, "mine"))]
    off = own_server("--no-enable-prefix-caching")
    want = [bytes_of(off.post("/v1/completions", request).json()) for request in requests]
    small = own_server("--kv-cache-memory", "10MiB")  # some 28 blocks; the longest request needs 15

    def client(order):
        whole = 0
        for i in order:
            if random.random() < 0.3:
                try:
                    httpx.post(small.url + "/v1/completions", json=requests[i], timeout=random.uniform(0.02, 0.6))
                except httpx.TimeoutException:
                    pass
                continue
            if random.random() < 0.05:
                small.post("/reset_prefix_cache", None)
            answer = small.post("/v1/completions", requests[i])
            assert answer.status_code == 200, answer.text
            assert bytes_of(answer.json()) == want[i], requests[i]["prompt"][-20:]
            whole += 1
        return whole

    orders = [random.sample(range(6), 3) for _ in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answered = sum(pool.map(client, orders))
    small.wait_idle()
    assert answered > 20
    assert small.metric("vllm:num_preemptions_total") > 0
    assert small.metric("vllm:prefix_cache_hits_total") > 1000


def test_logprobs_of_a_scored_prompt_come_from_the_cache(server):
    ids = [(i * 131) % 30000 + 10 for i in range(200)]
    for fields in ({"prompt_logprobs": 2}, {"echo": True, "logprobs": 3}):
        body = {"prompt": ids, "max_tokens": 2, "temperature": 0, "cache_salt": str(fields)} | fields
        cold, warm = (server.post("/v1/completions", body).json() for _ in range(2))
        assert warm["choices"] == cold["choices"]
        cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in (cold, warm)]
        assert cached == [0, 191] and warm["cache"][0]["why"] == "prompt_logprobs"
