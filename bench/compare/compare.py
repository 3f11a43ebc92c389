#!/usr/bin/env python3
"""Pagoda beside other CPU engines: same model file, same number of threads, alternating rounds; medians and paired ratios.

Only ratios of one run mean something: a shared machine's bandwidth moves by a factor of two within an hour.
Prints Markdown tables; progress goes to standard error; everything measured goes to the JSON file. How and why: docs/COMPARISON.md.
"""
import argparse
import contextlib
import datetime
import hashlib
import importlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import report
from peers.common import cell_names

HERE = pathlib.Path(__file__).resolve().parent
PEERS = {importlib.import_module(f"peers.{module}").NAME: module for module in ("llama_cpp", "openvino_genai", "mistralrs")}
PROMPT = "Why is the sky blue?"
# One process an engine, group and round. `context`: tokens a peer must have room for, as Pagoda takes it.
FULL = {
    "start": {"start": PROMPT, "context": 512},
    "128": {"decode": 128, "batch": [4, 128], "context": 160},
    "512": {"prefill": 512, "decode": 512, "context": 544},
    "2048": {"prefill": 2048, "decode": 2048, "memory": 2048, "context": 2080},
    "batch16": {"batch": [16, 128], "context": 160},
    "batch32": {"batch": [32, 128], "context": 160},
}
QUICK = {"quick": {"prefill": 256, "decode": 128, "batch": [16, 128], "context": 288}}
CELL_ORDER = ("prefill", "decode", "batch", "start", "memory")


