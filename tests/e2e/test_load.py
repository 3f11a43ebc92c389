"""Many clients at once: no wrong byte, nothing leaked, and /health answers throughout."""
import asyncio
import random
import threading
import time

import httpx
import openai

PROMPTS = ["Name a colour.", "Count to five.", "What is water?", "Say hello in French.", "Why is the sky blue?", "Name a tree.",
           "Tell me about cats.", "What is 2+2?"]
CLIENTS = 64


def fields(i):
    return {"model": "smollm2:135m", "messages": [{"role": "user", "content": PROMPTS[i % len(PROMPTS)]}],
            "max_tokens": 8 + i % 3 * 8, "temperature": 0 if i % 2 else 1, "seed": i % 16}


def test_64_streaming_clients_with_random_cancels(server):
    server.wait_idle()
    files, threads = server.open_files(), server.threads()
    alone = {}
    with server.client() as client:
        for i in range(48):  # fields() repeats after 48
            alone[i] = client.chat.completions.create(**fields(i)).choices[0].message.content
    rng = random.Random(20261129)
    plans = [(i % 48, rng.randrange(1, 8) if rng.random() < 0.3 else None) for i in range(CLIENTS)]

    async def one(client, i, leave_after):
        text, chunks, finish = "", 0, None
        stream = await client.chat.completions.create(stream=True, **fields(i))
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            finish = chunk.choices[0].finish_reason
            chunks += 1
            if chunks == leave_after:
                await stream.close()
                return
        assert finish in ("stop", "length")
        assert text == alone[i], f"request {i} differs from its run alone"

    async def everyone():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120,
                                      http_client=None) as client:
            await asyncio.gather(*(one(client, i, leave) for i, leave in plans))

    asyncio.run(everyone())
    server.wait_idle()
    deadline = time.monotonic() + 5
    while server.open_files() > files + 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.open_files() <= files + 1  # the asking connection itself may come and go
    assert server.threads() <= threads  # one that gathers pages after loading may end meanwhile


def test_health_during_a_long_prefill(server):  # O01
    server.wait_idle()
    longest = server.get("/v1/models").json()["data"][0]["max_model_len"]
    done = threading.Event()
    status = []

    def prefill():
        words = min(longest, 2048) - 64
        answer = server.post("/v1/completions", {"prompt": "word " * words, "max_tokens": 1, "cache_salt": "health"})
        status.append(answer.status_code)
        done.set()

    thread = threading.Thread(target=prefill)
    thread.start()
    times = []
    with httpx.Client(base_url=server.url, timeout=10) as client:
        while not done.is_set():
            for path in ("/health", "/metrics"):
                started = time.monotonic()
                assert client.get(path).status_code == 200
                times.append(time.monotonic() - started)
            time.sleep(0.02)
    thread.join()
    assert status == [200]
    times.sort()
    assert times[int(len(times) * 0.99)] < 0.1, f"p99 of {len(times)} is {times[int(len(times) * 0.99)]:.3f} s"


def test_a_short_prompt_does_not_wait_for_a_long_one(server):  # D05
    server.wait_idle()
    long = threading.Thread(target=server.post, args=("/v1/completions", {"prompt": "word " * 1900, "max_tokens": 1,
                                                                              "cache_salt": "D05"}))
    long.start()
    time.sleep(0.1)
    assert server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1}).status_code == 200
    overtaken = long.is_alive()
    long.join()
    assert overtaken, "the short prompt waited for the long one"


def test_memory_does_not_grow_with_requests(own_server):  # R01, scaled to this suite's time
    server = own_server("--kv-cache-memory", "16MiB")  # some 45 blocks: the first requests fill it with their prefixes

    def some(count, base):
        with httpx.Client(base_url=server.url, timeout=60) as client:
            for i in range(count):
                body = {"prompt": f"unique {base + i}", "max_tokens": 1, "logprobs": 20}
                assert client.post("/v1/completions", json=body).status_code == 200
    some(60, 0)
    before, files = server.resident_bytes(), server.open_files()
    some(120, 1000)
    assert server.resident_bytes() - before < 4 << 20
    assert server.open_files() <= files + 1


def test_counters_count(server):  # M01
    names = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
             "vllm:time_to_first_token_seconds_count", "vllm:e2e_request_latency_seconds_count")
    before = {name: server.metric(name) for name in names}
    usage = server.post("/v1/completions", {"prompt": "Hello there", "max_tokens": 3, "ignore_eos": True}).json()["usage"]
    server.wait_idle()
    after = {name: server.metric(name) for name in names}
    assert after["vllm:prompt_tokens_total"] - before["vllm:prompt_tokens_total"] == usage["prompt_tokens"]
    assert after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] == 3
    for name in names[2:]:
        assert after[name] - before[name] == 1, name
