"""The real binary, serving a real model on a free port, once a session."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import httpx
import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PAGODA_BIN", str(ROOT / "build/release/pagoda"))
MODEL = os.environ.get("PAGODA_E2E_MODEL", "smollm2:135m")


class Server:
    """`pagoda serve` as a child process; its standard error is kept line by line."""

    def __init__(self, *flags, model=MODEL, env=None, wait=True):
        self.lines = []
        command = [BINARY, "serve", model, "--port", "0", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "NO_COLOR": "1", **(env or {})})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.port = None
        if wait:
            self.wait_ready()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def wait_line(self, pattern, timeout=60):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if match := re.search(pattern, line):
                    return match
            if self.process.poll() is not None and not self.reader.is_alive():
                break
            time.sleep(0.005)
        raise AssertionError(f"no line like {pattern!r} in:\n" + "\n".join(self.lines))

    def wait_port(self):
        self.port = int(self.wait_line(r"\(port (\d+) answers 503").group(1))
        return self.port

    def wait_ready(self):
        self.wait_port()
        self.wait_line(r"ready: ")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def client(self, **options):
        return openai.OpenAI(base_url=self.url + "/v1", api_key=options.pop("api_key", "none"), max_retries=0,
                             timeout=60, **options)

    def post(self, path, body, **options):
        return httpx.post(self.url + path, json=body, timeout=60, **options)

    def get(self, path, **options):
        return httpx.get(self.url + path, timeout=10, **options)

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def metric(self, name):
        """The sum over all label sets of one metric."""
        text = self.get("/metrics").text
        values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M)
        assert values, f"{name} is not in /metrics"
        return sum(float(value) for value in values)

    def idle(self):
        return self.metric("vllm:num_requests_running") == 0 and self.metric("vllm:num_requests_waiting") == 0 \
            and self.metric("vllm:kv_cache_usage_perc") == 0

    def wait_idle(self, timeout=5):
        deadline = time.monotonic() + timeout
        while not self.idle():
            assert time.monotonic() < deadline, "sequences or blocks are still in use"
            time.sleep(0.01)

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def resident_bytes(self):
        fields = pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self, sig=signal.SIGTERM, timeout=40):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        code = self.process.wait(timeout)
        self.reader.join(5)
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="session")
def server():
    one = Server()
    yield one
    assert one.stop() == 0, "\n".join(one.lines)


@pytest.fixture
def own_server():
    """Starts servers with flags of a test's own; kills what the test leaves."""
    started = []

    def start(*flags, **options):
        started.append(Server(*flags, **options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="session")
def client(server):
    return server.client()


def pytest_sessionstart(session):
    if not os.access(BINARY, os.X_OK):
        raise pytest.UsageError(f"{BINARY} is missing: build it, or set PAGODA_BIN")
