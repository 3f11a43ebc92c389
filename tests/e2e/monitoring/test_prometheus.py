"""A real Prometheus scrapes a real server under load: every rule evaluates, every panel of the dashboard shows numbers."""
import json
import math
import shutil
import socket
import subprocess
import time

import httpx
import pytest

from conftest import ROOT, Server

CONTRIB = ROOT / "contrib"
# What a healthy server without these features has nothing to say about.
SILENT_PANELS = {"Other tiers"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    """Debian's prometheus on the shipped configuration, scraping one server every half second."""

    def __init__(self, folder, target):
        shutil.copy(CONTRIB / "prometheus/pagoda.rules.yml", folder)
        config = (CONTRIB / "prometheus/prometheus.yml").read_text()
        for shipped, here in [("scrape_interval: 5s", "scrape_interval: 500ms\n  scrape_timeout: 500ms"),
                              ("evaluation_interval: 15s", "evaluation_interval: 1s"), ("127.0.0.1:8000", target)]:
            assert shipped in config
            config = config.replace(shipped, here)
        (folder / "prometheus.yml").write_text(config)
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self.url.removeprefix('http://')}"], stderr=(folder / "log").open("w"))

    def get(self, path, **params):
        return httpx.get(self.url + path, params=params, timeout=10).json()["data"]

    def query(self, expression):
        return self.get("/api/v1/query", query=expression)["result"]

    def wait_for(self, expression, timeout=30):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            try:
                if result := self.query(expression):
                    return result
            except httpx.HTTPError:
                assert self.process.poll() is None, "prometheus ended"
            time.sleep(0.2)
        raise AssertionError(f"nothing for {expression}")


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    server = Server()
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{server.port}")
    try:
        prometheus.wait_for("vllm:num_requests_running")
        prompt = "Once upon a time, in a land far away, there lived a very small dragon. "
        for _ in range(6):  # spread over some scrapes, so that rates have something to say
            assert server.post("/v1/completions", {"prompt": prompt * 4, "max_tokens": 24, "n": 2}).status_code == 200
            time.sleep(0.4)
        assert server.post("/v1/completions", {"prompt": prompt, "max_tokens": -1}).status_code == 400
        prometheus.wait_for("increase(vllm:generation_tokens_total[1m]) > 100")
        prometheus.wait_for("pagoda:kv_cache_used:ratio_rate5m > 0")
        yield prometheus
    finally:
        prometheus.process.terminate()
        prometheus.process.wait()
        server.stop()


def panels():
    dashboard = json.loads((CONTRIB / "grafana/pagoda.json").read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def test_the_rules_hold_their_own_tests():
    for command in (["check", "rules", "pagoda.rules.yml"], ["check", "config", "prometheus.yml"],
                    ["test", "rules", "pagoda.rules.test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=CONTRIB / "prometheus", capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_metrics_page_is_what_promtool_asks_for(watched):
    target = watched.get("/api/v1/targets")["activeTargets"][0]
    page = httpx.get(target["scrapeUrl"]).text
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
    # Colons and iteration_tokens_total are vLLM's names; promtool would have chosen others.
    unexpected = [line for line in done.stderr.splitlines()
                  if "should not contain ':'" not in line and "vllm:iteration_tokens_total" not in line]
    assert not unexpected


def test_every_rule_evaluates_and_none_fires_on_a_healthy_server(watched):
    rules = [rule for group in watched.get("/api/v1/rules")["groups"] for rule in group["rules"]]
    shipped = (CONTRIB / "prometheus/pagoda.rules.yml").read_text()
    assert len(rules) == shipped.count("- alert:") + shipped.count("- record:")
    assert {rule["health"] for rule in rules} == {"ok"}, [(r["name"], r.get("lastError")) for r in rules]
    assert not [rule["name"] for rule in rules if rule.get("alerts")]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_every_panel_shows_numbers(watched, panel):
    for target in panel["targets"]:
        expression = (target["expr"].replace("$__rate_interval", "1m").replace("$model", ".*")
                      .replace("$instance", ".*"))
        assert "$" not in expression
        values = [float(series["value"][1]) for series in watched.query(expression)]
        if panel["title"] in SILENT_PANELS:
            continue  # the query was accepted
        assert values and all(math.isfinite(value) for value in values), (expression, values)
