"""`tracereel tail`: a filter that hardly anything fits is not waited for in silence."""

import pytest

from tracereel.cli import main


@pytest.mark.parametrize(
    ("status", "said"),
    [("bogus", "'bogus'; most that end have one of success, partial_success"), ("failed", None)],
)
def test_an_unusual_status_is_doubted(capsys, status, said):
    # Nobody listens there: what is said of the words comes before.
    assert main(["tail", "--status", status, "--endpoint", "http://127.0.0.1:9"]) == 2

    told = capsys.readouterr().err
    assert (said in told) if said else ("most that end" not in told)
