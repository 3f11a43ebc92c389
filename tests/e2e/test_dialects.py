"""One server, the clients of other dialects: each says what OpenAI's chat says, in streams as in bodies."""
import json

import anthropic
import httpx
import ollama
import pytest

HI = [{"role": "user", "content": "Name three colours."}]
LENGTH = 12
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(scope="module")
def expected(client):
    """The greedy answer as OpenAI's chat gives it."""
    answer = client.chat.completions.create(model="smollm2:135m", messages=HI, temperature=0, max_tokens=LENGTH)
    return answer.choices[0].message.content


@pytest.fixture(scope="module")
def claude(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def llama(server):
    return ollama.Client(host=server.url, timeout=60)


# --- Anthropic ---

def message(claude, **fields):
    return {"model": "smollm2:135m", "max_tokens": LENGTH, "messages": HI, "extra_body": {"temperature": 0}} | fields


def test_anthropic_says_the_same(claude, expected):
    whole = claude.messages.create(**message(claude))
    assert whole.content[0].text == expected and whole.role == "assistant"
    assert whole.stop_reason in ("max_tokens", "end_turn")
    with claude.messages.stream(**message(claude)) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == expected and [b.text for b in final.content] == [b.text for b in whole.content]
    assert final.stop_reason == whole.stop_reason and final.usage.output_tokens == whole.usage.output_tokens
    counted = claude.messages.count_tokens(model="smollm2:135m", messages=HI)
    assert counted.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens


def test_anthropic_stops_at_every_place(claude, expected):
    for stop in {expected[i:i + 3] for i in range(1, len(expected) - 3, 5) if expected[i:i + 3].strip()}:
        whole = claude.messages.create(**message(claude, stop_sequences=[stop]))
        assert whole.stop_reason == "stop_sequence" and whole.stop_sequence == stop
        said = "".join(block.text for block in whole.content)
        assert said == expected[:expected.index(stop)]
        with claude.messages.stream(**message(claude, stop_sequences=[stop])) as stream:
            assert "".join(stream.text_stream) == said


def test_anthropic_prefill_goes_on(claude):
    start = "Red, green and"
    more = claude.messages.create(**message(claude, messages=HI + [{"role": "assistant", "content": start}]))
    assert more.content and not more.content[0].text.startswith("<|")


def test_anthropic_forced_tool(claude):
    tools = [{"name": "get_weather", "description": "Weather of a city", "input_schema": TOOL}]
    forced = message(claude, tools=tools, max_tokens=40, tool_choice={"type": "tool", "name": "get_weather"})
    whole = claude.messages.create(**forced)
    uses = [block for block in whole.content if block.type == "tool_use"]
    assert [use.name for use in uses] == ["get_weather"]


def test_anthropic_errors(claude, server):
    with pytest.raises(anthropic.BadRequestError, match="maximum context length"):
        claude.messages.create(**message(claude, messages=[{"role": "user", "content": "word " * 9000}]))
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.create(**message(claude, model="other"))
    body = server.post("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": 3}]}).json()
    assert body["type"] == "error" and "messages[0].content" in body["error"]["message"]


# --- Ollama ---

GREEDY = {"temperature": 0, "num_predict": LENGTH}


def test_ollama_says_the_same(llama, expected):
    whole = llama.chat(model="smollm2:135m", messages=HI, options=GREEDY)
    assert whole.message.content == expected and whole.done
    assert whole.eval_count == LENGTH or whole.done_reason == "stop"
    assert whole.total_duration >= whole.eval_duration > 0
    parts = list(llama.chat(model="smollm2:135m", messages=HI, options=GREEDY, stream=True))
    assert "".join(part.message.content for part in parts) == expected
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    generated = llama.generate(model="smollm2:135m", prompt=HI[0]["content"], options=GREEDY)
    assert generated.response == expected and generated.prompt_eval_count == whole.prompt_eval_count
    streamed = "".join(p.response for p in llama.generate(model="smollm2:135m", prompt=HI[0]["content"], options=GREEDY,
                                                          stream=True))
    assert streamed == expected


def test_ollama_raw_is_a_completion(llama, client):
    text = "The capital of France is"
    plain = client.completions.create(model="smollm2:135m", prompt=text, temperature=0, max_tokens=8).choices[0].text
    assert llama.generate(model="smollm2:135m", prompt=text, raw=True,
                          options={"temperature": 0, "num_predict": 8}).response == plain


def test_ollama_stops(llama, expected):
    stop = expected[5:8]
    options = GREEDY | {"stop": [stop]}
    whole = llama.chat(model="smollm2:135m", messages=HI, options=options)
    assert whole.message.content == expected[:expected.index(stop)] and whole.done_reason == "stop"
    parts = llama.chat(model="smollm2:135m", messages=HI, options=options, stream=True)
    assert "".join(part.message.content for part in parts) == whole.message.content


def test_ollama_models(llama, server):
    listed = llama.list().models[0]
    assert listed.model == "smollm2:135m" and listed.size > 1e7 and listed.details.family == "llama"
    shown = llama.show("smollm2:135m")
    assert shown.modelinfo["general.architecture"] == "llama" and "completion" in shown.capabilities
    assert llama.ps().models[0].context_length >= 2048
    assert llama.pull("smollm2:135m").status == "success"
    with pytest.raises(ollama.ResponseError):
        llama.delete("smollm2:135m")
    with pytest.raises(ollama.ResponseError) as missing:
        llama.chat(model="other", messages=HI)
    assert missing.value.status_code == 404
    assert httpx.get(server.url + "/").text == "Ollama is running"


def test_ollama_never_cuts(llama):
    with pytest.raises(ollama.ResponseError, match="maximum context length") as refused:
        llama.generate(model="smollm2:135m", prompt="word " * 9000)
    assert refused.value.status_code == 400


# --- OpenAI's tools ---

def test_forced_tool(client):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}]
    ask = dict(model="smollm2:135m", messages=HI, temperature=0, max_tokens=40, tools=tools,
               tool_choice={"type": "function", "function": {"name": "get_weather"}})
    whole = client.chat.completions.create(**ask).choices[0]
    calls = [(c.function.name, c.function.arguments) for c in whole.message.tool_calls or []]
    joined = {}
    content = ""
    for chunk in client.chat.completions.create(stream=True, **ask):
        content += chunk.choices[0].delta.content or ""
        for call in chunk.choices[0].delta.tool_calls or []:
            name, arguments = joined.get(call.index, ("", ""))
            joined[call.index] = (name + (call.function.name or ""), arguments + call.function.arguments)
    assert list(joined.values()) == calls and content == (whole.message.content or "")
    assert [name for name, _ in calls] == ["get_weather"] and calls[0][1].startswith("{")


def test_tool_results_are_read(client):
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": 1})}}
    turns = HI + [{"role": "assistant", "content": None, "tool_calls": [call]},
                  {"role": "tool", "tool_call_id": "call_1", "content": "red"}]
    assert client.chat.completions.create(model="smollm2:135m", messages=turns, max_tokens=4).choices[0].message
