"""The engine's memory limit follows cgroup v1 and v2 limits and the setting."""

import pytest

from tracereel_collector.config import Settings
from tracereel_collector.engine.memory import usable_memory
from tracereel_collector.engine.process import location
from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.errors import StartupError

MIB = 1024 * 1024
GIB = 1024 * MIB
NO_LIMIT_V1 = 9223372036854771712


class Machine:
    """Fake `/proc/self` and `/sys/fs/cgroup` in a directory."""

    def __init__(self, folder):
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.cgroup = folder / "cgroup fs"
        self.cgroup.mkdir()

    def describe(self, *, mounts, groups):
        escaped = str(self.cgroup).replace(" ", "\\040")
        lines = [
            f"{number} 23 0:28 {root} {escaped}{point} rw,relatime shared:1 - {kind} x {options}"
            for number, (root, point, kind, options) in enumerate(mounts, 30)
        ]
        (self.proc / "mountinfo").write_text("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
        with (self.proc / "mountinfo").open("a") as file:
            file.write("\n".join(lines) + "\n")
        (self.proc / "cgroup").write_text("\n".join(groups) + "\n")

    def limit(self, path, value):
        file = self.cgroup / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")

    @property
    def usable(self):
        return usable_memory(proc=self.proc, machine_bytes=64 * GIB)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def v2(machine):
    machine.describe(mounts=[("/", "", "cgroup2", "rw")], groups=["0::/slice/unit"])
    machine.limit("slice/unit/memory.max", "max")
    machine.limit("slice/unit/memory.high", "max")
    machine.limit("slice/memory.max", "max")
    return machine


def test_without_limits_all_of_the_machine_is_usable(v2):
    assert v2.usable == 64 * GIB


@pytest.mark.parametrize("file", ["memory.max", "memory.high"])
@pytest.mark.parametrize("group", ["slice/unit", "slice"])
def test_limit_of_version_2_is_read_in_the_group_and_its_parents(v2, group, file):
    v2.limit(f"{group}/{file}", 2 * GIB)

    assert v2.usable == 2 * GIB


def test_least_of_several_limits_counts(v2):
    v2.limit("slice/memory.max", 3 * GIB)
    v2.limit("slice/unit/memory.max", 2 * GIB)
    v2.limit("slice/unit/memory.high", 1 * GIB)

    assert v2.usable == 1 * GIB


def test_container_with_a_namespace_of_its_own_reads_the_root_of_the_mount(machine):
    machine.describe(mounts=[("/", "", "cgroup2", "rw")], groups=["0::/"])
    machine.limit("memory.max", 512 * MIB)

    assert machine.usable == 512 * MIB


def test_limit_of_version_1_is_read_in_the_group_and_its_parents(machine):
    machine.describe(
        mounts=[("/", "/cpu", "cgroup", "rw,cpu"), ("/", "/memory", "cgroup", "rw,memory")],
        groups=["5:cpu:/docker", "4:memory:/docker/abc", "0::/"],
    )
    machine.limit("memory/docker/abc/memory.limit_in_bytes", NO_LIMIT_V1)
    machine.limit("memory/docker/memory.limit_in_bytes", 1 * GIB)
    machine.limit("cpu/docker/memory.limit_in_bytes", 5)

    assert machine.usable == 1 * GIB


def test_container_of_version_1_sees_its_group_as_the_root_of_the_mount(machine):
    machine.describe(
        mounts=[("/docker/abc", "/memory", "cgroup", "rw,memory")],
        groups=["4:memory:/docker/abc"],
    )
    machine.limit("memory/memory.limit_in_bytes", 768 * MIB)

    assert machine.usable == 768 * MIB


def test_version_1_without_limits_is_no_limit(machine):
    machine.describe(
        mounts=[("/", "/memory", "cgroup", "rw,memory"), ("/", "/unified", "cgroup2", "rw")],
        groups=["4:memory:/", "0::/"],
    )
    machine.limit("memory/memory.limit_in_bytes", NO_LIMIT_V1)

    assert machine.usable == 64 * GIB


@pytest.mark.parametrize("text", ["", "garbage", "-1", "\xff"])
def test_files_that_cannot_be_read_are_no_limit(v2, text):
    v2.limit("slice/unit/memory.max", text)

    assert v2.usable == 64 * GIB


def test_system_without_cgroups_has_the_memory_of_the_machine(tmp_path):
    assert usable_memory(proc=tmp_path / "absent", machine_bytes=GIB) == GIB


@pytest.mark.parametrize(("limit", "expected"), [(GIB // 2, 256), (GIB, 512), (4 * GIB, 2048)])
def test_engine_memory_follows_the_cgroup_limit(v2, tmp_path, monkeypatch, limit, expected):
    v2.limit("slice/unit/memory.max", limit)
    monkeypatch.setattr("tracereel_collector.engine.settings.usable_memory", lambda: v2.usable)

    assert f"max_server_memory_usage={expected * MIB}" in location(
        EngineSettings(store_dir=tmp_path)
    )


def test_engine_takes_the_memory_it_is_given(tmp_path):
    settings = EngineSettings(store_dir=tmp_path, max_server_memory=512 * MIB)

    assert f"max_server_memory_usage={512 * MIB}" in location(settings)
    assert f"mark_cache_size={128 * MIB}" in location(settings)


def test_too_little_memory_for_the_engine_is_refused():
    with pytest.raises(StartupError, match="engine_memory_bytes=1000: expected 0, or at least"):
        Settings.load({}, {"TRACEREEL_ENGINE_MEMORY_BYTES": "1000"})
