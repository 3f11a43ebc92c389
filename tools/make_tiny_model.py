#!/usr/bin/env python3
"""Writes a small GGUF model with random weights: shapes that no real model here covers, to compare with llama.cpp.

The weights are drawn so that activations stay of order one and logits differ: N(0, 1/fan-in) matrices, norm gains near
one. Types that PyPI `gguf` cannot quantize to are written as random blocks whose scales give the same spread.
The same arguments give the same bytes.

    tools/make_tiny_model.py out.gguf --arch llama --vocab-from ../shared/cases/vocab/ggml-vocab-llama-spm.gguf
    tools/make_tiny_model.py out.gguf --arch gemma3 --layers 7 --window 32 --type Q4_K --vocab-from ...
    tools/make_tiny_model.py out.gguf --arch llama --llama3-factors --kv-heads 1 --type Q5_1 --vocab-from ...
    tools/make_tiny_model.py out.gguf --arch gemma2 --layers 5 --window 32 --softcaps 2 5 --tied --vocab-from ...
    tools/make_tiny_model.py out.gguf --arch qwen2 --yarn 4 --original-context 64 --vocab-from ...
    tools/make_tiny_model.py out.gguf --arch phi3 --longrope --original-context 64 --rope-dims 48 --vocab-from ...

Needs: gguf, numpy. llama.cpp ignores --window for llama and phi3; --bias is for llama (qwen2 always has one).
"""
import argparse
import math

import gguf
import numpy as np

Type = gguf.GGMLQuantizationType
# f16 fields of a block: (offset, mean ratio to the main scale). The minimum's ratio centres the values on zero.
RAW_SCALES = {
    "Q2_K": [(80, 1.0), (82, 1.5)], "Q3_K": [(108, 1.0)], "Q4_K": [(0, 1.0), (2, 7.5)], "Q5_K": [(0, 1.0), (2, 15.5)],
    "Q6_K": [(208, 1.0)], "IQ4_NL": [(0, 1.0)], "IQ4_XS": [(0, 1.0)],
    "IQ2_XXS": [(0, 1.0)], "IQ2_XS": [(0, 1.0)], "IQ2_S": [(0, 1.0)], "IQ3_XXS": [(0, 1.0)], "IQ3_S": [(0, 1.0)],
    "IQ1_S": [(0, 1.0)], "IQ1_M": [], "TQ1_0": [(52, 1.0)], "TQ2_0": [(64, 1.0)],
}


