#!/usr/bin/env python3
"""Tokens a second of many streaming clients over real sockets, beside the same batch without a server.

    bench/serve/throughput.py [--model smollm2:135m] [--clients 16,32] [--rounds 3] [--pagoda build/release/pagoda]

A round, for each number of clients: `pagoda bench latency --batch N` (decode only, at the context that the streams have on average),
then N clients at once with prompts and answers of one length. Their rate is that of the tokens between the last first token and
the first last token: all N read all that time, no prompt is computed. Prints one JSON object a measurement, then the best of each and the ratio.
"""
import argparse
import json
import subprocess
import time

from server import ROOT, Server, run_streams


def batch_rate(options, clients):
    context = options.prompt_tokens + options.answer_tokens // 2
    done = subprocess.run([options.pagoda, "bench", "latency", options.model, "--prefill", "16", "--decode", str(context), "--batch",
                           str(clients), "--rounds", "1", "--threads", str(options.threads), "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["batch_decode_tok_s"]


def streamed_rate(options, clients):
    server = Server(options.pagoda, options.model, "--max-num-seqs", str(clients), "--max-model-len",
                    str(options.prompt_tokens + options.answer_tokens), "--threads", str(options.threads))
    time.sleep(options.settle_s)  # weights in small pages become huge ones, the model file's digest is computed
    bodies = [{"prompt": [(c * 101 + i * 7919) % 40000 + 10 for i in range(options.prompt_tokens)], "temperature": 0,
               "max_tokens": options.answer_tokens, "ignore_eos": True} for c in range(clients)]
    streams = run_streams(server.port, bodies)
    server.stop()
    for stream in streams:
        stream.answer()
        assert len(stream.times) == options.answer_tokens, len(stream.times)
    begin, end = max(s.times[0] for s in streams), min(s.times[-1] for s in streams)
    tokens = sum(begin < t <= end for s in streams for t in s.times)
    return tokens / (end - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2:135m")
    parser.add_argument("--clients", default="16,32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--answer-tokens", type=int, default=160)
    parser.add_argument("--settle-s", type=float, default=5)
    parser.add_argument("--pagoda", default=str(ROOT / "build/release/pagoda"))
    options = parser.parse_args()
    best = {}
    for _ in range(options.rounds):
        for clients in map(int, options.clients.split(",")):
            row = {"clients": clients, "batch_tok_s": round(batch_rate(options, clients), 1),
                   "streamed_tok_s": round(streamed_rate(options, clients), 1)}
            print(json.dumps(row), flush=True)
            held = best.setdefault(clients, dict(row))
            for key in ("batch_tok_s", "streamed_tok_s"):
                held[key] = max(held[key], row[key])
    for row in best.values():
        print(json.dumps({"model": options.model, **row, "percent": round(100 * row["streamed_tok_s"] / row["batch_tok_s"], 1)}))


if __name__ == "__main__":
    main()
