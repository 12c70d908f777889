"""Output and error messages of `tracereel keys`."""

import json
import re

import pytest

from tracereel.cli import main


@pytest.fixture
def run(tmp_path, capsys):
    def call(*arguments):
        status = main(["keys", *arguments, "--data-dir", str(tmp_path)])
        return status, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("revoke", "0" * 12), 1, "no key"),
        (("create", "--scope", "everything"), 2, "expected some of admin, read, write"),
        (("create", "--tenant", "a b"), 2, "tenant is 'a b'"),
        (("create", "--expires", "yesterday"), 2, "expected a duration"),
        (("create", "--name", "a\x1b[31m"), 2, "printable"),
    ],
)
def test_keys_command_errors(run, arguments, status, message):
    code, output, errors = run(*arguments)

    assert (code, output) == (status, "")
    assert message in errors


@pytest.mark.parametrize("arguments", [("list",), ("revoke", "0" * 12)])
def test_keys_of_a_directory_that_is_not_there_are_not_an_empty_list(tmp_path, capsys, arguments):
    missing = tmp_path / "misspelt"

    assert main(["keys", *arguments, "--data-dir", str(missing)]) == 2

    output, errors = capsys.readouterr()
    assert output == ""
    assert f"there is no data directory {missing}" in errors
    assert not missing.exists()


def test_a_key_alone_is_on_standard_output(run):
    code, output, errors = run("create", "--tenant", "acme", "--scope", "write")

    assert code == 0
    assert re.fullmatch(r"trk_[0-9a-f]{12}_[\w-]{43}\n", output)
    assert "not shown again" in errors
    assert output.strip() not in errors


def test_a_key_is_listed_with_everything_but_itself(run):
    _, output, _ = run("create", "--name", "for ci", "--expires", "2d", "--json")
    made = json.loads(output)
    run("create", "--tenant", "acme")
    run("revoke", made["id"])

    _, table, _ = run("list")
    _, listed, _ = run("list", "--json", "--tenant", "default")

    assert len(table.splitlines()) == 3
    assert made["key"] not in table + listed
    (kept,) = json.loads(listed)
    assert (kept["id"], kept["state"], kept["name"]) == (made["id"], "revoked", "for ci")
    assert kept["expires"] > kept["created"]
    assert run("list", "--json", "--tenant", "nobody")[1] == "[]\n"
