"""mistral.rs through the Runner of its Python wheel, speeds by the `usage` it returns."""
import concurrent.futures
import os
import pathlib
import time

from peers.common import DECODE_STEPS, WARM_TOKENS, serve

NAME = "mistral.rs"
FLAGS = ("PyPI wheel; RAYON_NUM_THREADS = T, max_seqs = the batch, no prefix cache; prefill and decode by the times in its `usage`, batches "
         "as concurrent requests: tokens / (time for 25 new tokens - time for 1)")


class MistralRs:
    def __init__(self, group: dict, package):
        path = pathlib.Path(group["model"])
        self.package, self.calls = package, 0
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

    def prefill(self, count: int) -> float:
        usage = self.ask(self.prompt(count), 1)
        return usage.prompt_tokens / usage.total_prompt_time_sec

    def decode(self, context: int) -> float:
        usage = self.ask(self.prompt(context), DECODE_STEPS + 1)
        return DECODE_STEPS / usage.total_completion_time_sec

    def batch(self, count: int, context: int) -> float:
        def seconds(new: int) -> float:
            prompts = [self.prompt(context) for _ in range(count)]
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                begin = time.perf_counter()
                list(pool.map(lambda prompt: self.ask(prompt, new), prompts))
                return time.perf_counter() - begin
        return count * DECODE_STEPS / -(seconds(1) - seconds(DECODE_STEPS + 1))

    def first_token(self, prompt: str) -> None:
        self.ask(prompt, 1)


if __name__ == "__main__":
    import json
    import sys
    os.environ["RAYON_NUM_THREADS"] = str(json.loads(sys.argv[1])["threads"])
    import importlib.metadata
    import mistralrs as _package
    serve(lambda group: MistralRs(group, _package), importlib.metadata.version("mistralrs"))
