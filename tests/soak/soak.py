#!/usr/bin/env python3
"""Many clients for minutes against a real server with too little of everything: nothing lost, nothing wrong, nothing left.

    tests/soak/soak.py --binary build/dev/pagoda --seconds 180

A server with a small KV pool, a disk tier and swap space serves `--clients` clients, each of which sends one request after another:
plain, streamed, of several choices, scored, searched by beams, with long prompts; some hang up before the first token, some in the
middle. Every answer that was read to its end must be the one that a server with one place and no cache gave alone. A request that
is neither answered, refused with 429 nor given up by its client is lost.

Memory and descriptors are sampled when the load has run for a third of the time and at the end, with nobody inside: they must not have
grown. Exit code 0 if all holds; prints one line of JSON.
"""
import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import httpx


class Server:
    def __init__(self, binary, model, *flags):
        self.process = subprocess.Popen([binary, "serve", model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "NO_COLOR": "1"})
        self.lines, port = [], None
        for line in self.process.stderr:  # until it is ready; then somebody must go on reading
            self.lines.append(line)
            if found := re.search(r"\(port (\d+) answers 503", line):
                port = found.group(1)
            if "ready: " in line:
                break
        else:
            raise SystemExit("soak: the server did not become ready:\n" + "".join(self.lines[-20:]))
        self.url = f"http://127.0.0.1:{port}"
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metric(self, name):
        text = httpx.get(self.url + "/metrics", timeout=60).text
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M))

    def wait_idle(self, seconds):
        deadline = time.monotonic() + seconds
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
        while any(self.metric(name) for name in names):
            if time.monotonic() > deadline:
                raise SystemExit("soak: sequences or blocks are still in use although nobody asks")
            time.sleep(0.2)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        self.reader.join(10)
        return code


def kinds(rng):
    """Requests that between them meet every path; their answers are fixed by their fields."""
    texts = [[rng.randrange(10, 20000) for _ in range(700)] for _ in range(3)]
    made = []
    for i in range(36):
        length = rng.choice([3, 20, 60, 150, 400])
        fork = rng.randrange(length + 1)
        prompt = texts[i % 3][:fork] + [rng.randrange(10, 20000) for _ in range(length - fork)]
        body = {"prompt": prompt, "max_tokens": rng.choice([1, 4, 8, 24]), "temperature": i % 2, "seed": i, "logprobs": 1,
                "ignore_eos": True}
        match i % 6:
            case 1:
                body["n"] = 2
            case 2:
                body["prompt_logprobs"] = 1
            case 3:
                body |= {"use_beam_search": True, "best_of": 3, "n": 2}
            case 4:
                body["cache_salt"] = "one" if i % 4 else "two"
        made.append(body)
    return made


def essence(answer):
    return [(choice["index"], choice["text"], choice["logprobs"]["token_logprobs"], choice["finish_reason"], choice.get("prompt_logprobs"))
            for choice in answer["choices"]]


def texts_of(answer):
    return {choice["index"]: choice["text"] for choice in answer["choices"]}


class Load:
    def __init__(self, server, bodies, alone):
        self.server, self.bodies, self.alone = server, bodies, alone
        self.counts = dict.fromkeys(("sent", "answered", "streamed", "hung_up", "refused"), 0)
        self.wrong = []

    async def whole(self, client, i):
        answer = await client.post("/v1/completions", json=self.bodies[i])
        if answer.status_code == 429:
            self.counts["refused"] += 1
            return await asyncio.sleep(0.2)
        if answer.status_code != 200 or essence(answer.json()) != essence(self.alone[i]):
            self.wrong.append((i, answer.status_code, answer.text[:300]))
        self.counts["answered"] += 1

    async def stream(self, client, i, leave_after):
        body = {name: value for name, value in self.bodies[i].items() if name != "prompt_logprobs"} | {"stream": True}
        said, done, seen = dict.fromkeys(texts_of(self.alone[i]), ""), False, 0
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            if answer.status_code == 429:
                self.counts["refused"] += 1
                return await asyncio.sleep(0.2)
            async for line in answer.aiter_lines():
                if seen == leave_after:
                    self.counts["hung_up"] += 1
                    return None
                seen += 1
                if line == "data: [DONE]":
                    done = True
                elif line.startswith("data: "):
                    for choice in json.loads(line[6:]).get("choices", []):
                        said[choice["index"]] += choice["text"]
        if not done or said != texts_of(self.alone[i]):
            self.wrong.append((i, "stream", said))
        self.counts["streamed"] += 1

    async def one_client(self, seed, until):
        rng = random.Random(seed)
        async with httpx.AsyncClient(base_url=self.server.url, timeout=600) as client:
            while time.monotonic() < until and not self.wrong:
                i = rng.randrange(len(self.bodies))
                self.counts["sent"] += 1
                how = rng.random()
                if how < 0.1:  # before the first token
                    try:
                        await asyncio.wait_for(client.post("/v1/completions", json=self.bodies[i]), rng.random() * 0.3)
                        self.counts["answered"] += 1
                    except (asyncio.TimeoutError, httpx.HTTPError):
                        self.counts["hung_up"] += 1
                elif how < 0.5:
                    await self.stream(client, i, rng.randrange(12) if how < 0.2 else -1)
                else:
                    await self.whole(client, i)

    async def run(self, clients, seconds):
        until = time.monotonic() + seconds
        await asyncio.gather(*(self.one_client(seed, until) for seed in range(clients)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="build/release/pagoda")
    parser.add_argument("--model", default="smollm2:135m")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--growth", type=float, default=0.05, help="of resident memory between the two samples")
    options = parser.parse_args()

    bodies = kinds(random.Random(20261130))
    reference = Server(options.binary, options.model, "--max-num-seqs", "4", "--no-enable-prefix-caching", "--max-model-len", "1024")
    with httpx.Client(base_url=reference.url, timeout=600) as client:
        alone = [client.post("/v1/completions", json=body).raise_for_status().json() for body in bodies]
    assert reference.stop() == 0, reference.lines[-5:]

    folder = tempfile.mkdtemp(prefix="pagoda-soak-")
    server = Server(options.binary, options.model, "--kv-cache-memory", "40MiB", "--max-model-len", "1024", "--max-num-seqs", "24",
                    "--kv-dir", folder, "--swap-space", "16MiB")
    load = Load(server, bodies, alone)
    asyncio.run(load.run(options.clients, options.seconds / 3))
    server.wait_idle(120)
    before = {"resident": server.resident(), "files": server.files()}
    asyncio.run(load.run(options.clients, options.seconds * 2 / 3))
    server.wait_idle(120)
    after = {"resident": server.resident(), "files": server.files()}
    preempted = server.metric("vllm:num_preemptions_total")
    code = server.stop()
    shutil.rmtree(folder)

    counts = load.counts
    lost = counts["sent"] - counts["answered"] - counts["streamed"] - counts["hung_up"] - counts["refused"]
    fine = not load.wrong and lost == 0 and code == 0 and after["files"] <= before["files"] + 2 and \
        after["resident"] <= before["resident"] * (1 + options.growth)
    print(json.dumps({"fine": fine, **counts, "lost": lost, "wrong": load.wrong[:3], "preemptions": preempted, "exit": code,
                      "before": before, "after": after}))
    if code != 0:
        sys.stderr.writelines(server.lines[-40:])
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
