"""docker-compose.yml: pinned images, health checks, closed ports, mounted repository files."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from tests.support import grafana
from tracereel_collector.auth import KeyScope
from tracereel_collector.auth.keyring import read_static_keys

ROOT = grafana.FOLDER.parent
TEXT = (ROOT / "docker-compose.yml").read_text("utf-8")
SERVICES = yaml.safe_load(TEXT)["services"]
DOCKERFILE = (ROOT / "collector" / "Dockerfile").read_text("utf-8")
SECRETS = {
    "TRACEREEL_KEY": "a-key-for-agents-and-people",
    "TRACEREEL_READ_KEY": "a-key-for-grafana-alone",
    "CLICKHOUSE_PASSWORD": "c1",
    "GRAFANA_PASSWORD": "g1",
}


def _compose():
    """Return the available tool: docker's plugin or Debian's docker-compose."""
    if shutil.which("docker"):
        found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if found.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


def of_profile(name):
    return {key for key, service in SERVICES.items() if name in service["profiles"]}


def test_one_profile_has_a_server_and_the_other_does_without():
    shared = {"prometheus", "grafana", "jaeger"}

    assert of_profile("server") == shared | {"collector", "clickhouse"}
    assert of_profile("embedded") == shared | {"collector-embedded"}
    # Both collectors have the same alias.
    for name in ("collector", "collector-embedded"):
        assert SERVICES[name]["networks"]["default"]["aliases"] == ["collector"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_pinned_watched_and_open_to_this_machine_only(name):
    service = SERVICES[name]

    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.]*", service["image"]), service["image"]
    assert service["healthcheck"]["test"]
    assert service["restart"] == "unless-stopped"
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_clickhouse_has_the_version_that_the_tests_run_on():
    """The same release branch: there is no image of the library's own build."""
    tested = re.search(r"@chdb/lib-linux-x64-gnu@(\d+\.\d+)\.", (ROOT / ".ci/tools").read_text())
    image = re.search(r":(\d+\.\d+)\.", SERVICES["clickhouse"]["image"])

    assert image[1] == tested[1]


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - {"clickhouse"}))
def test_a_service_can_write_to_its_volumes_only(name):
    """ClickHouse's image starts as root and needs capabilities to switch users."""
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_no_password_has_a_default():
    """Nothing starts without `make secrets`, and the message names that command."""
    asked = re.findall(r"\$\{(\w+)([^}]*)\}", TEXT)

    assert {name for name, _ in asked} == SECRETS.keys()
    assert {rest for _, rest in asked} == {":?run `make secrets` first"}
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|KEY", key):
                assert "${" in value, key


def test_secrets_are_random_and_readable_by_their_owner_only(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)

    texts = []
    for _ in range(2):
        subprocess.run(["make", "secrets"], cwd=tmp_path, check=True, capture_output=True)
        texts.append((tmp_path / ".env").read_text())

    assert texts[0] == texts[1], "what is there is kept"
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    made = dict(line.split("=") for line in texts[0].splitlines())
    assert made.keys() == SECRETS.keys()
    assert all(re.fullmatch(r"[0-9a-f]{48}", value) for value in made.values())
    assert len(set(made.values())) == len(SECRETS)


def test_secrets_that_are_missing_are_added_and_others_kept(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".env").write_text("TRACEREEL_KEY=mine\nMORE=1\n")

    subprocess.run(["make", "secrets"], cwd=tmp_path, check=True, capture_output=True)

    made = dict(line.split("=") for line in (tmp_path / ".env").read_text().splitlines())
    assert made.keys() == {*SECRETS, "MORE"}
    assert (made["TRACEREEL_KEY"], made["MORE"]) == ("mine", "1")


def test_grafana_may_only_read():
    """A person who may edit a dashboard can send any request with its data sources' key."""
    settings = SERVICES["collector"]["environment"]["TRACEREEL_API_KEYS"]
    for name, value in SECRETS.items():
        settings = settings.replace(f"${{{name}:?run `make secrets` first}}", value)
    scopes = {key: each.scopes for key, each in read_static_keys(settings).items()}
    grafanas = SERVICES["grafana"]["environment"]

    assert scopes[SECRETS["TRACEREEL_READ_KEY"]] == {KeyScope.READ}
    assert [name for name, value in grafanas.items() if "${TRACEREEL" in value] == [
        "TRACEREEL_READ_KEY"
    ]
    assert grafanas["TRACEREEL_READ_KEY"].startswith("${TRACEREEL_READ_KEY:")


def test_every_file_mounted_and_every_volume_named_exists():
    volumes = yaml.safe_load(TEXT)["volumes"]
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).is_dir(), mount
                assert mount.endswith(":ro"), mount
            else:
                assert source in volumes


def test_compose_sets_every_variable_of_the_provisioning():
    text = "".join(file.read_text("utf-8") for file in grafana.FOLDER.glob("provisioning/*/*.yaml"))
    given = SERVICES["grafana"]["environment"]

    assert set(re.findall(r"\$\{(\w+)\}", text)) <= given.keys()
    (path,) = re.findall(r"path: (/var/lib/tracereel\S+)", text)
    assert f"./dashboards/json:{path}:ro" in SERVICES["grafana"]["volumes"]
    home = given["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (grafana.FOLDER / "json" / home.removeprefix(f"{path}/")).is_file()


def test_image_runs_as_an_unprivileged_user():
    stages = re.findall(r"(?m)^FROM (\S+)", DOCKERFILE)

    assert stages == ["python:3.13-slim-bookworm"] * 2
    assert re.findall(r"(?m)^USER (.+)", DOCKERFILE)[-1] == "10001:10001"
    copied = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", DOCKERFILE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
        assert f"!{name}\n" in (ROOT / ".dockerignore").read_text("utf-8")


@pytest.mark.skipif(_compose() is None, reason="neither `docker compose` nor `docker-compose` here")
@pytest.mark.parametrize("profile", ["server", "embedded"])
def test_the_tool_itself_accepts_the_file(profile):
    command = [*_compose(), "--profile", profile, "--profile", "demo", "config"]

    refused = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if k not in SECRETS},
    )
    if not (ROOT / ".env").exists():
        assert refused.returncode != 0
        assert "make secrets" in refused.stderr

    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **SECRETS},
    )
    assert done.returncode == 0, done.stderr
    assert of_profile(profile) <= yaml.safe_load(done.stdout)["services"].keys()
