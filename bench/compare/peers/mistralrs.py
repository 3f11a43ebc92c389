"""mistral.rs through the Runner of its Python wheel, speeds by the `usage` it returns."""
import importlib.metadata
import json
import os
import pathlib
import sys
import time

from peers.common import DECODE_STEPS, WARM_TOKENS, serve

NAME = "mistral.rs"
FLAGS = ("PyPI wheel; RAYON_NUM_THREADS = CANDLE_NUM_THREADS = T, max_seqs = the batch, no prefix cache; prefill and decode by the times "
         "in its `usage`, batches as concurrent streams: tokens / (time for 25 new tokens - time for 1)")


class MistralRs:
    def __init__(self, group: dict, package):
        path = pathlib.Path(group["model"])
        self.package, self.calls, self.answers = package, 0, {}
        self.runner = package.Runner(which=package.Which.GGUF(quantized_model_id=str(path.parent), quantized_filename=path.name),
                                     max_seqs=group.get("batch", (1,))[0], prefix_cache_n=0, token_source="none")
        if "start" not in group:
            self.ask(self.prompt(WARM_TOKENS), 2)

    def prompt(self, tokens: int) -> str:
        """A text of so many tokens, another one each time."""
        self.calls += 1
        text = f"Call number {self.calls}:"
        count = len(self.runner.tokenize_text(text, add_special_tokens=True, enable_thinking=None))
        text += " the" * (tokens - count)
        count = len(self.runner.tokenize_text(text, add_special_tokens=True, enable_thinking=None))
        if count != tokens:
            raise RuntimeError(f"a prompt of {tokens} tokens came out as {count}")
        return text

    def ask(self, prompt: str, new: int):
        usage = self.runner.send_completion_request(self.package.CompletionRequest(
            prompt=prompt, model="default", max_tokens=new, temperature=0.0, ignore_eos=True)).usage
        if usage.completion_tokens != new:
            raise RuntimeError(f"{new} tokens asked, {usage.completion_tokens} given")
        return usage

    def answer(self, context: int):
        """`usage` of one answer; asked once for prefill and decode of the same prompt."""
        if context not in self.answers:
            self.answers[context] = self.ask(self.prompt(context), DECODE_STEPS + 1)
        return self.answers[context]

    def prefill(self, count: int) -> float:
        return count / self.answer(count).total_prompt_time_sec

    def decode(self, context: int) -> float:
        return DECODE_STEPS / self.answer(context).total_completion_time_sec

    def batch(self, count: int, context: int) -> float:
        """Streams that run together: its Runner cannot be called from several threads ("Already borrowed")."""
        def seconds(new: int) -> float:
            requests = [self.package.ChatCompletionRequest(messages=self.prompt(context), model="default", max_tokens=new, temperature=0.0,
                                                           ignore_eos=True, stream=True) for _ in range(count)]
            begin = time.perf_counter()
            streams = [self.runner.send_chat_completion_request(request) for request in requests]
            chunks = sum(1 for stream in streams for _ in stream)
            if chunks < count * new:
                raise RuntimeError(f"{count * new} tokens asked, {chunks} chunks given")
            return time.perf_counter() - begin
        return count * DECODE_STEPS / (seconds(DECODE_STEPS + 1) - seconds(1))

    def first_token(self, prompt: str) -> None:
        self.ask(prompt, 1)


if __name__ == "__main__":
    os.environ["RAYON_NUM_THREADS"] = os.environ["CANDLE_NUM_THREADS"] = str(json.loads(sys.argv[1])["threads"])
    import mistralrs as _package
    serve(lambda group: MistralRs(group, _package), importlib.metadata.version("mistralrs"))
