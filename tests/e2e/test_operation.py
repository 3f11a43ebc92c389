"""Starting, stopping, locking: the server as an operator meets it."""
import signal
import socket
import subprocess
import threading
import time

import httpx
import openai
import pytest

from conftest import BINARY, MODEL


def stream_in_background(server, **fields):
    """Starts a stream; returns (thread, list of chunks)."""
    chunks, started = [], threading.Event()
    fields = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0, "model": MODEL} | fields

    def run():
        try:
            for chunk in server.client().completions.create(stream=True, extra_body={"ignore_eos": True}, **fields):
                chunks.append(chunk.choices[0])
                started.set()
        except openai.APIError as error:
            chunks.append(error)
        started.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(30)
    return thread, chunks


def test_start_says_what_it_found(server):
    for pattern in (r"isa: (portable|avx2|avx512)", r"threads: \d+", r"cgroup quota: ", r"huge pages: ", r"bandwidth: [\d.]+ GB/s",
                    r"kv pool: \d+ blocks", r"ready: .*http://127.0.0.1:\d+/v1", r"curl http://127.0.0.1:\d+/v1/chat/completions"):
        server.wait_line(pattern, timeout=1)
    assert server.get("/version").json()["version"]
    assert server.get("/tokenizer_info").json()["eos_token"] == "<|im_end|>"


def test_loading_answers_503_then_200(own_server):  # O01
    one = own_server(wait=False)
    one.wait_port()
    seen = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status = one.get("/health").status_code
        if status == 503 and 503 not in seen:
            answer = one.get("/v1/models")
            if answer.status_code == 503:
                assert answer.headers["retry-after"]
        seen.append(status)
        if status == 200:
            break
        time.sleep(0.002)
    assert seen[-1] == 200 and set(seen) <= {200, 503}
    assert one.get("/ready").status_code == 200


def test_sigterm_idle(own_server):
    one = own_server()
    with socket.create_connection(("127.0.0.1", one.port)):  # an idle connection does not hold it up
        started = time.monotonic()
        assert one.stop() == 0
        assert time.monotonic() - started < 3


def test_sigterm_lets_streams_finish(own_server):  # O05
    one = own_server()
    streams = [stream_in_background(one, max_tokens=200) for _ in range(4)]  # long enough to be asked meanwhile
    one.process.send_signal(signal.SIGTERM)
    one.wait_line("draining", timeout=5)
    refused = one.post("/v1/completions", {"prompt": "x"})
    assert refused.status_code == 503 and refused.headers["retry-after"] and refused.headers["connection"] == "close"
    assert one.get("/ready").status_code == 503 and one.get("/health").status_code == 200
    assert one.process.wait(60) == 0
    for thread, chunks in streams:
        thread.join(10)
        assert chunks[-1].finish_reason == "length" and len(chunks) == 200


def test_drain_timeout_ends_streams_with_a_last_chunk(own_server):
    one = own_server("--drain-timeout", "0.3")
    thread, chunks = stream_in_background(one, max_tokens=2000)
    assert one.stop(timeout=20) == 0
    thread.join(10)
    assert chunks[-1].finish_reason == "abort"


def test_sigint_during_prefill_drains(own_server):
    one = own_server()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(one.post("/v1/completions", {"prompt": "word " * 1000, "max_tokens": 1})))
    thread.start()
    while one.metric("vllm:num_requests_running") == 0:
        time.sleep(0.005)
    assert one.stop(signal.SIGINT) == 0
    thread.join(10)
    assert answers[0].status_code == 200


def test_second_signal_ends_at_once(own_server):
    one = own_server()
    thread, _ = stream_in_background(one, max_tokens=2000)
    one.process.send_signal(signal.SIGINT)
    one.wait_line("draining", timeout=5)
    started = time.monotonic()
    assert one.stop(signal.SIGINT) == 130
    assert time.monotonic() - started < 10  # a drain would take up to 30 s
    thread.join(10)


def test_signal_during_load_ends_promptly(own_server):
    one = own_server(wait=False)
    one.wait_port()
    started = time.monotonic()
    assert one.stop() == 0
    assert time.monotonic() - started < 3


def run(*arguments):
    return subprocess.run([BINARY, "serve", *arguments], capture_output=True, text=True, timeout=30)


def test_refusals_at_start(server, tmp_path):
    missing = run(str(tmp_path / "none.gguf"), "--port", "0")
    assert missing.returncode == 1 and missing.stdout == "" and "port" not in missing.stderr
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"\0" * 60)
    assert run(str(bad), "--port", "0").returncode == 1
    taken = run(MODEL, "--port", str(server.port))
    assert taken.returncode == 1 and f"port {server.port}" in taken.stderr and "in use" in taken.stderr
    assert run(MODEL, "--port", "x").returncode == 2
    assert run(MODEL, "--log-level", "loud").returncode == 1


def test_api_key(own_server):
    one = own_server("--served-model-name", "tiny", env={"PAGODA_API_KEY": "sesame"})
    assert one.get("/health").status_code == 200
    for path in ("/v1/models", "/metrics", "/ready", "/version"):
        refused = one.get(path)
        assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
    for headers in ({"Authorization": "Bearer sesame"}, {"x-api-key": "sesame"}, {"api-key": "sesame"}):
        assert one.get("/v1/models", headers=headers).status_code == 200
    assert one.post("/v1/completions", {"prompt": "x"}).status_code == 401
    assert [m.id for m in one.client(api_key="sesame").models.list().data] == ["tiny"]
    with pytest.raises(openai.AuthenticationError):
        one.client(api_key="wrong").models.list()


def test_a_request_that_can_never_fit_is_refused_at_once(own_server):  # D01
    probe = own_server("--max-model-len", "64", "--max-num-seqs", "1", "--kv-cache-memory", "4MiB")
    blocks = int(probe.wait_line(r"kv pool: (\d+) blocks").group(1))
    assert blocks > 0
    started = time.monotonic()
    refused = probe.post("/v1/completions", {"prompt": "word " * 100, "max_tokens": 10})
    assert refused.status_code == 400 and time.monotonic() - started < 1
    assert probe.post("/v1/completions", {"prompt": "Hello", "max_tokens": 4}).status_code == 200
    # A length nobody gave ends at the context's end, with `length`.
    whole = probe.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "ignore_eos": True}).json()
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["total_tokens"] <= 64
    # Inside the context but larger than what the prompt leaves: as far as it goes.
    cut = probe.post("/v1/completions", {"prompt": "Hello", "max_tokens": 64, "ignore_eos": True}).json()
    assert cut["choices"][0]["finish_reason"] == "length" and cut["usage"]["total_tokens"] <= 64
    assert httpx.get(probe.url + "/health").status_code == 200
