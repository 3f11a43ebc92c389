"""Structured answers: what a grammar wants is what comes, whatever the model would rather say; refusals name their place."""
import json
import re
import threading
import time

import httpx
import jsonschema
import openai
import pytest

PERSON = {"type": "object",
          "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                         "colour": {"enum": ["red", "green", 3, None]}},
          "required": ["name", "age", "colour"], "additionalProperties": False}
MESSAGES = [{"role": "user", "content": "Tell me about John, who is 30."}]


def chat(client, **more):
    return client.chat.completions.create(model="smollm2:135m", messages=MESSAGES, max_tokens=160, **more).choices[0]


@pytest.mark.parametrize("seed", range(6))
def test_json_schema_is_kept(client, seed):
    choice = chat(client, temperature=1.0, seed=seed,
                  response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}})
    assert choice.finish_reason == "stop"
    jsonschema.validate(json.loads(choice.message.content), PERSON)


def test_json_object(client):
    choice = chat(client, temperature=0, response_format={"type": "json_object"})
    assert choice.message.content.startswith("{")
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


def test_same_bytes_streamed_and_beside_others(client):
    body = dict(temperature=0.8, seed=3, response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}})
    alone = chat(client, **body).message.content
    stream = client.chat.completions.create(model="smollm2:135m", messages=MESSAGES, max_tokens=160, stream=True, **body)
    assert "".join(c.choices[0].delta.content or "" for c in stream if c.choices) == alone
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(chat(client, **body).message.content)) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert answers == [alone] * 4


@pytest.mark.parametrize("field, value, pattern", [
    ("structured_outputs", {"choice": [" London", " Paris"]}, r" London| Paris"),
    ("structured_outputs", {"regex": " [0-9]{3}-[0-9]{4}"}, r" [0-9]{3}-[0-9]{4}"),
    ("structured_outputs", {"json": {"const": [1, "a"]}, "disable_any_whitespace": True}, r'\[1(\.0*)?,"a"\]'),
    ("guided_regex", "(yes|no)!", r"(yes|no)!"),
    ("guided_choice", ["a", "b"], r"a|b"),
    ("grammar", 'root ::= " = " [0-9]{2} "."', r" = [0-9]{2}\."),
    ("json_schema", {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}, r"\[[^\]]*\]"),
    ("ebnf", 'root ::= "x" | "y"', r"x|y"),
])
def test_every_dialect(client, field, value, pattern):
    answer = client.completions.create(model="smollm2:135m", prompt="The answer is", max_tokens=60, extra_body={field: value})
    assert answer.choices[0].finish_reason == "stop"
    assert re.fullmatch(pattern, answer.choices[0].text, re.S)


@pytest.mark.parametrize("body, param", [
    ({"grammar": 'root ::= root "a"'}, "line 1, column 1"),
    ({"grammar": "root ::= undefined-rule"}, "line 1, column 10"),
    ({"guided_json": {"type": "strin"}}, "/type"),
    ({"json_schema": {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}}, "/$defs/A"),
    ({"guided_regex": "((a{1,200}){1,200}){1,200}"}, "offset 0"),
    ({"guided_json": False}, "/"),
    ({"guided_regex": "a", "grammar": 'root ::= "x"'}, "grammar"),
    ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
    ({"guided_regex": "a", "ignore_eos": True}, "ignore_eos"),
    ({"guided_regex": "a", "use_beam_search": True, "beam_width": 2}, "use_beam_search"),
])
def test_refusals_name_the_place(client, body, param):
    began = time.monotonic()
    with pytest.raises(openai.BadRequestError) as refusal:
        client.completions.create(model="smollm2:135m", prompt="x", extra_body=body)
    assert refusal.value.param == param
    assert time.monotonic() - began < 5
    assert client.completions.create(model="smollm2:135m", prompt="x", max_tokens=1).choices


def test_choices_differ_and_carry_no_receipt(server):
    body = {"prompt": "The number", "guided_regex": " [0-9]{12}", "n": 3, "seed": 1, "temperature": 1.5, "max_tokens": 40}
    answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).json()
    texts = [choice["text"] for choice in answer["choices"]]
    assert all(re.fullmatch(" [0-9]{12}", text) for text in texts) and len(set(texts)) > 1
    assert "receipt" not in answer
    del body["guided_regex"]
    assert "receipt" in httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).json()


def test_ollama_and_anthropic(server):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"],
              "additionalProperties": False}
    for path, body in (("chat", {"messages": MESSAGES}), ("generate", {"prompt": "Tell me a number."})):
        post = lambda **more: httpx.post(f"{server.url}/api/{path}", json={"model": "smollm2:135m", "stream": False, **body, **more},
                                         timeout=60)
        answer = post(format=schema).json()
        jsonschema.validate(json.loads(answer["message"]["content"] if path == "chat" else answer["response"]), schema)
        answer = post(format="json", options={"num_predict": 20}).json()
        assert (answer["message"]["content"] if path == "chat" else answer["response"]).startswith("{")
        assert post(format="yaml").status_code == 400
        assert post(format={"type": "strin"}).status_code == 400
    answer = httpx.post(f"{server.url}/v1/messages", timeout=60,
                        json={"model": "smollm2:135m", "max_tokens": 20, "messages": MESSAGES, "guided_regex": "yes|no"}).json()
    assert answer["content"][0]["text"] in ("yes", "no")


def test_beside_tools(client):
    """A constrained answer calls no tool, whatever its text looks like; a forced call and a grammar are a contradiction."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    choice = chat(client, tools=[tool], extra_body={"guided_choice": [call]})
    assert choice.message.content == call and not choice.message.tool_calls
    with pytest.raises(openai.BadRequestError) as refusal:
        chat(client, tools=[tool], tool_choice="required", extra_body={"guided_choice": ["a"]})
    assert refusal.value.param == "tool_choice"


def test_a_slow_compilation_delays_nobody(server, client):
    """Method: an adversarial schema compiles for as long as it may while another request streams."""
    anys = [{"pattern": f"({'ab' * i}|{'ba' * i}){{1,40}}.{{3,9}}c{i}"} for i in range(1, 9)]
    body = {"prompt": "x", "guided_json": {"type": "string", "minLength": 200, "maxLength": 900,
                                            "allOf": [{"not": {"not": a}} for a in anys]}}
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(httpx.post(f"{server.url}/v1/completions", json=body, timeout=60)))
    thread.start()
    began = time.monotonic()
    client.completions.create(model="smollm2:135m", prompt="y", max_tokens=8, temperature=0)
    quick = time.monotonic() - began
    thread.join()
    assert outcome[0].status_code in (200, 400)
    assert quick < 3
