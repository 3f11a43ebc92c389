#!/usr/bin/env python3
"""How much sooner a restarted server answers a prompt that the one before it knew (--kv-dir).

    bench/serve/restart.py [--model smollm2:135m] [--tokens 8000] [--rounds 3] [--pagoda build/release/pagoda]

A round: an empty folder, a server, a prompt of arbitrary tokens (time to the first token: cold); the server ends; the folder's files
are written out and leave the page cache (unless --keep-page-cache); another server, the same prompt (restarted); and once more (pool).
A second server without --kv-dir gives the answer that all must equal. Prints one JSON object a round, then the medians.
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile

from server import ROOT, Server, run_streams


def prompt_of(tokens):
    return [(i * 7919 + i // 97 * 31) % 40000 + 10 for i in range(tokens)]


def drop_from_page_cache(folder):
    for path in pathlib.Path(folder).rglob("*.kv"):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def ask(server, body):
    stream, = run_streams(server.port, [body])
    return {"ttft_s": stream.times[0] - stream.sent_s, "digest": stream.receipt()}


def one_round(options, body):
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        flags = ["--kv-dir", folder, "--max-model-len", str(options.tokens + 64), "--threads", str(options.threads)]
        first = Server(options.pagoda, options.model, *flags)
        cold = ask(first, body)
        first.stop()
        stored = sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*.kv"))
        if not options.keep_page_cache:
            drop_from_page_cache(folder)
        second = Server(options.pagoda, options.model, *flags)
        restarted = ask(second, body)
        loaded = second.metric("pagoda:kv_tier_blocks_loaded_total")
        pool = ask(second, body)
        second.stop()
    assert cold["digest"] == restarted["digest"] == pool["digest"], "other tokens"
    assert loaded == (options.tokens - 1) // 16, f"{loaded} blocks came from the folder"
    return {"cold_s": round(cold["ttft_s"], 4), "restarted_s": round(restarted["ttft_s"], 4), "pool_s": round(pool["ttft_s"], 4),
            "ratio": round(cold["ttft_s"] / restarted["ttft_s"], 1), "stored_mb": round(stored / 1e6, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2:135m")
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--folder", default=None, help="where the KV folders are made; default the system's temporary one")
    parser.add_argument("--keep-page-cache", action="store_true")
    parser.add_argument("--pagoda", default=str(ROOT / "build/release/pagoda"))
    options = parser.parse_args()
    body = {"prompt": prompt_of(options.tokens), "max_tokens": 1, "temperature": 0, "ignore_eos": True}
    rounds = []
    for _ in range(options.rounds):
        rounds.append(one_round(options, body))
        print(json.dumps(rounds[-1]), flush=True)
    print(json.dumps({"model": options.model, "tokens": options.tokens,
                      **{key: statistics.median(r[key] for r in rounds) for key in rounds[0]}}))


if __name__ == "__main__":
    main()