def say(text: str) -> None:
    print(f"compare: {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing on standard error"


def measure(options, engine: str, group: dict) -> dict:
    """One child process; {"version", "values", "errors"} or {"load_error"}."""
    module = "pagoda" if engine == report.HERE else PEERS[engine]
    command = [*shlex.split(options.prefix), sys.executable, "-m", f"peers.{module}", json.dumps(group), str(options.pagoda)]
    environment = os.environ | {"OMP_NUM_THREADS": str(group["threads"]), "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
                                 start_new_session=True)
        try:
            out, _ = child.communicate(timeout=options.timeout)
        except subprocess.TimeoutExpired:
            return {"values": {}, "errors": {"*": f"took longer than {options.timeout} s"}}
        finally:  # also what it started itself, also on Ctrl-C
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        errors.seek(0)
        log = errors.read()
    try:
        return json.loads(out)
    except ValueError:
        why = f"signal {-child.returncode}" if child.returncode < 0 else f"exit status {child.returncode}"
        return {"values": {}, "errors": {"*": f"ended with {why}: {last_line(log)}"}, "log": log[-4000:]}


class ModelRun:
    """All rounds of one model."""

    def __init__(self, options, name: str, groups: dict, peers: list[str], absent: dict):
        self.options, self.name, self.groups, self.peers = options, name, groups, peers
        self.file = model_file(options.pagoda, name)
        self.rounds: list[dict] = []
        self.versions: dict[str, str] = {}
        self.reasons = {peer: {"*": why} for peer, why in absent.items()}  # {engine: {cell or "*": why not}}
        self.sha256 = sha256(self.file)  # also brings the file into the page cache
        self.prompt = as_chat(options.pagoda, self.file)

    def one_round(self) -> None:
        results: dict[str, dict] = {}
        self.rounds.append(results)
        for group_name, group in self.groups.items():
            engines = [report.HERE, *self.peers]
            if len(self.rounds) % 2 == 0:
                engines.reverse()
            for engine in engines:
                if self.hopeless(engine, group):
                    continue
                begin = time.monotonic()
                answer = measure(self.options, engine, group | {
                    "model": str(self.file), "threads": self.options.threads, "rendered": self.prompt})
                self.take(engine, group, answer, results)
                got = " ".join(f"{k}={report.number(v)}" for k, v in answer.get("values", {}).items() if not k.endswith("_percent"))
                say(f"{self.name} round {len(self.rounds)}/{self.options.rounds} {group_name} {engine}: "
                    f"{got or 'no number'} ({time.monotonic() - begin:.0f} s)")

    def hopeless(self, engine: str, group: dict) -> bool:
        why = self.reasons.get(engine, {})
        return "*" in why or all(cell in why for cell in cell_names(group))

    def take(self, engine: str, group: dict, answer: dict, results: dict) -> None:
        if answer.get("version"):
            self.versions[engine] = answer["version"]
        results.setdefault(engine, {}).update(answer.get("values", {}))
        why = self.reasons.setdefault(engine, {})
        if "load_error" in answer:
            why["*"] = answer["load_error"]
        for cell, text in answer.get("errors", {}).items():
            for name in cell_names(group) if cell == "*" else [cell]:
                why[name] = text
        if "log" in answer:
            why.setdefault("log", answer["log"])

    def as_json(self) -> dict:
        cells = sorted((c for g in self.groups.values() for c in cell_names(g)), key=lambda c: CELL_ORDER.index(c.split("_")[0]))
        return {"model": self.name, "file": self.file.name, "sha256": self.sha256, "rounds": self.rounds, "reasons": self.reasons,
                "versions": self.versions, "summary": report.summarise(self.rounds, self.peers, cells)}


def model_file(pagoda: pathlib.Path, name: str) -> pathlib.Path:
    subprocess.run([pagoda, "pull", name], check=True, stdout=sys.stderr)
    listing = json.loads(subprocess.run([pagoda, "list", "--json"], capture_output=True, text=True, check=True).stdout)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return next(cache / "pagoda/models" / entry["file"] for entry in listing["models"] if entry["name"] == name)


def as_chat(pagoda: pathlib.Path, file: pathlib.Path) -> str:
    """PROMPT as `pagoda run` asks it, so that every engine computes the same tokens before its first one."""
    chat = {"messages": [{"role": "user", "content": PROMPT}], "add_generation_prompt": True}
    done = subprocess.run([pagoda, "template", file], input=json.dumps(chat), capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else PROMPT  # a base model has no template


def sha256(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def command_output(*command: str) -> str:
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()


def machine() -> dict:
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return {"cpu": fields.get("model name"), "family": fields.get("cpu family"), "model": fields.get("model"),
            "cpus": len(os.sched_getaffinity(0)), "flags": fields.get("flags")}


def absent_peers(peers: list[str], failures: pathlib.Path) -> dict:
    """{peer: why} of those that bench/compare/run could not install: it leaves pip's words in a file."""
    out = {}
    for peer in peers:
        log = failures / f"{PEERS[peer]}.failed"
        if log.exists():
            out[peer] = f"cannot be installed here: {last_line(log.read_text())}"
    return out


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pagoda", required=True, type=lambda p: pathlib.Path(p).resolve(), help="the binary")
    parser.add_argument("--quick", action="store_true", help="llama.cpp only, two models, prefill 256, decode at 128, batch 16")
    parser.add_argument("--models", help="catalogue names, comma between")
    parser.add_argument("--peers", help=f"of {', '.join(PEERS.values())}, comma between")
    parser.add_argument("--groups", help=f"of {', '.join(FULL)}, comma between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timeout", type=int, default=600, help="seconds one process may take")
    parser.add_argument("--prefix", default="", help="put before every measured process, such as 'numactl -N 0'")
    parser.add_argument("--failures", type=pathlib.Path, default=HERE.parents[1] / "build/compare-venv", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=pathlib.Path, default=HERE.parents[1] / "build/compare.json")
    options = parser.parse_args()
    options.models = (options.models or ("smollm2:135m,qwen2.5-coder:1.5b" if options.quick else
                                         "smollm2:135m,gemma3:270m,qwen2.5-coder:1.5b")).split(",")
    wanted = (options.peers or ("llama_cpp" if options.quick else ",".join(PEERS.values()))).split(",")
    if unknown := set(wanted) - set(PEERS.values()):
        parser.error(f"no such peer: {', '.join(unknown)}")
    options.peers = [name for name, module in PEERS.items() if module in wanted]
    groups = QUICK if options.quick else FULL
    names = options.groups.split(",") if options.groups else list(groups)
    if unknown := set(names) - set(groups):
        parser.error(f"no such group: {', '.join(unknown)}")
    options.groups = {name: groups[name] for name in names}
    return options


def main() -> int:
    options = parse_arguments()
    absent = absent_peers(options.peers, options.failures)
    flags = {name: importlib.import_module(f"peers.{module}").FLAGS for name, module in {report.HERE: "pagoda", **PEERS}.items()
             if name in (report.HERE, *options.peers)}
    head = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "quick": options.quick,
            "pagoda_commit": command_output("git", "rev-parse", "--short=12", "HEAD"),
            "pagoda_changed": bool(command_output("git", "status", "--porcelain", "--untracked-files=no")),
            "threads": options.threads, "machine": machine(), "flags": flags}
    runs = []
    for name in options.models:
        run = ModelRun(options, name, options.groups, options.peers, absent)
        runs.append(run)
        for _ in range(options.rounds):
            run.one_round()
            options.json.write_text(json.dumps(head | {"models": [r.as_json() for r in runs]}, indent=1) + "\n")
        done = run.as_json()
        print(f"\n**{name}** ({done['file']}, sha256 {done['sha256'][:12]}…), medians of {len(run.rounds)} rounds\n")
        print(report.table(done["summary"], options.peers, run.reasons), flush=True)
    versions = {k: v for r in runs for k, v in r.versions.items()}
    print(f"\n{head['date']}, Pagoda {head['pagoda_commit']}{' (changed)' if head['pagoda_changed'] else ''}, "
          f"{head['machine']['cpu']}, {options.threads} threads. Ratios above 1 favour Pagoda in speeds, below 1 in time and memory.\n")
    for name, text in flags.items():
        print(f"- {name} {versions.get(name, '')}: {text}")
    say(f"all rounds are in {options.json}")
    return 1 if any(run.reasons.get(report.HERE) for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
