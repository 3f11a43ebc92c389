"""The arithmetic and the table of bench/compare, by hand-made rounds."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/compare"))
import report  # noqa: E402
from peers.common import cell_names  # noqa: E402

ROUNDS = [{"Pagoda": {"decode_128": 20, "decode_128_percent": 80}, "a": {"decode_128": 10}},
          {"Pagoda": {"decode_128": 40, "decode_128_percent": 84}, "a": {"decode_128": 10}},
          {"Pagoda": {"decode_128": 30, "decode_128_percent": 82}, "a": {"decode_128": 30}},
          {"Pagoda": {"decode_128": 90}, "a": {}}]


def test_a_ratio_pairs_the_two_engines_of_one_round():
    assert report.ratio(ROUNDS, "a", "decode_128") == 2  # of 2, 4, 1; the round without a partner does not count
    assert report.ratio(ROUNDS, "a", "prefill_512") is None


def test_medians_and_percent():
    row = report.summarise(ROUNDS, ["a", "b"], ["decode_128"])["decode_128"]
    assert row == {"Pagoda": 35, "a": 10, "b": None, "percent": 82, "ratio": {"a": 2, "b": None}}


def test_a_missing_cell_says_why_below_the_table_and_once():
    summary = report.summarise(ROUNDS, ["a", "b"], ["decode_128", "prefill_512", "start_s"])
    text = report.table(summary, ["a", "b"], {"a": {"prefill_512": "timed\nout"}, "b": {"*": "cannot load it"}})
    assert text.splitlines() == [
        "| work | Pagoda | of limit | a | ratio | b | ratio |", "|---|---|---|---|---|---|---|",
        "| decode at 128, tok/s | 35 | 82 % | 10 | 2.00 | no [1] | |",
        "| prefill 512, tok/s | – |  | no [2] | | no [1] | |",
        "| start to first token, s (lower is better) | – |  | – | | no [1] | |",
        "", "[1] b: cannot load it  ", "[2] a: timed out  "]


def test_numbers_keep_three_digits_or_all_before_the_point():
    assert [report.number(v) for v in (1234.56, 99.94, 24.25, 0.6184, None)] == ["1235", "99.9", "24.2", "0.618", "–"]


def test_a_group_names_its_cells():
    group = {"prefill": 512, "decode": 128, "batch": [4, 128], "memory": 2048, "context": 600}
    assert cell_names(group) == ["prefill_512", "decode_128", "batch_4_at_128", "memory_mib_at_2048"]
    assert [report.cell_label(c) for c in cell_names(group)] == [
        "prefill 512, tok/s", "decode at 128, tok/s", "4 sequences decode at 128, tok/s", "peak memory at 2048, MiB (lower is better)"]
