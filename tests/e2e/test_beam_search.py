"""Beam search over HTTP: what it says is what a search says that asks for every text's likeliest tokens one request at a time.

Method: smollm2, width 3; the oracle below sends each live text as a prompt of token ids and reads `top_logprobs` of one token, 2 x width
of them. Logprobs and ids must be equal, not close.
"""
import json

import pytest


def likeliest(server, ids, count):
    body = {"prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": count, "return_tokens_as_token_ids": True, "ignore_eos": True}
    top = server.post("/v1/completions", body).json()["choices"][0]["logprobs"]["top_logprobs"][0]
    pairs = sorted(((-value, int(name.removeprefix("token:"))) for name, value in top.items()))
    return [(token, -minus) for minus, token in pairs[:count]]


def search(server, prompt, width, n, tokens, end):
    live, ended = [([], 0.0)], []
    for _ in range(tokens):
        children = []
        for parent, (text, total) in enumerate(live):
            for token, logprob in likeliest(server, prompt + text, 2 * width):
                if token == end:
                    ended.append((text + [token], total + logprob, len(text)))
                else:
                    children.append((-(total + logprob), token, parent))
        children.sort()
        live = [(live[parent][0] + [token], -minus) for minus, token, parent in children[:width]]
    ended += [(text, total, len(text)) for text, total in live]
    ended.sort(key=lambda one: -one[1] / (len(prompt) + one[2]))
    return ended[:n]


@pytest.mark.parametrize("text", ["The capital of France is", "def fibonacci(n):\n"])
def test_finds_what_a_search_finds(server, text):
    prompt = server.post("/tokenize", {"prompt": text}).json()["tokens"]
    end = 2  # <|im_end|>
    body = {"prompt": prompt, "max_tokens": 8, "use_beam_search": True, "n": 2, "best_of": 3, "logprobs": 1, "return_token_ids": True}
    said = server.post("/v1/completions", body).json()
    want = search(server, prompt, 3, 2, 8, end)
    assert [choice["token_ids"] for choice in said["choices"]] == [ids for ids, _, _ in want]
    for choice, (ids, total, _) in zip(said["choices"], want):
        assert sum(choice["logprobs"]["token_logprobs"]) == total
        assert choice["finish_reason"] == ("stop" if ids[-1] == end else "length")
    assert said["usage"]["completion_tokens"] == sum(len(ids) for ids, _, _ in want)
    events = [line.removeprefix("data: ") for line in server.post("/v1/completions", body | {"stream": True}).text.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    streamed = ["", ""]
    for choice in (json.loads(event)["choices"][0] for event in events):
        streamed[choice["index"]] += choice["text"]
    assert streamed == [choice["text"] for choice in said["choices"]]


def test_chat_and_what_it_refuses(server):
    body = {"messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 6, "use_beam_search": True, "beam_width": 4, "n": 2}
    first = server.post("/v1/chat/completions", body).json()
    again = server.post("/v1/chat/completions", body | {"temperature": 2, "seed": 5}).json()
    texts = [choice["message"]["content"] for choice in first["choices"]]
    assert len(set(texts)) == 2 and texts == [choice["message"]["content"] for choice in again["choices"]]
    for wrong in ({"n": 5}, {"beam_width": 33}, {"stop": "x"}, {"presence_penalty": 1}):
        refused = server.post("/v1/chat/completions", body | wrong)
        assert refused.status_code == 400 and list(wrong)[0].split("_")[0] in refused.json()["error"]["message"], wrong
