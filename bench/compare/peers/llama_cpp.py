"""llama.cpp through llama-cpp-python's low-level calls: the work of its own llama-bench and llama-batched-bench."""
import ctypes
import sys
import time

from peers.common import DECODE_STEPS, WARM_TOKENS, serve, token_ids

NAME = "llama.cpp"
FLAGS = ("llama-cpp-python built here with GGML_NATIVE=ON (repacked weights); n_threads = n_threads_batch = T, flash attention, "
         "n_batch 2048, n_ubatch 512, mmap, f16 KV of its own for each sequence, swa_full off; no sampling")


class LlamaCpp:
    def __init__(self, group: dict, lib):
        self.lib = lib
        sequences = group.get("batch", (1, 0))[0]
        lib.llama_backend_init()
        model_params = lib.llama_model_default_params()
        model_params.load_mode = lib.LLAMA_LOAD_MODE_MMAP
        self.model = lib.llama_model_load_from_file(group["model"].encode(), model_params)
        if not self.model:
            raise RuntimeError("llama_model_load_from_file failed")
        params = lib.llama_context_default_params()
        params.n_threads = params.n_threads_batch = group["threads"]
        params.n_seq_max, params.n_ctx = sequences, sequences * group["context"]
        params.n_batch, params.n_ubatch = 2048, 512
        params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.swa_full = False
        self.context = lib.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama_init_from_model failed")
        self.memory = lib.llama_get_memory(self.context)
        self.vocab = lib.llama_model_get_vocab(self.model)
        self.vocab_size = lib.llama_vocab_n_tokens(self.vocab)
        self.batch_slots = lib.llama_batch_init(2048, 0, 1)
        if "start" not in group:
            self.feed([(t, i, 0) for i, t in enumerate(token_ids(WARM_TOKENS, self.vocab_size))])
            self.clear()

    def clear(self) -> None:
        self.lib.llama_memory_clear(self.memory, False)

    def feed(self, entries: list[tuple[int, int, int]], every_logits: bool = False) -> None:
        """One llama_decode of (token, position, sequence); logits of the last, or of all."""
        batch = self.batch_slots
        batch.n_tokens = len(entries)
        for i, (token, position, sequence) in enumerate(entries):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, position, 1, sequence
            batch.logits[i] = every_logits or i + 1 == len(entries)
        code = self.lib.llama_decode(self.context, batch)
        if code:
            raise RuntimeError(f"llama_decode returned {code}")

    def fill(self, count: int) -> float:
        """Puts a prompt into sequence 0; seconds."""
        self.clear()
        tokens = token_ids(count, self.vocab_size)
        begin = time.perf_counter()
        for at in range(0, count, 2048):
            self.feed([(t, at + i, 0) for i, t in enumerate(tokens[at:at + 2048])])
        self.lib.llama_synchronize(self.context)
        return time.perf_counter() - begin

    def prefill(self, count: int) -> float:
        return count / self.fill(count)

    def decode(self, context: int) -> float:
        return self.batch(1, context)

    def batch(self, count: int, context: int) -> float:
        self.fill(context)
        for sequence in range(1, count):  # a real copy: each sequence has a KV stream of its own
            self.lib.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)
        tokens = token_ids(DECODE_STEPS + 1, self.vocab_size)
        self.feed([(tokens[0], context, s) for s in range(count)], True)  # carries out the copies
        self.lib.llama_synchronize(self.context)
        begin = time.perf_counter()
        for step in range(1, DECODE_STEPS + 1):
            self.feed([(tokens[step], context + step, s) for s in range(count)], True)
            self.lib.llama_synchronize(self.context)
        return count * DECODE_STEPS / (time.perf_counter() - begin)

    def first_token(self, prompt: str) -> None:
        room = (ctypes.c_int32 * 4096)()
        text = prompt.encode()
        count = self.lib.llama_tokenize(self.vocab, text, len(text), room, len(room), True, True)
        self.feed([(room[i], i, 0) for i in range(count)])
        self.lib.llama_sampler_sample(self.lib.llama_sampler_init_greedy(), self.context, -1)


if __name__ == "__main__":
    from llama_cpp import __version__
    from llama_cpp import llama_cpp as _lib

    @_lib.llama_log_callback
    def _log(level, text, _):
        if level >= 3:  # warnings and errors
            print(text.decode(errors="replace"), end="", file=sys.stderr)

    _lib.llama_log_set(_log, ctypes.c_void_p(0))
    serve(lambda group: LlamaCpp(group, _lib), __version__)
