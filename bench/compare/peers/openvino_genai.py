"""OpenVINO GenAI: LLMPipeline on the .gguf file itself, speeds by its own perf_metrics."""
from peers.common import DECODE_STEPS, WARM_TOKENS, serve, token_ids

NAME = "OpenVINO GenAI"
FLAGS = ("PyPI wheel; INFERENCE_NUM_THREADS = T, PERFORMANCE_HINT LATENCY, ATTENTION_BACKEND PA (faster here than SDPA), KV cache and "
         "inference precision as it chooses, no prefix cache; prefill = prompt / TTFT, decode = 1 / TPOT of its perf_metrics")


class OpenVino:
    def __init__(self, group: dict, genai, tensor):
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = 4096  # whole prompts in one step
        self.genai, self.tensor, self.answers = genai, tensor, {}
        self.pipe = genai.LLMPipeline(group["model"], "CPU", INFERENCE_NUM_THREADS=group["threads"], PERFORMANCE_HINT="LATENCY",
                                      ATTENTION_BACKEND="PA", scheduler_config=scheduler)
        self.vocab_size = 32000  # any ids below the smallest vocabulary here will do
        if "start" not in group:
            self.answer(WARM_TOKENS, 2)

    def config(self, new: int):
        config = self.genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample, config.apply_chat_template = new, True, False, False
        return config

    def answer(self, prompt: int, new: int = DECODE_STEPS + 1):
        """perf_metrics of one answer to a prompt of so many tokens; asked once for prefill and decode of the same prompt."""
        if prompt not in self.answers:
            ids = self.tensor([token_ids(prompt, self.vocab_size, prompt)])
            self.answers[prompt] = self.pipe.generate(ids, self.config(new)).perf_metrics
        return self.answers[prompt]

    def prefill(self, count: int) -> float:
        return 1000 * count / self.answer(count).get_ttft().mean

    def decode(self, context: int) -> float:
        return 1000 / self.answer(context).get_tpot().mean

    def batch(self, count: int, context: int) -> float:
        prompts = [self.text(f"Number {i}:", context) for i in range(count)]
        metrics = self.pipe.generate(prompts, self.config(DECODE_STEPS + 1)).perf_metrics
        return 1000 / metrics.get_tpot().mean  # a step's time over the tokens it gave

    def text(self, begin: str, tokens: int) -> str:
        """A text of so many tokens (token ids themselves are taken for one prompt only)."""
        def count(text: str) -> int:
            return self.pipe.get_tokenizer().encode(text).input_ids.shape[1]
        text = begin + " the" * (tokens - count(begin))
        if count(text) != tokens:
            raise RuntimeError(f"a prompt of {tokens} tokens came out as {count(text)}")
        return text

    def first_token(self, prompt: str) -> None:
        self.pipe.generate(prompt, self.config(1))


if __name__ == "__main__":
    import numpy
    import openvino
    import openvino_genai as _genai
    serve(lambda group: OpenVino(group, _genai, lambda rows: openvino.Tensor(numpy.array(rows, dtype=numpy.int64))),
          _genai.__version__)
