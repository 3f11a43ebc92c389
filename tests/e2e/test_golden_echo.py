"""Goal: what `eval golden` measures is what clients get: /v1/completions with the same ids, echo and logprobs, to the bit.

Method: the logprob of each prompt token over HTTP, summed in order, must equal eval's nll_mean as a double.
"""
import json
import pathlib
import subprocess

from conftest import BINARY, MODEL, ROOT

GOLDEN = pathlib.Path(ROOT).parent / "shared" / "golden" / "golden-smollm2.json"


def test_echo_logprobs_are_the_bits_of_eval_golden(server):
    run = subprocess.run([BINARY, "eval", "golden", MODEL, str(GOLDEN), "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    measured = json.loads(run.stdout)["cases"]
    for name, case in json.loads(GOLDEN.read_text())["cases"].items():
        answer = server.post("/v1/completions", {"model": MODEL, "prompt": case["ids"], "echo": True, "logprobs": 1,
                                                 "max_tokens": 0, "temperature": 0})
        assert answer.status_code == 200, answer.text
        logprobs = answer.json()["choices"][0]["logprobs"]["token_logprobs"]
        assert logprobs[0] is None and len(logprobs) == len(case["ids"])
        total = 0.0
        for logprob in logprobs[1:]:
            total += -logprob
        assert total / (len(logprobs) - 1) == measured[name]["nll_mean"], name
