"""Receipts and `pagoda replay`: any answer computes again to the same bytes, and whatever was changed in it is seen.

Goal: answers of the openai client, whole and streamed, chat and completion, sampled and greedy, replay from what the client kept;
each tampered copy does not. Method: the real server over sockets, `pagoda replay` as a process of its own with another thread count.
"""
import copy
import hashlib
import json
import pathlib
import struct
import subprocess

import httpx
import pytest

from conftest import BINARY, MODEL

HI = [{"role": "user", "content": "Tell me about two rivers."}]


def replay(tmp_path, answer, *flags):
    kept = tmp_path / "answer.json"
    kept.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    done = subprocess.run([BINARY, "replay", str(kept), "--threads", "1", *flags], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()


@pytest.fixture(scope="module")
def sampled(client):
    """One sampled answer without a seed of ours, as the client dumps it."""
    answer = client.chat.completions.create(model=MODEL, messages=HI, temperature=1, max_tokens=24, logprobs=True,
                                            extra_body={"return_token_ids": True})
    return json.loads(answer.model_dump_json())


def test_a_receipt_says_what_it_is_of(sampled):
    receipt = sampled["receipt"]
    models = pathlib.Path.home() / ".cache/pagoda/models"
    known = {hashlib.sha256(path.read_bytes()).hexdigest() for path in models.glob("SmolLM2*")}
    assert receipt["model"]["sha256"] in known and receipt["model"]["name"] == MODEL
    assert receipt["model"]["kv_k"] == "f16" and receipt["model"]["chat_template_sha256"]
    assert receipt["sampling"]["seed"] == sampled["seed"] and receipt["sampling"]["temperature"] == 1
    prompt, = receipt["prompts"]
    choice, = receipt["choices"]
    assert prompt["tokens"] == sampled["usage"]["prompt_tokens"] and prompt["max_tokens"] == 24
    assert prompt["token_ids"] == sampled["prompt_token_ids"] and prompt["sha256"] == digest(prompt["token_ids"])
    assert choice["token_ids"] == sampled["choices"][0]["token_ids"] and choice["sha256"] == digest(choice["token_ids"])
    assert choice["ended_by"] == sampled["choices"][0]["finish_reason"]


def test_an_untouched_answer_is_equal(tmp_path, sampled):
    code, said = replay(tmp_path, sampled)
    assert code == 0 and said.startswith("equal: 1 choices, "), said
    code, said = replay(tmp_path, sampled, "--json")
    assert code == 0
    report = json.loads(said)
    assert report["equal"] is True and report["difference"] is None
    assert report["choices"][0]["sha256"] == sampled["receipt"]["choices"][0]["sha256"]


def change(answer, how):
    """One copy with one thing changed."""
    changed = copy.deepcopy(answer)
    how(changed, changed["receipt"], changed["choices"][0])
    return changed


def test_tampering_is_seen(tmp_path, sampled):
    ids = sampled["receipt"]["choices"][0]["token_ids"]

    def other_token(a, r, c):
        r["choices"][0]["token_ids"][5] += 1

    def other_token_with_its_digest(a, r, c):
        r["choices"][0]["token_ids"][5] += 1
        r["choices"][0]["sha256"] = digest(r["choices"][0]["token_ids"])

    def shorter(a, r, c):
        r["choices"][0]["token_ids"] = ids[:-3]
        r["choices"][0] |= {"tokens": len(ids) - 3, "sha256": digest(ids[:-3])}

    def text(a, r, c):
        c["message"]["content"] = c["message"]["content"][:20] + "!" + c["message"]["content"][21:]

    def more_text(a, r, c):
        c["message"]["content"] += " indeed"

    def prompt_token(a, r, c):
        r["prompts"][0]["token_ids"][-1] += 1

    def prompt_token_with_its_digest(a, r, c):
        r["prompts"][0]["token_ids"][-6] += 1
        r["prompts"][0]["sha256"] = digest(r["prompts"][0]["token_ids"])

    cases = {
        other_token: "position 5: the receipt has",
        other_token_with_its_digest: "position 5: the receipt has",
        shorter: f"position {len(ids) - 3}: the receipt has nothing more",
        text: "position ",
        more_text: "goes on with",
        prompt_token: "prompt 0",
        prompt_token_with_its_digest: "position ",
        (lambda a, r, c: r["choices"][0].update(sha256="0" * 64)): "digest",
        (lambda a, r, c: r["sampling"].update(seed=r["sampling"]["seed"] + 1)): "position ",
        (lambda a, r, c: r["sampling"].update(temperature=0.5)): "position ",
        (lambda a, r, c: r["model"].update(sha256="0" * 64)): "another model",
        (lambda a, r, c: r["prompts"][0].update(max_tokens=12)): "position 12",
        (lambda a, r, c: c.update(finish_reason="stop" if c["finish_reason"] == "length" else "length")): "it ended by",
        (lambda a, r, c: c["token_ids"].__setitem__(3, c["token_ids"][3] + 1)): "position 3: the answer's token_ids",
        (lambda a, r, c: c["logprobs"]["content"][4].update(logprob=-0.5)): "position 4: the answer's logprob",
        (lambda a, r, c: a.pop("receipt")): "no receipt",
        (lambda a, r, c: r["sampling"].pop("top_p")): "top_p",
    }
    for how, why in cases.items():
        code, said = replay(tmp_path, change(sampled, how))
        assert code == 1 and why in said, (why, said)
    code, said = replay(tmp_path, change(sampled, other_token), "--json")
    report = json.loads(said[:said.index("\n")])
    assert code == 1 and report["equal"] is False and report["difference"]["choice"] == 0


def test_streams_choices_and_prompts(tmp_path, client, server):
    """The stream as curl keeps it and as the client's chunks; n choices of several prompts; stop strings; echo; greedy."""
    body = {"messages": HI, "max_tokens": 20, "temperature": 0.8, "n": 2, "stream": True}
    for options in ({}, {"stream_options": {"include_usage": True}}):
        with httpx.stream("POST", server.url + "/v1/chat/completions", json=body | options, timeout=60) as response:
            text = "".join(response.iter_text())
        code, said = replay(tmp_path, text)
        assert code == 0 and "equal: 2 choices" in said, said
        at = text.rindex('"content":"') + len('"content":"')
        code, said = replay(tmp_path, text[:at] + "X" + text[at:])
        assert code == 1 and "position " in said, said
    chunks = list(client.chat.completions.create(model=MODEL, messages=HI, max_tokens=5, stream=True))
    assert chunks[-1].model_extra["receipt"]["choices"][0]["tokens"] == len(chunks)
    assert all("receipt" not in (chunk.model_extra or {}) for chunk in chunks[:-1])

    several = {"prompt": ["The capital of France is", "One, two, three,", "é 世界 👩‍👩‍👧‍👦"], "n": 2, "max_tokens": 16, "top_p": 0.9,
               "stop": ["five", "\n"], "logit_bias": {"28": 2.5}, "repetition_penalty": 1.1, "logprobs": 1}
    for more in ({}, {"echo": True}, {"temperature": 0, "min_tokens": 4}, {"max_tokens": 0, "echo": True, "n": 1}):
        answer = server.post("/v1/completions", several | more).json()
        code, said = replay(tmp_path, answer)
        assert code == 0, said
    echoed = server.post("/v1/completions", several | {"echo": True}).json()
    echoed["choices"][0]["text"] = echoed["choices"][0]["text"].replace("France", "Spain")
    code, said = replay(tmp_path, echoed)
    assert code == 1 and "echoed" in said


@pytest.mark.slow
def test_long_prompts_take_the_request(tmp_path, server):
    """Above 4,096 tokens a receipt holds the prompt's digest: the request gives the tokens, and must be the one."""
    body = {"messages": [{"role": "user", "content": "river " * 4200}], "max_tokens": 6, "temperature": 1}
    answer = server.post("/v1/chat/completions", body).json()
    assert "token_ids" not in answer["receipt"]["prompts"][0] and answer["receipt"]["prompts"][0]["tokens"] > 4096
    code, said = replay(tmp_path, answer)
    assert code == 1 and "--request" in said

    def with_request(changes):
        request = tmp_path / "request.json"
        request.write_text(json.dumps(body | changes))
        return replay(tmp_path, answer, "--request", str(request))

    assert with_request({})[0] == 0
    code, said = with_request({"temperature": 0.9})
    assert code == 1 and "temperature" in said
    code, said = with_request({"messages": [{"role": "user", "content": "river " * 4201}]})
    assert code == 1 and "prompt 0" in said


def test_who_wants_none_gets_none(server):
    answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2, "receipt": False}).json()
    assert "receipt" not in answer
    assert server.post("/v1/completions", {"prompt": "a", "receipt": "yes"}).status_code == 400


def test_other_kv_types_and_a_served_length(own_server, tmp_path):
    one = own_server("--kv-cache-dtype", "int8", "--cache-type-v", "int4", "--max-model-len", "512",
                     "--served-model-name", "mine")
    answer = one.post("/v1/chat/completions", {"model": "mine", "messages": HI, "max_tokens": 16}).json()
    assert answer["receipt"]["model"] | {"sha256": "", "chat_template_sha256": ""} == {
        "name": MODEL, "sha256": "", "kv_k": "int8", "kv_v": "int4", "max_model_len": 512, "chat_template_sha256": ""}
    assert replay(tmp_path, answer)[0] == 0
    assert replay(tmp_path, answer, "--model", "no-such-model")[0] == 1


def test_the_first_answer_has_one_too(own_server, tmp_path):
    """A receipt needs the model's digest, which is computed beside serving: who asks at once, waits for it."""
    one = own_server()
    with httpx.stream("POST", one.url + "/v1/completions", json={"prompt": "One", "max_tokens": 3, "stream": True},
                      timeout=60) as response:
        text = "".join(response.iter_text())
    assert text.count('"receipt"') == 1 and replay(tmp_path, text)[0] == 0
