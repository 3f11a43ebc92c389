"""The OpenAI client as its users use it: chat, streams, completions, logprobs, choices, errors."""
import json

import openai
import pytest

HI = [{"role": "user", "content": "Name three colours."}]


def chat(client, **fields):
    fields = {"temperature": 0, "max_tokens": 12, "messages": HI, "model": "smollm2:135m"} | fields
    return client.chat.completions.create(**fields)


def complete(client, **fields):
    fields = {"temperature": 0, "max_tokens": 8, "prompt": "The capital of France is", "model": "smollm2:135m"} | fields
    return client.completions.create(**fields)


def test_models(client, server):
    models = client.models.list().data
    assert [m.id for m in models] == ["smollm2:135m"]
    card = server.get("/v1/models").json()["data"][0]
    assert card["root"] == "smollm2:135m" and card["owned_by"] == "pagoda" and card["max_model_len"] >= 2048
    assert client.models.retrieve("smollm2:135m").id == "smollm2:135m"


def test_chat_and_its_stream_agree(client, server):
    server.post("/reset_prefix_cache", None)  # usage says what was cached: both start cold
    whole = chat(client)
    choice = whole.choices[0]
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

    server.post("/reset_prefix_cache", None)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage  # S05
    chunks.pop()
    assert all(c.usage is None for c in chunks)
    assert [c.choices[0].delta.role for c in chunks] == ["assistant"] + [None] * (len(chunks) - 1)  # S07
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + [choice.finish_reason]
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == choice.message.content
    assert len(chunks) == whole.usage.completion_tokens  # one chunk a token


def test_no_usage_unless_asked_for(client):
    for options in (openai.NOT_GIVEN, {"include_usage": False}):
        chunks = list(chat(client, stream=True, max_tokens=3, stream_options=options))
        assert all(c.usage is None and c.choices for c in chunks)


def test_usage_counts_what_was_fed(client, server):  # M03
    message = [{"role": "user", "content": "Grüße, 世界 👩‍👩‍👧‍👦"}]
    ids = server.post("/tokenize", {"messages": message}).json()
    whole = chat(client, messages=message, max_tokens=4)
    several = chat(client, messages=message, max_tokens=4, n=3, temperature=1)
    assert ids["count"] == len(ids["tokens"]) == whole.usage.prompt_tokens == several.usage.prompt_tokens


def test_completion_forms_agree(client, server):
    text = "The capital of France is"
    ids = server.post("/tokenize", {"prompt": text}).json()["tokens"]
    by_text, by_ids = complete(client).choices[0], complete(client, prompt=ids).choices[0]
    assert by_text.text == by_ids.text
    batch = complete(client, prompt=[text, "One, two, three,"])
    assert [c.index for c in batch.choices] == [0, 1]
    assert batch.choices[0].text == by_text.text
    assert batch.choices[1].text == complete(client, prompt="One, two, three,").choices[0].text
    assert complete(client, prompt=[ids, ids[:3]]).choices[0].text == by_text.text
    streamed = "".join(c.choices[0].text for c in complete(client, stream=True))
    assert streamed == by_text.text
    assert server.post("/detokenize", {"tokens": ids}).json()["prompt"] == text


def test_seeds(client):
    def text(**fields):
        return chat(client, temperature=1, max_tokens=16, **fields).choices[0].message.content
    assert text(seed=1) == text(seed=1)
    assert len({text(seed=s) for s in range(4)}) > 1
    unseeded = chat(client, temperature=1, max_tokens=16)
    assert text(seed=unseeded.model_extra["seed"]) == unseeded.choices[0].message.content


def test_choices(client):
    one = chat(client, temperature=1, seed=5)
    three = chat(client, temperature=1, seed=5, n=3)
    assert [c.index for c in three.choices] == [0, 1, 2]
    assert three.choices[0].message.content == one.choices[0].message.content  # choice 0 of n = k equals n = 1
    assert len({c.message.content for c in three.choices}) > 1
    texts, ends = ["", "", ""], [0, 0, 0]
    for chunk in chat(client, temperature=1, seed=5, n=3, stream=True):
        choice = chunk.choices[0]
        texts[choice.index] += choice.delta.content or ""
        ends[choice.index] += choice.finish_reason is not None
    assert texts == [c.message.content for c in three.choices] and ends == [1, 1, 1]


def test_stop(client):
    whole = complete(client, max_tokens=24).choices[0].text
    stop = whole[8:14]
    cut = complete(client, max_tokens=24, stop=[stop])
    assert cut.choices[0].text == whole[:whole.index(stop)] and cut.choices[0].finish_reason == "stop"
    assert cut.choices[0].model_extra["stop_reason"] == stop
    kept = complete(client, max_tokens=24, stop=stop, extra_body={"include_stop_str_in_output": True})
    assert kept.choices[0].text == whole[:whole.index(stop)] + stop
    streamed = "".join(c.choices[0].text for c in complete(client, max_tokens=24, stop=[stop], stream=True))
    assert streamed == cut.choices[0].text


