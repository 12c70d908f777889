"""Real Prometheus with this repository's configuration, scraping processes of a test."""

import json
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import yaml

from tests.support.collector import free_port, http
from tests.support.waiting import wait_until

FOLDER = Path(__file__).parent.parent.parent / "dashboards" / "prometheus"


def tool(name):
    """Return the path of a program of Debian's package `prometheus`, if installed."""
    return shutil.which(name)


class Prometheus:
    """Prometheus that scrapes and evaluates rules every second."""

    def __init__(self, folder, targets):
        self._folder = folder
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        settings = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
        settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        settings["rule_files"] = [str(FOLDER / name) for name in settings["rule_files"]]
        for job in settings["scrape_configs"]:
            for way in ("file_sd_configs", "dns_sd_configs"):
                job.pop(way, None)
            job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self._log = (folder / "prometheus.log").open("w")
        self.process = subprocess.Popen(
            [
                *(tool("prometheus"), f"--config.file={config}", "--log.level=warn"),
                *(
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ),
                *("--enable-feature=exemplar-storage", "--query.lookback-delta=30s"),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        wait_until(self._is_ready, message="Prometheus does not answer")

    def _is_ready(self):
        assert self.process.poll() is None, (self._folder / "prometheus.log").read_text()
        try:
            return http("GET", f"{self.url}/-/ready").status == 200
        except OSError:
            return False

    def get(self, path, **parameters):
        """Return the `data` of an API response."""
        found = http("GET", f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters, True)}")
        said = json.loads(found.body)
        assert said["status"] == "success", said
        return said["data"]

    def values(self, expression):
        """Return the current samples of an expression, without NaN."""
        found = self.get("query", query=expression)["result"]
        return [each for each in found if each["value"][1] != "NaN"]

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self._log.close()


_WORDS = {
    *(
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "and",
        "or",
        "unless",
        "bool",
    ),
    *("offset", "inf", "nan"),
}


def metrics_in(expression):
    """Return the metrics that an expression names."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    return {
        found.group()
        for found in re.finditer(r"(?<![\w.:])[a-zA-Z_:][\w:]*", bare)
        if found.group().lower() not in _WORDS and not bare[found.end() :].lstrip().startswith("(")
    }


def labels_in(expression):
    """Return pairs of a metric and a label used in an expression."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    return {
        (metric, label)
        for metric, inside in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", bare)
        for label in re.findall(r"(\w+)\s*[=!]", inside)
    }
