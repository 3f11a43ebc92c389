"""What all peers share: a process measures one group of cells of one model, then ends, so nobody holds memory or threads while
another is measured.

A group (JSON, first argument): {"model": file, "threads": n, "context": tokens to allocate for, and any of
"prefill": N, "decode": C, "batch": [B, C], "memory": C, "start": prompt ("rendered": the same in the chat template).
Printed: {"version", "values": {cell: number}, "errors": {cell: text}}, or
{"version", "load_error": text} where the model cannot be loaded.
"""
import json
import os
import sys
import time
import traceback

DECODE_STEPS = 24  # as `pagoda bench latency`
WARM_TOKENS = 16   # before anything is timed: pools and lazily repacked weights come to life


def cell_names(group: dict) -> list[str]:
    """The cells that a group fills, in the table's order."""
    names = []
    if "prefill" in group:
        names.append(f"prefill_{group['prefill']}")
    if "decode" in group:
        names.append(f"decode_{group['decode']}")
    if "batch" in group:
        names.append(f"batch_{group['batch'][0]}_at_{group['batch'][1]}")
    if "memory" in group:
        names.append(f"memory_mib_at_{group['memory']}")
    if "start" in group:
        names.append("start_s")
    return names


def token_ids(count: int, vocab: int, salt: int = 0) -> list[int]:
    """Arbitrary ordinary tokens; another salt starts differently, so that no prefix cache can answer."""
    return [(7919 * (i + 1 + 31 * salt)) % (vocab - 1000) + 500 for i in range(count)]


def status_mib(field: str) -> float:
    """VmHWM (peak) or VmRSS of this process, from /proc/self/status."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def seconds_since_exec() -> float:
    """Since this process was started, to 10 ms."""
    with open("/proc/self/stat", encoding="ascii") as file:
        start_ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")


def reason(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def serve(load, version: str) -> None:
    """`load(group)` gives an object with prefill(n), decode(context), batch(count, context) in tokens/s and first_token(prompt).

    To the peer's favour, what Python and the import of the package took (time, memory) is not charged: call this after it.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that writes to standard output does not garble the answer
    group = json.loads(sys.argv[1])
    answer: dict = {"version": version}
    imported_mib, python_s, begin = status_mib("VmRSS"), seconds_since_exec(), time.perf_counter()
    try:
        engine = load(group)
    except Exception as error:  # noqa: BLE001  whatever a peer throws becomes the reason in its cells
        answer["load_error"] = reason(error)
    else:
        answer |= {"values": {}, "errors": {}}
        jobs = {"start": lambda _: (engine.first_token(group["rendered"]), time.perf_counter() - begin)[1],
                "prefill": lambda n: engine.prefill(n), "decode": lambda c: engine.decode(c),
                "batch": lambda b: engine.batch(*b), "memory": lambda _: status_mib("VmHWM") - imported_mib}
        for kind, job in jobs.items():
            if kind not in group:
                continue
            cell = cell_names({kind: group[kind]})[0]
            try:
                answer["values"][cell] = job(group[kind])
            except Exception as error:  # noqa: BLE001
                answer["errors"][cell] = reason(error)
        if "start" in group:
            answer["values"]["python_s"] = python_s
    print(json.dumps(answer), file=out, flush=True)
    os._exit(0)  # no destructor of a peer may hang or crash what is already measured