def test_chat_logprobs(client):
    answer = chat(client, logprobs=True, top_logprobs=3, max_tokens=4)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    assert bytes(b for t in content for b in t.bytes).decode() == answer.choices[0].message.content
    for token in content:
        tops = [t.logprob for t in token.top_logprobs]
        assert len(tops) == 3 and tops == sorted(tops, reverse=True)
        assert token.logprob == tops[0]  # greedy: the same float prints the same
    streamed = [t for c in chat(client, logprobs=True, top_logprobs=3, max_tokens=4, stream=True)
                for t in c.choices[0].logprobs.content]
    assert streamed == content


def test_echo_scores_the_prompt(client, server):
    """What lm-eval asks: ids, echo, logprobs 1, one token, greedy; entries compared for exact equality."""
    ids = server.post("/tokenize", {"prompt": "The sky is blue and the grass is green."}).json()["tokens"]
    choice = complete(client, prompt=[ids], echo=True, logprobs=1, max_tokens=1, seed=1234).choices[0]
    scores = choice.logprobs
    assert len(scores.tokens) == len(scores.token_logprobs) == len(scores.top_logprobs) == len(ids) + 1
    assert scores.token_logprobs[0] is None and scores.top_logprobs[0] is None
    assert all(lp <= 0 for lp in scores.token_logprobs[1:])
    assert scores.token_logprobs[-1] == max(scores.top_logprobs[-1].values())
    assert choice.text.startswith("The sky is blue")
    # The prompt's scores are those of decoding it: teacher forcing and generation are one arithmetic.
    greedy = complete(client, prompt=ids[:4], max_tokens=3, logprobs=1).choices[0].logprobs
    spoken = server.post("/v1/completions", {"prompt": ids[:4], "max_tokens": 3, "temperature": 0,
                                             "return_token_ids": True}).json()["choices"][0]["token_ids"]
    echoed = complete(client, prompt=ids[:4] + spoken, echo=True, logprobs=1, max_tokens=0).choices[0].logprobs
    assert echoed.token_logprobs[4:] == greedy.token_logprobs
    scored = server.post("/v1/completions", {"prompt": ids, "prompt_logprobs": 2, "max_tokens": 1}).json()
    prompt_logprobs = scored["choices"][0]["prompt_logprobs"]
    assert prompt_logprobs[0] is None and len(prompt_logprobs) == len(ids)
    assert [one[str(i)]["logprob"] for one, i in zip(prompt_logprobs[1:], ids[1:])] == scores.token_logprobs[1:-1]


def test_extras(client, server):
    forced = complete(client, max_tokens=6, extra_body={"ignore_eos": True, "min_tokens": 6})
    assert forced.usage.completion_tokens == 6 and forced.choices[0].finish_reason == "length"
    biased = complete(client, max_tokens=3, logit_bias={"33": 100})
    assert len(set(biased.choices[0].text)) == 1
    assert complete(client, extra_body={"top_k": 1, "min_p": 0.1, "repetition_penalty": 1.0}, temperature=1).choices[0].text == \
        complete(client).choices[0].text  # P03


def test_special_tokens_in_user_text_stay_text(server):
    plain = server.post("/tokenize", {"messages": [{"role": "user", "content": "x"}]}).json()["count"]
    hostile = server.post("/tokenize", {"messages": [{"role": "user", "content": "<|im_end|>"}]}).json()
    assert hostile["count"] > plain + 2  # many ordinary tokens, not one control token
    raw = server.post("/tokenize", {"prompt": "<|im_end|>"}).json()
    assert raw["count"] == 1
    assert server.post("/tokenize", {"prompt": "<|im_end|>", "parse_special": False}).json()["count"] > 1


@pytest.mark.parametrize("fields, param", [
    ({"temperature": 9}, "temperature"), ({"top_p": 2}, "top_p"), ({"n": 0}, "n"), ({"n": 10**6}, "n"),
    ({"max_tokens": 2**31}, "max_tokens"), ({"max_tokens": -5}, "max_tokens"), ({"logit_bias": {"191222": -100}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"), ({"logit_bias": {"x": 1}}, "logit_bias"), ({"stop": ["x"] * 10**5}, "stop"),
    ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"), ({"top_logprobs": 10**6, "logprobs": True}, "top_logprobs"),
    ({"messages": []}, "messages"), ({"response_format": {"type": "yaml"}}, "response_format.type"),
])
def test_bad_fields_are_named(client, fields, param):  # A01, A03, P09
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, **fields)
    error = refused.value.body
    assert error["param"].split("[")[0].startswith(param) and error["type"] == "invalid_request_error"
    assert "/root/" not in json.dumps(error) and "/home/" not in json.dumps(error)


def test_other_errors(client, server):
    with pytest.raises(openai.NotFoundError) as refused:
        chat(client, model="gpt-5")
    assert refused.value.body["code"] == "model_not_found"
    longest = server.get("/v1/models").json()["data"][0]["max_model_len"]
    with pytest.raises(openai.BadRequestError) as refused:  # D03
        complete(client, prompt="marker " + "word " * (longest + 10))
    error = refused.value.body
    counted = server.post("/tokenize", {"prompt": "marker " + "word " * (longest + 10)}).json()["count"]
    assert error["code"] == "context_length_exceeded" and str(counted) in error["message"] and str(longest) in error["message"]
    assert chat(client).choices[0].message.content  # still answers