def raw_blocks(rng: np.random.Generator, name: str, rows: int, cols: int, spread: float) -> np.ndarray:
    """Random blocks [rows, bytes] of type `name` whose values have the standard deviation `spread`."""
    kind = Type[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    assert cols % elements == 0, f"{name} needs rows of a multiple of {elements} elements, not {cols}"
    blocks = rng.integers(0, 256, size=(rows * cols // elements, size), dtype=np.uint8)

    def set_scales(scale: float) -> None:
        jitter = rng.uniform(0.5, 1.5, size=len(blocks))
        for offset, ratio in RAW_SCALES[name]:
            values = (scale * ratio * jitter).astype(np.float16)
            blocks[:, offset:offset + 2] = values.view(np.uint8).reshape(-1, 2)
        if name == "IQ1_M":  # its f16 is spread over the upper nibbles of four words
            words = blocks[:, 48:56].copy().view(np.uint16) & 0x0FFF
            bits = (scale * jitter).astype(np.float16).view(np.uint16).reshape(-1, 1)
            words |= bits >> np.array([0, 4, 8, 12], dtype=np.uint16) << np.uint16(12)
            blocks[:, 48:56] = words.view(np.uint8)

    set_scales(1.0 / 64)
    measured = gguf.quants.dequantize(blocks.reshape(-1), kind).std()
    set_scales(spread / measured / 64)
    return blocks.reshape(rows, -1)


class TinyModel:
    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.rng = np.random.default_rng(args.seed)
        self.writer = gguf.GGUFWriter(args.out, args.arch)
        self.head_dim = args.head_dim or args.width // args.heads

    def add_matrix(self, name: str, rows: int, cols: int, spread: float | None = None, kind: str | None = None) -> None:
        kind = kind or self.args.type
        spread = spread or 1 / math.sqrt(cols)
        if kind in RAW_SCALES:
            self.writer.add_tensor(name, raw_blocks(self.rng, kind, rows, cols, spread), raw_dtype=Type[kind])
            return
        values = (self.rng.standard_normal((rows, cols)) * spread).astype(np.float32)
        if kind == "F32":
            self.writer.add_tensor(name, values)
        else:
            self.writer.add_tensor(name, gguf.quants.quantize(values, Type[kind]), raw_dtype=Type[kind])

    def add_vector(self, name: str, size: int, mean: float, spread: float) -> None:
        self.writer.add_tensor(name, (mean + spread * self.rng.standard_normal(size)).astype(np.float32))

    def add_vocabulary(self) -> int:
        """Copies the tokenizer of --vocab-from, cut to --vocab tokens; returns the number of tokens."""
        fields = gguf.GGUFReader(self.args.vocab_from).fields

        def get(key: str, default=None):
            field = fields.get(f"tokenizer.ggml.{key}")
            return field.contents() if field else default

        tokens, types = get("tokens"), get("token_type")
        scores, merges = get("scores"), get("merges")
        count = min(self.args.vocab or len(tokens), len(tokens))
        keep = list(range(count))
        specials = {key: get(f"{key}_token_id") for key in ("bos", "eos", "unknown", "padding")}
        for number in {i for i in specials.values() if i is not None and i >= count}:
            keep[-1 - sum(i >= count for i in keep)] = number  # a special token takes the place of an ordinary one
        renumbered = {old: new for new, old in enumerate(keep)}
        kept = [tokens[i] for i in keep]
        self.writer.add_tokenizer_model(get("model"))
        self.writer.add_tokenizer_pre(get("pre", "default"))
        self.writer.add_token_list(kept)
        if scores:
            self.writer.add_token_scores([scores[i] for i in keep])
        if types:
            self.writer.add_token_types([types[i] for i in keep])
        if merges:
            have = set(kept)
            self.writer.add_token_merges([m for m in merges if set(m.split(" ")) <= have and m.replace(" ", "") in have])
        for key, add in (("bos", self.writer.add_bos_token_id), ("eos", self.writer.add_eos_token_id),
                         ("unknown", self.writer.add_unk_token_id), ("padding", self.writer.add_pad_token_id)):
            if specials[key] is not None:
                add(renumbered[specials[key]])
        for key, add in (("add_bos_token", self.writer.add_add_bos_token), ("add_eos_token", self.writer.add_add_eos_token),
                         ("add_space_prefix", self.writer.add_add_space_prefix)):
            if get(key) is not None:
                add(get(key))
        return count

    def add_config(self, vocab: int) -> None:
        a, w = self.args, self.writer
        w.add_name("tiny")  # no family's name: llama.cpp looks for special tokens of models that are called phi3
        w.add_block_count(a.layers)
        w.add_context_length(a.context)
        w.add_embedding_length(a.width)
        w.add_feed_forward_length(a.ffn)
        w.add_head_count(a.heads)
        w.add_head_count_kv(a.kv_heads)
        w.add_layer_norm_rms_eps(1e-5)
        w.add_rope_freq_base(a.rope_base)
        w.add_vocab_size(vocab)
        if a.arch in ("llama", "granite", "phi3"):
            w.add_rope_dimension_count(a.rope_dims or self.head_dim)
        if a.arch in ("qwen3", "gemma", "gemma2", "gemma3") or a.head_dim:
            w.add_key_length(self.head_dim)
            w.add_value_length(self.head_dim)
        if a.window:
            w.add_sliding_window(a.window)
        if a.arch == "granite":
            embedding, residual, attention, logits = a.scales
            w.add_embedding_scale(embedding)
            w.add_residual_scale(residual)
            w.add_attention_scale(attention)
            w.add_logit_scale(logits)
        if a.softcaps:
            w.add_attn_logit_softcapping(a.softcaps[0])
            w.add_final_logit_softcapping(a.softcaps[1])
        self.add_rope_scaling()

    def add_rope_scaling(self) -> None:
        a, w = self.args, self.writer
        if a.rope_linear:
            w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            w.add_rope_scaling_factor(a.rope_linear)
        if a.yarn:
            w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            w.add_rope_scaling_factor(a.yarn)
        if a.longrope and a.arch != "phi3":  # phi3 files have no type: their tensors say it
            w.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        if a.original_context:
            w.add_rope_scaling_orig_ctx_len(a.original_context)
        if a.attn_factor:
            w.add_rope_scaling_attn_factors(a.attn_factor)
        if a.yarn_betas:
            w.add_float32(f"{a.arch}.rope.scaling.yarn_beta_fast", a.yarn_betas[0])
            w.add_float32(f"{a.arch}.rope.scaling.yarn_beta_slow", a.yarn_betas[1])
        if a.yarn_ext is not None:
            w.add_float32(f"{a.arch}.rope.scaling.yarn_ext_factor", a.yarn_ext)

    def add_longrope_factors(self) -> None:
        """Divisors as LongRoPE finds them, growing with the wavelength: up to 2 for short contexts, up to 40 for long."""
        pairs = (self.args.rope_dims or self.head_dim) // 2
        for name, most in (("long", 40.0), ("short", 2.0)):
            grown = most**(np.arange(pairs) / pairs) * self.rng.uniform(1, 1.2, size=pairs)
            self.writer.add_tensor(f"rope_factors_{name}.weight", grown.astype(np.float32))

    def add_llama3_factors(self, factor=8.0, low=1.0, high=4.0, old_context=64) -> None:
        """Llama-3's frequency factors, for a context so short that a small test sees them."""
        factors = []
        for i in range(0, self.head_dim, 2):
            wavelength = 2 * math.pi * self.args.rope_base**(i / self.head_dim)
            smooth = (old_context / wavelength - low) / (high - low)
            smooth = min(1.0, max(0.0, smooth))
            factors.append(1 / ((1 - smooth) / factor + smooth))
        self.writer.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))

    def add_layer(self, i: int) -> None:
        a, blk = self.args, f"blk.{i}."
        q, kv = a.heads * self.head_dim, a.kv_heads * self.head_dim
        self.add_vector(blk + "attn_norm.weight", a.width, 1, 0.1)
        split = [("attn_q", q), ("attn_k", kv), ("attn_v", kv)]
        for name, rows in [("attn_qkv", q + 2 * kv)] if a.arch == "phi3" else split:
            self.add_matrix(f"{blk}{name}.weight", rows, a.width)
            if a.arch == "qwen2" or a.bias:
                self.add_vector(f"{blk}{name}.bias", rows, 0, 0.5)
        self.add_matrix(blk + "attn_output.weight", a.width, q)
        if a.arch in ("qwen3", "gemma3"):
            self.add_vector(blk + "attn_q_norm.weight", self.head_dim, 1, 0.1)
            self.add_vector(blk + "attn_k_norm.weight", self.head_dim, 1, 0.1)
        if a.arch in ("gemma2", "gemma3"):
            self.add_vector(blk + "post_attention_norm.weight", a.width, 1, 0.1)
            self.add_vector(blk + "post_ffw_norm.weight", a.width, 1, 0.1)
        self.add_vector(blk + "ffn_norm.weight", a.width, 1, 0.1)
        if a.arch != "phi3":
            self.add_matrix(blk + "ffn_gate.weight", a.ffn, a.width)
        self.add_matrix(blk + "ffn_up.weight", a.ffn * (2 if a.arch == "phi3" else 1), a.width)
        self.add_matrix(blk + "ffn_down.weight", a.width, a.ffn)

    def write(self) -> None:
        a = self.args
        vocab = self.add_vocabulary()
        self.add_config(vocab)
        # A tied embedding is the head too, and gemma multiplies embeddings by sqrt(width): both want them small.
        small = a.tied or a.arch in ("gemma", "gemma2", "gemma3")
        self.add_matrix("token_embd.weight", vocab, a.width, 1 / math.sqrt(a.width) if small else 1.0, a.embed_type)
        for i in range(a.layers):
            self.add_layer(i)
        self.add_vector("output_norm.weight", a.width, 1, 0.1)
        if not a.tied:
            self.add_matrix("output.weight", vocab, a.width, 3 / math.sqrt(a.width), a.embed_type)
        if a.llama3_factors:
            self.add_llama3_factors()
        if a.longrope:
            self.add_longrope_factors()
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--arch", choices=["llama", "granite", "phi3", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"], default="llama")
    parser.add_argument("--vocab-from", required=True, help="a GGUF file whose tokenizer is copied")
    parser.add_argument("--vocab", type=int, default=512, help="tokens kept, 0 = all (default 512)")
    parser.add_argument("--type", default="F16", help="of the layers' matrices: F32, F16, BF16, Q4_0, ... (default F16)")
    parser.add_argument("--embed-type", help="of token_embd and output (default: as --type)")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--ffn", type=int, default=512)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--head-dim", type=int, help="default width / heads")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--rope-base", type=float, default=10000.0)
    parser.add_argument("--rope-linear", type=float, help="linear scaling by this factor")
    parser.add_argument("--llama3-factors", action="store_true")
    parser.add_argument("--yarn", type=float, help="YaRN scaling by this factor; wants --original-context")
    parser.add_argument("--yarn-betas", type=float, nargs=2, help="turns in the original context: fast, slow")
    parser.add_argument("--yarn-ext", type=float, help="extrapolation factor")
    parser.add_argument("--longrope", action="store_true", help="long and short factors; wants --original-context")
    parser.add_argument("--original-context", type=int, help="tokens the unscaled model was trained for")
    parser.add_argument("--attn-factor", type=float, help="of cos and sin")
    parser.add_argument("--rope-dims", type=int, help="values of a head that rotate (phi3; default all)")
    parser.add_argument("--softcaps", type=float, nargs=2, help="of attention scores and of logits (gemma2)")
    parser.add_argument("--scales", type=float, nargs=4, default=[0.5, 0.7, 0.2, 0.8],
                        help="granite's: embedding, residual, attention, divisor of logits")
    parser.add_argument("--window", type=int, help="sliding window in tokens")
    parser.add_argument("--bias", action="store_true", help="attention bias")
    parser.add_argument("--tied", action="store_true", help="no output.weight")
    parser.add_argument("--seed", type=int, default=1)
    TinyModel(parser.parse_args()).write()


if __name__ == "__main__":
    main()
