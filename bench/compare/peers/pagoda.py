"""Pagoda itself: `bench latency` for speeds, `run` for the first token, the child's peak for memory."""
import json
import resource
import subprocess
import sys
import time

from peers.common import cell_names

NAME = "Pagoda"
FLAGS = "pagoda bench latency --threads T (else defaults); pagoda run --max-tokens 1 --temperature 0 --threads T"


def measure(binary: str, group: dict) -> dict:
    """Cells of one group, and the same names with `_percent` for the share of this machine's limit."""
    threads = ["--threads", str(group["threads"])]
    if "start" in group:
        return {"start_s": seconds_to_first_token([binary, "run", group["model"], group["start"], "--max-tokens", "1",
                                                   "--temperature", "0", *threads])}
    batch, batch_context = group.get("batch", (1, None))
    context = group.get("decode", batch_context or 16)
    if batch_context not in (None, context):
        raise ValueError("pagoda bench latency measures a batch at the context of its decode")
    row = json.loads(subprocess.run(
        [binary, "bench", "latency", group["model"], "--prefill", str(group.get("prefill", 16)), "--decode", str(context),
         "--batch", str(batch), "--rounds", "1", *threads, "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    values = {}
    for cell in cell_names({k: v for k, v in group.items() if k in ("prefill", "decode", "batch")}):
        key = {"prefill": "prefill_tok_s", "decode": "decode_tok_s", "batch": "batch_decode_tok_s"}[cell.split("_")[0]]
        values[cell] = row[key]
        values[cell + "_percent"] = row[key + "_percent_of_limit"]
    if "memory" in group:
        values[f"memory_mib_at_{group['memory']}"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return values


def seconds_to_first_token(command: list[str]) -> float:
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        first = child.stdout.read(1)
        seconds = time.perf_counter() - begin
        child.communicate()
    if child.returncode or not first:
        raise RuntimeError(f"pagoda run ended with {child.returncode} and {'no ' if not first else ''}text")
    return seconds


if __name__ == "__main__":
    _group = json.loads(sys.argv[1])
    print(json.dumps({"version": "", "values": measure(sys.argv[2], _group), "errors": {}}))
