#!/usr/bin/env python3
"""Prefill and decode of Pagoda and llama.cpp, in alternating rounds of one run; prints medians and ratios.

Only the ratios of one run mean something: these machines' bandwidth moves by a factor of two within an hour.
llama.cpp runs with its best flags here: as many threads as Pagoda, flash attention, native build, f16 KV, n_batch = the prompt.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

CASES = {"prefill_512": ("prefill", 512), "decode_128": ("decode", 128)}
DECODE_TOKENS = 24


class LlamaCpp:
    def __init__(self, path: str, threads: int):
        import llama_cpp
        self.version = llama_cpp.__version__
        self.llm = llama_cpp.Llama(model_path=path, n_ctx=1024, n_batch=512, n_threads=threads, n_threads_batch=threads,
                                   flash_attn=True, verbose=False)
        self.vocab = self.llm.n_vocab()

    def tokens(self, count: int) -> list[int]:
        return [(7919 * (i + 1)) % (self.vocab - 1000) + 500 for i in range(count)]

    def measure(self, kind: str, size: int) -> float:
        self.llm.reset()
        prompt = self.tokens(size)
        start = time.perf_counter()
        self.llm.eval(prompt)
        if kind == "prefill":
            return size / (time.perf_counter() - start)
        start = time.perf_counter()
        for token in self.tokens(DECODE_TOKENS):
            self.llm.eval([token])
        return DECODE_TOKENS / (time.perf_counter() - start)


def pagoda_round(binary: str, path: str, threads: int) -> dict:
    out = subprocess.run([binary, "bench", "latency", path, "--prefill", "512", "--decode", "128", "--batch", "1", "--rounds", "1",
                          "--threads", str(threads), "--json"], capture_output=True, text=True, check=True).stdout
    row = json.loads(out)
    return {"prefill_512": row["prefill_tok_s"], "decode_128": row["decode_tok_s"],
            "prefill_512_percent": row["prefill_tok_s_percent_of_limit"],
            "decode_128_percent": row["decode_tok_s_percent_of_limit"], "machine": row["machine"]}


def compare(binary: str, model: str, path: str, threads: int, rounds: int) -> dict:
    llama = LlamaCpp(path, threads)
    ours: dict[str, list] = {}
    theirs: dict[str, list] = {name: [] for name in CASES}
    machine = {}
    for number in range(rounds):
        print(f"compare: {model} round {number + 1}/{rounds}", file=sys.stderr)
        row = pagoda_round(binary, path, threads)
        machine = row.pop("machine")
        for key, value in row.items():
            ours.setdefault(key, []).append(value)
        for name, (kind, size) in CASES.items():
            theirs[name].append(llama.measure(kind, size))
    median = statistics.median
    return {"model": model, "llama_cpp_python": llama.version, "machine": machine, "rounds": rounds,
            "pagoda": {k: median(v) for k, v in ours.items()}, "llama_cpp": {k: median(v) for k, v in theirs.items()},
            "ratio": {k: median(ours[k]) / median(theirs[k]) for k in CASES},
            "ratio_by_round": {k: [a / b for a, b in zip(ours[k], theirs[k])] for k in CASES}}


def model_path(binary: str, model: str) -> str:
    listing = json.loads(subprocess.run([binary, "list", "--json"], capture_output=True, text=True, check=True).stdout)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return str(next(cache / "pagoda/models" / entry["file"] for entry in listing["models"] if entry["name"] == model))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pagoda", required=True)
    parser.add_argument("--models", default="smollm2:135m,gemma3:270m,qwen2.5-coder:1.5b")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for model in options.models.split(","):
        subprocess.run([options.pagoda, "pull", model], check=True, stdout=sys.stderr)
        rows.append(compare(options.pagoda, model, model_path(options.pagoda, model), options.threads, options.rounds))
    print("| model | work | Pagoda tok/s | of limit | llama.cpp tok/s | ratio |\n|---|---|---|---|---|---|")
    for row in rows:
        for name in CASES:
            print(f"| {row['model']} | {name.replace('_', ' ')} | {row['pagoda'][name]:.1f} | {row['pagoda'][name + '_percent']:.0f} % | "
                  f"{row['llama_cpp'][name]:.1f} | {row['ratio'][name]:.2f} |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
