"""pagoda run, from outside: one answer to a pipe, a conversation on a terminal, exit codes.

Goal: standard output carries only the answer, the same flags give the same bytes, every key and command does what /help
says, and no signal ever ends the process. Method: the release binary with smollm2:135m, on pipes and on a pseudo-terminal.
"""
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

BIN = os.environ.get("PAGODA_BIN", os.path.join(os.path.dirname(__file__), "../../build/release/pagoda"))
MODEL = "smollm2:135m"
WAIT_S = 120  # generous: CI machines are shared


def run(*flags, stdin=None, model=MODEL):
    return subprocess.run([BIN, "run", model, *flags], input=stdin, capture_output=True, timeout=WAIT_S,
                          stdin=subprocess.DEVNULL if stdin is None else None)


def test_one_answer_is_all_that_standard_output_carries():
    flags = ["--max-tokens", "12", "--temperature", "0"]
    first = run("Say hi", *flags)
    assert first.returncode == 0
    assert first.stdout.endswith(b"\n") and first.stdout.count(b"\r") == 0 and len(first.stdout) > 1
    assert run("Say hi", *flags).stdout == first.stdout
    assert run(*flags, stdin=b"Say hi\n").stdout == first.stdout
    assert run("Say hi", *flags, "--threads", "1", "--max-num-batched-tokens", "5").stdout == first.stdout


def test_a_seed_decides_the_draw():
    flags = ["Tell me something", "--max-tokens", "12"]
    drawn = {seed: run(*flags, "--seed", seed).stdout for seed in ("1", "2")}
    assert drawn["1"] != drawn["2"]
    assert run(*flags, "--seed", "1").stdout == drawn["1"]


def test_a_base_model_continues_raw_text():
    answer = run("The sky is", "--max-tokens", "5", "--temperature", "0", model="gemma3:270m")
    assert answer.returncode == 0 and len(answer.stdout) > 1
    refused = run("x", "--system", "y", model="gemma3:270m")
    assert refused.returncode == 1 and b"chat template" in refused.stderr and refused.stdout == b""


@pytest.mark.parametrize("flags, code, said", [
    (["x", "--top-p", "7"], 2, b"--top-p"),
    (["x", "--temperature", "-1"], 2, b"--temperature"),
    (["x", "--max-tokens", "0"], 2, b"--max-tokens"),
    (["x", "--stop", ""], 2, b"--stop"),
    (["x", "--no-such-flag"], 2, b"--no-such-flag"),
    (["x", "--max-model-len", "20"], 1, b"max_model_len is 20"),
    (["x", "--chat-template", "/no/such/file"], 1, b"file"),
    ([], 1, b"standard input is empty"),
])
def test_refusals_name_the_reason(flags, code, said):
    refused = run(*flags)
    assert refused.returncode == code
    assert said in refused.stderr and refused.stdout == b""
    assert b"/root" not in refused.stderr and b"/home" not in refused.stderr


def test_an_own_template_and_a_stop_string(tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    raw = run("1, 2, 3,", "--chat-template", str(template), "--temperature", "0", "--max-tokens", "20")
    assert raw.returncode == 0 and b"4, 5" in raw.stdout
    cut = run("1, 2, 3,", "--chat-template", str(template), "--temperature", "0", "--max-tokens", "20", "--stop", "5")
    assert cut.stdout.strip() == raw.stdout.split(b"5")[0].strip()


def endless_answer(tmp_path):
    """The likeliest text after "1, 2, 3," counts on to the context's end: nothing here may depend on a lucky draw."""
    template = tmp_path / "raw.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    return subprocess.Popen([BIN, "run", MODEL, "1, 2, 3,", "--chat-template", str(template), "--temperature", "0"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_130_at_any_time(sent, tmp_path):
    for when in ("loading", "answering"):
        child = endless_answer(tmp_path)
        if when == "answering":
            assert child.stdout.read(1)
        else:
            time.sleep(0.1)
        child.send_signal(sent)
        assert child.wait(WAIT_S) == 130


def test_a_closed_reader_is_an_error_not_a_signal(tmp_path):
    child = endless_answer(tmp_path)
    child.stdout.read(1)
    child.stdout.close()
    assert child.wait(WAIT_S) == 1
    assert b"closed" in child.stderr.read()


class Terminal:
    """The verb on a pseudo-terminal."""

    def __init__(self, *flags, model=MODEL):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(BIN, [BIN, "run", model, *flags])
        self.seen = ""

    def expect(self, pattern):
        """Reads until `pattern` has come; returns everything up to its end, once."""
        deadline = time.monotonic() + WAIT_S
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    pytest.fail(f"ended without {pattern!r}: {self.seen!r}")
        text, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return text

    def type(self, text):
        os.write(self.fd, text.encode())

    def ask(self, text):
        """Types a line and returns what came before the next prompt."""
        self.type(text + "\r")
        self.expect(r"\r\n")
        return self.expect(r"\r>>> ")

    def code(self):
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                select.select([self.fd], [], [], 0.1)
                os.read(self.fd, 65536)
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_conversation_on_a_terminal():
    terminal = Terminal("--temperature", "0", "--max-tokens", "12")
    terminal.expect(r"/help for help\.")
    terminal.expect(r">>> ")
    first = terminal.ask("My name is Tom.")
    again = terminal.ask("My name is Tom.")
    assert again != first, "the second question must see the first"
    terminal.ask("/clear")
    assert terminal.ask("My name is Tom.") == first
    assert "unknown command /nonsense" in terminal.ask("/nonsense")
    terminal.ask("/system You are a pirate.")
    assert terminal.ask("My name is Tom.") != first
    terminal.type("/bye\r")
    assert terminal.code() == 0


def test_line_editing_and_history():
    terminal = Terminal()
    terminal.expect(r">>> ")
    terminal.type("/hxp")
    terminal.type("\x1b[D\x1b[D\x1b[3~el\x1b[C\r")  # left twice, delete the x, insert, right, enter
    terminal.expect(r"this list")
    terminal.expect(r">>> ")
    terminal.type("/clear é\x7f\x7f\r")  # a two-byte character is one Backspace
    terminal.expect(r"\n.*>>> ")
    terminal.type("\x1b[A\x1b[A\r")      # two lines back: /help
    terminal.expect(r"this list")
    terminal.expect(r">>> ")
    terminal.type("/nonsense\x15/bye\r")  # Ctrl-U takes the line away
    assert terminal.code() == 0


def test_ctrl_c_stops_the_answer_and_leaves_at_the_prompt():
    terminal = Terminal("--temperature", "0", "--stop", "no such text")
    terminal.expect(r">>> ")
    terminal.type("Write a very long story about a dragon and a knight.\r")
    terminal.expect(r"\r\n.*\w+ \w+ ")
    terminal.type("\x03")
    terminal.expect(r"\[stopped\]")
    terminal.expect(r">>> ")
    terminal.type("\x03")
    assert terminal.code() == 130


def test_ctrl_d_leaves():
    terminal = Terminal()
    terminal.expect(r">>> ")
    terminal.type("\x04")
    assert terminal.code() == 0
