"""`pagoda serve` as a child process, and streams read over its sockets with as little of the CPU as Python can."""
import json
import os
import pathlib
import re
import selectors
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Server:
    def __init__(self, binary, model, *flags):
        self.process = subprocess.Popen([binary, "serve", model, "--port", "0", "--log-level", "info", *flags],
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"})
        self.port, said = None, []
        for line in self.process.stderr:
            said.append(line)
            if match := re.search(r"\(port (\d+) answers 503", line):
                self.port = int(match.group(1))
            if "ready: " in line:
                return
        raise SystemExit("the server did not start:\n" + "".join(said))

    def metric(self, name):
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            text = b"".join(iter(lambda: s.recv(1 << 16), b"")).decode()
        return sum(float(v) for v in re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.stderr.read()
        assert self.process.wait(60) == 0


def request_bytes(path, body):
    text = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
            "Connection: close\r\n\r\n").encode() + text


class Stream:
    """One streamed answer: when each of its events came."""

    def __init__(self, port, body):
        self.sent_s = time.perf_counter()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(request_bytes("/v1/completions", body | {"stream": True}))
        self.times, self.tail, self.bytes = [], b"", []

    def read(self):
        """False once the answer is whole."""
        data = self.socket.recv(1 << 16)
        now = time.perf_counter()
        if not data:
            self.socket.close()
            return False
        self.bytes.append(data)
        joined = self.tail + data
        self.times += [now] * (joined.count(b"data: {") - self.tail.count(b"data: {"))
        self.tail = joined[-7:]
        return True

    def answer(self):
        """The text of all events; an answer that failed ends the script."""
        raw = b"".join(self.bytes)
        if not raw.startswith(b"HTTP/1.1 200") or b"data: [DONE]" not in raw:
            raise SystemExit("the server refused or broke off: " + raw[:500].decode(errors="replace"))
        return b"".join(re.findall(rb'"text":"((?:[^"\\]|\\.)*)"', raw)).decode()

    def receipt(self):
        raw = b"".join(self.bytes)
        return re.search(rb'"choices":\[\{"tokens":\d+,"sha256":"([0-9a-f]+)"', raw).group(1).decode()


def run_streams(port, bodies):
    """All at once; returns when all have ended."""
    streams = [Stream(port, body) for body in bodies]
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.socket, selectors.EVENT_READ, stream)
        while selector.get_map():
            for key, _ in selector.select():
                sock = key.data.socket
                fd = sock.fileno()
                if not key.data.read():
                    selector.unregister(fd)
    return streams
