"""Raw bytes on a socket: what no client library would send, and what clients do when they leave."""
import json
import socket
import time

import pytest


def post(path, body, headers=""):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(body)}\r\n\r\n").encode() + body


def read_all(sock):
    data = b""
    while part := sock.recv(65536):
        data += part
    return data


def talk(server, data):
    with server.socket() as sock:
        sock.sendall(data)
        return read_all(sock)


@pytest.mark.parametrize("data, want", [
    (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", b"400"),
    (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", b"400"),
    (b"GET /health HTTP/1.1\nHost: x\n\n", b"400"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
    (b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20000 + b"\r\n\r\n", b"431"),
    (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n", b"413"),
])
def test_ambiguous_requests_are_refused(server, data, want):
    answer = talk(server, data)
    assert answer.startswith(b"HTTP/1.1 " + want), answer[:100]
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["message"]


@pytest.mark.parametrize("body", [
    b"", b"{", b"[1]", b"nul", b'{"prompt":"\xff"}', b'{"prompt":"\\ud800"}', b'{"prompt":1e999}', b"[" * 200000, b'{"a":' * 5000,
    b'{"prompt":"a","prompt":"b"}', b'{"prompt":' + b"[0," * 100 + b"0" + b"]" * 100 + b"}",
])
def test_malformed_bodies_are_refused(server, body):
    started = time.monotonic()
    answer = talk(server, post("/v1/completions", body, "Connection: close\r\n"))
    assert answer.startswith(b"HTTP/1.1 400"), answer[:100]
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["type"] == "invalid_request_error"
    assert time.monotonic() - started < 2


def test_huge_requests_cost_little(server):  # A01
    server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})
    before = server.resident_bytes()
    for body in ({"prompt": "x", "stop": ["x"] * 10**5}, {"messages": [{"role": "user", "content": "x"}] * 10**5},
                 {"prompt": "x", "n": 10**6}, {"prompt": "x", "best_of": 10**6}, {"prompt": "x", "max_tokens": 2**31},
                 {"prompt": "x", "logprobs": 10**6}, {"prompt": "x", "logit_bias": {str(i): 1 for i in range(5000)}}):
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        data = post(path, body, "Connection: close\r\n")
        started = time.monotonic()
        assert talk(server, data).startswith(b"HTTP/1.1 400")
        assert time.monotonic() - started < 1  # 100 ms on a quiet machine; CI shares its cores
    assert server.resident_bytes() - before < 32 << 20


def test_empty_inputs(server):  # O03
    for path, body in (("/v1/completions", {"prompt": []}), ("/v1/completions", {"prompt": None}), ("/v1/completions", {}),
                       ("/v1/chat/completions", {"messages": []}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": None}]})):
        assert server.post(path, body).status_code == 400, body
    for path, body in (("/v1/completions", {"prompt": "x", "max_tokens": 0, "echo": True}),
                       ("/v1/completions", {"prompt": "x", "max_tokens": 0, "echo": True, "logprobs": 2}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": ""}], "max_tokens": 2})):
        answer = server.post(path, body)
        assert answer.status_code == 200 and "NaN" not in answer.text, body
    for prompt in ("", [""]):  # this vocabulary adds no BOS, so there is nothing to continue
        assert server.post("/v1/completions", {"prompt": prompt, "max_tokens": 2}).status_code in (200, 400)
    assert server.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_disconnect_frees_everything(server, stream):
    server.wait_idle()
    sock = server.socket()
    sock.sendall(post("/v1/completions", {"prompt": "x", "max_tokens": 2000, "ignore_eos": True, "stream": stream, "n": 4}))
    deadline = time.monotonic() + 10
    while server.metric("vllm:num_requests_running") == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert server.metric("vllm:num_requests_running") > 0
    sock.close()
    server.wait_idle(timeout=3)


def test_a_disconnect_during_a_long_prefill(server):
    server.wait_idle()
    sock = server.socket()
    sock.sendall(post("/v1/completions", {"prompt": "word " * 1500, "max_tokens": 2, "stream": True}))
    time.sleep(0.1)
    sock.close()
    server.wait_idle(timeout=10)


def test_a_slow_reader_gets_everything_and_blocks_nobody(server):
    body = {"prompt": "One two", "max_tokens": 80, "ignore_eos": True, "n": 4, "stream": True, "logprobs": 20, "seed": 1}
    sock = server.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.sendall(post("/v1/completions", body))
    time.sleep(0.2)
    assert server.get("/health").status_code == 200
    server.wait_idle(timeout=60)  # finished without the client reading a byte
    data = b""
    while b"data: [DONE]" not in data:
        part = sock.recv(65536)
        assert part
        data += part
    assert data.count(b'"finish_reason":"length"') == 4
    sock.close()


def test_half_requests_do_not_hold_up_others(server):
    held = [server.socket() for _ in range(50)]
    for i, sock in enumerate(held):
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"[: 10 + i])
    started = time.monotonic()
    assert server.get("/health").status_code == 200
    assert time.monotonic() - started < 1
    for sock in held:
        sock.close()


def test_keep_alive_and_request_id(server):
    with server.socket() as sock:
        for i in range(3):
            sock.sendall(post("/tokenize", {"prompt": "x"}, f"x-request-id: id{i}\r\n"))
            answer = b""
            while not answer.endswith(b"}"):
                answer += sock.recv(65536)
            assert f"x-request-id: id{i}\r\n".encode() in answer and b"Connection: keep-alive\r\n" in answer


def test_cors_preflight(server):
    answer = talk(server, b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 204") and b"Access-Control-Allow-Origin: *" in answer
