"""`tracereel tail` warns about a filter that matches hardly anything."""

import pytest

from tracereel.cli import main


@pytest.mark.parametrize(
    ("status", "message"),
    [("bogus", "'bogus'; most that end have one of success, partial_success"), ("failed", None)],
)
def test_unusual_status_filter_prints_a_warning(capsys, status, message):
    # No server there: the warning comes before the connection.
    assert main(["tail", "--status", status, "--endpoint", "http://127.0.0.1:9"]) == 2

    told = capsys.readouterr().err
    assert (message in told) if message else ("most that end" not in told)
