"""pagoda bench, from outside: what scripts read, and what the plot shows.

Goal: every verb prints one JSON object with its keys, percentages are of a limit that holds, and the drawing has the points of the
table. Method: the release binary with smollm2:135m, one short round each; speeds are not judged, only what cannot be.
"""
import json
import os
import pathlib
import subprocess
import xml.etree.ElementTree

import pytest

BIN = os.environ.get("PAGODA_BIN", str(pathlib.Path(__file__).resolve().parents[2] / "build/release/pagoda"))
MODEL = "smollm2:135m"
WAIT_S = 240  # generous: CI machines are shared


def bench(*flags, code=0):
    done = subprocess.run([BIN, "bench", *flags], capture_output=True, text=True, timeout=WAIT_S, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stderr
    return done


def object_of(done):
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def check_percent(row):
    """Of the right order: one short round on shared cores may pass the limit, since bandwidth is read beside the work."""
    assert 0.1 < row["percent_of_limit"] < 1000, row


def test_machine_says_what_it_can_do():
    machine = object_of(bench("machine", "--json"))
    assert machine["isa"] in ("portable", "avx2", "avx512") and machine["threads"] >= 1
    assert {"cpu", "affinity_cpus", "cgroup_cpus", "memory_total_bytes", "memory_available_bytes", "huge_pages",
            "huge_pages_granted_percent", "steal_ticks", "steal_percent"} <= machine.keys()
    threads = sorted({1, machine["threads"]})
    ways = [(t, s, h) for h in (True, False) for t in threads for s in (1, 4)]
    assert [(r["threads"], r["streams"], r["huge_pages"]) for r in machine["reads"]] == ways
    assert all(r["gb_s"] > 0.1 for r in machine["reads"])
    assert [a["threads"] for a in machine["arithmetic"]] == threads
    for row in machine["arithmetic"]:
        assert 0 < row["int_mac_per_cycle"] <= 256 and 0 < row["f32_mac_per_cycle"] <= 64 and 0.3 < row["clock_ghz"] < 8
    assert "GB/s" in bench("machine", "--threads", "1").stdout


def test_kernels_covers_every_operator():
    out = object_of(bench("kernels", MODEL, "--rounds", "1", "--json"))
    assert out["machine"]["int_gmac_s"] > 0 and [m["model"] for m in out["models"]] == [MODEL]
    rows = out["models"][0]["kernels"]
    names = {row["operator"].split(" ")[0] for row in rows}
    assert {"matmul", "rms_norm", "rope", "kv_write", "attention", "silu_mul", "arg_max", "log_sum_exp"} <= names
    matmul = [row for row in rows if row["operator"].startswith("matmul")]
    assert {row["rows"] for row in matmul} == {1, 4, 16, 256}
    assert {"192 x 576", "576 x 576", "576 x 1536", "1536 x 576", "49152 x 576"} == {row["shape"] for row in matmul}
    assert {(row["shape"].split(" at ")[1], row["rows"]) for row in rows if row["operator"] == "attention decode"} == {
        ("128", 1), ("2048", 1), ("8192", 1)}
    for row in rows:
        check_percent(row)
        assert row["gb_s"] > 0 and row["limit"] in ("memory", "arithmetic") and row["operands"] in ("dram", "cache"), row


def test_latency_of_one_shape_keeps_the_keys_that_scripts_read():
    out = object_of(bench("latency", MODEL, "--prefill", "64", "--decode", "40", "--batch", "3", "--rounds", "2", "--json"))
    speeds = {"prefill_tok_s", "decode_tok_s", "batch_decode_tok_s"}
    assert out.keys() == speeds | {f"{name}_percent_of_limit" for name in speeds} | {"rounds", "machine"}
    assert len(out["rounds"]) == 2
    for row in out["rounds"]:
        assert row.keys() == speeds | {"bandwidth_gb_s", "steal_ticks"}
        assert all(row[name] > 0 for name in speeds)
    assert {"isa", "threads", "bandwidth_gb_s", "int_gmac_s", "clock_ghz"} <= out["machine"].keys()
    for name in speeds:
        check_percent({"percent_of_limit": out[f"{name}_percent_of_limit"]})


def test_latency_table_and_plot(tmp_path):
    drawing = tmp_path / "table.svg"
    out = object_of(bench("latency", MODEL, "--contexts", "64,128", "--batches", "1,3", "--rounds", "1", "--json", "--svg",
                          str(drawing)))
    assert [row["tokens"] for row in out["prefill"]] == [64, 128]
    assert [row["context"] for row in out["decode"]] == [64, 128]
    assert [(row["sequences"], row["context"]) for row in out["batch_decode"]] == [(1, 128), (3, 128)]
    rows = out["prefill"] + out["decode"] + out["batch_decode"]
    for row in [*rows, out["load"], out["memory"]]:
        check_percent(row)
    assert all(row["tok_s"] > 0 and row["limit_tok_s"] > 0 and len(row["rounds"]) == 1 for row in rows)
    memory = out["memory"]
    assert memory["peak_bytes"] > memory["packed_bytes"] and memory["kv_bytes"] > 0 and out["load"]["seconds"] > 0

    svg = "{http://www.w3.org/2000/svg}"
    lines = xml.etree.ElementTree.parse(drawing).findall(f".//{svg}polyline")
    for kind in ("measured", "limit"):
        points = [line.get("points").split() for line in lines if line.get("class") == kind]
        assert [len(p) for p in points] == [2, 2, 2]
    texts = {text.text for text in xml.etree.ElementTree.parse(drawing).iter(f"{svg}text")}
    assert {"Prefill", "tokens/s", "64", "128", "measured"} <= texts and any(MODEL in text for text in texts)


def test_serve_replays_a_trace_in_every_mode(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:17:{i:02}.0,{40 + 60 * (i % 3)},{4 + 20 * (i % 4)}\n" for i in range(12)))
    drawing = tmp_path / "batches.svg"
    out = object_of(bench("serve", MODEL, "--trace", str(trace), "--modes", "paged,orca,static", "--scale", "1", "--max-num-seqs",
                          "4", "--kv-cache-memory", "8MiB", "--max-model-len", "256", "--goodput", "ttft:100000,tpot:100000",
                          "--json", "--svg", str(drawing)))
    assert list(out["modes"]) == ["paged", "orca", "static"] and out["answers_equal"] is True
    for mode in out["modes"].values():
        assert mode["goodput_percent"] == 100 and mode["output_tok_s"] > 0 and 0 < mode["mean_batch"] <= 4
        assert abs(sum(mode["kv"].values()) - 100) < 0.01
        for times in ("ttft", "tpot", "itl", "e2e"):
            assert 0 <= mode[times]["p50_ms"] <= mode[times]["p90_ms"] <= mode[times]["p99_ms"]
    assert out["modes"]["paged"]["kv"]["reserved_percent"] == 0 < out["modes"]["orca"]["kv"]["reserved_percent"]
    assert xml.etree.ElementTree.parse(drawing).getroot().tag.endswith("svg")


def test_latency_stops_where_the_context_ends():
    out = object_of(bench("latency", MODEL, "--contexts", "32,100000", "--batches", "1", "--rounds", "1", "--json"))
    assert [row["tokens"] for row in out["prefill"]] == [32]


@pytest.mark.parametrize("flags, code, said", [
    (["latency", MODEL, "--prefill", "5", "--contexts", "7"], 2, "--prefill"),
    (["latency", MODEL, "--decode", "5", "--svg", "x.svg"], 2, "--svg"),
    (["latency", MODEL, "--prefill", "999999"], 1, "over the model's context"),
    (["latency", "no-such-model"], 1, "no-such-model"),
    (["kernels", "no-such-model"], 1, "no-such-model"),
    (["machine", "x"], 2, "x"),
    (["serve", MODEL, "--trace", "/nonexistent/trace"], 1, "cannot open the trace"),
    (["serve", MODEL, "--trace", "x", "--goodput", "ttft"], 1, "--goodput"),
    ([], 2, "subcommand"),
])
def test_refusals_name_the_reason(flags, code, said):
    assert said in bench(*flags, code=code).stderr


def test_completion_knows_the_verbs_of_bench():
    script = subprocess.run([BIN, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    ask = script + "\nCOMP_WORDS=(pagoda bench ''); COMP_CWORD=2; _pagoda; echo \"${COMPREPLY[*]}\"\n" \
        "COMP_WORDS=(pagoda bench latency --con); COMP_CWORD=3; _pagoda; echo \"${COMPREPLY[*]}\""
    answer = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split("\n")
    assert answer[0].split() == ["machine", "kernels", "latency", "serve"] and answer[1].split() == ["--contexts"]
