"""`tracereel tail` warns about a filter that matches hardly anything."""

import pytest

from tracereel.cli import main


@pytest.mark.parametrize(
    ("status", "said"),
    [("bogus", "'bogus'; most that end have one of success, partial_success"), ("failed", None)],
)
def test_unusual_status_filter_prints_a_warning(capsys, status, said):
    # No server there: the warning comes before the connection.
    assert main(["tail", "--status", status, "--endpoint", "http://127.0.0.1:9"]) == 2

    told = capsys.readouterr().err
    assert (said in told) if said else ("most that end" not in told)
