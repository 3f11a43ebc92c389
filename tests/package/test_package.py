"""The Debian package: lintian has nothing to say, and it installs, starts, stops and purges. Needs root; installs for real."""
import os
import pathlib
import pwd
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
MODEL_FILE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pagoda/models"


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def package():
    run("cmake", "--build", BUILD, "--target", "package_documents")
    for old in BUILD.glob("pagoda_*.deb"):
        old.unlink()
    run("cpack", "-G", "DEB", cwd=BUILD)
    (deb,) = BUILD.glob("pagoda_*.deb")
    return deb


@pytest.fixture(scope="module")
def installed(package):
    assert os.geteuid() == 0, "installing a package needs root"
    run("dpkg", "--install", package)
    yield package
    subprocess.run(["dpkg", "--purge", "pagoda"], capture_output=True)


def test_lintian_has_nothing_to_say(package):
    # Not an upload to Debian: no bug number of one.
    said = run("lintian", "--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs", package)
    assert not re.findall(r"^[EW]: .*$", said, re.M)


def test_manual_pages_and_completions_are_there(installed):
    listing = run("dpkg", "--listfiles", "pagoda").splitlines()
    for path in ["/usr/bin/pagoda", "/usr/share/man/man1/pagoda.1.gz", "/usr/share/man/man1/pagoda-serve.1.gz",
                 "/usr/share/bash-completion/completions/pagoda", "/usr/share/zsh/vendor-completions/_pagoda",
                 "/usr/lib/systemd/system/pagoda.service", "/etc/default/pagoda",
                 "/usr/share/doc/pagoda/examples/grafana/pagoda.json"]:
        assert path in listing
    page = run("man", "--warnings", "--local-file", "/usr/share/man/man1/pagoda-serve.1.gz", env={**os.environ, "MANWIDTH": "200"})
    assert "--max-num-seqs" in page
    assert run("dpkg-query", "--show", "--showformat", "${Conffiles}", "pagoda").split()[0] == "/etc/default/pagoda"


def unit_lines(key):
    text = pathlib.Path("/usr/lib/systemd/system/pagoda.service").read_text()
    return re.findall(rf"^{key}=(.*)$", text, re.M)


class Manager:
    """What systemd does for a Type=notify unit with a watchdog, as far as the service can tell."""

    def __init__(self, folder, environment, watchdog_s):
        self.said = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        os.chmod(folder / "notify", 0o777)
        os.chmod(folder, 0o755)
        (command,) = unit_lines("ExecStart")
        environment = {**environment, "NOTIFY_SOCKET": str(folder / "notify"),
                       "WATCHDOG_USEC": str(int(watchdog_s * 1e6))}
        command = re.sub(r"\$\{(\w+)\}", lambda m: environment[m.group(1)], command)
        self.process = subprocess.Popen(shlex.split(command), env=environment, user="pagoda", group="pagoda",
                                        extra_groups=[], cwd="/", stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            self.said += self.socket.recv(4096).decode().splitlines()

    def wait(self, line, times=1, timeout=30):
        deadline = time.monotonic() + timeout
        while self.said.count(line) < times:
            assert self.process.poll() is None or line == "STOPPING=1", self.process.stderr.read()
            assert time.monotonic() < deadline, self.said
            time.sleep(0.01)


@pytest.fixture
def service(installed):
    environment = {"PATH": "/usr/bin:/bin"}
    for line in pathlib.Path("/etc/default/pagoda").read_text().splitlines():
        if line and not line.startswith("#"):
            key, value = line.split("=", 1)
            environment[key] = value
    environment |= dict(item.split("=", 1) for item in unit_lines("Environment"))
    models = pathlib.Path(environment["XDG_CACHE_HOME"]) / "pagoda/models"
    models.mkdir(exist_ok=True)
    for file in MODEL_FILE.glob("SmolLM2-135M*"):
        if not (models / file.name).exists():
            (models / file.name).write_bytes(file.read_bytes())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        environment["PAGODA_PORT"] = str(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to other users
        manager = Manager(pathlib.Path(folder), environment, watchdog_s=1)
        manager.port = environment["PAGODA_PORT"]
        yield manager
        if manager.process.poll() is None:
            manager.process.kill()
            manager.process.wait()


def test_the_service_starts_says_so_feeds_the_watchdog_and_stops(service):
    service.wait("READY=1")
    body = b'{"prompt": "The sky is", "max_tokens": 4}'
    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/v1/completions", body, timeout=30) as answer:
        assert answer.status == 200
    service.wait("WATCHDOG=1", times=4)
    service.process.send_signal(signal.SIGTERM)
    service.wait("STOPPING=1")
    assert service.process.wait(30) == 0


def test_purge_leaves_nothing(installed):
    run("dpkg", "--remove", "pagoda")
    assert pathlib.Path("/etc/default/pagoda").exists()  # configuration stays until purged
    run("dpkg", "--purge", "pagoda")
    for path in ["/usr/bin/pagoda", "/etc/default/pagoda", "/var/cache/pagoda", "/var/lib/pagoda",
                 "/usr/share/doc/pagoda"]:
        assert not pathlib.Path(path).exists(), path
    with pytest.raises(KeyError):
        pwd.getpwnam("pagoda")
