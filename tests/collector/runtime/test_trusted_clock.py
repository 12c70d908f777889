"""The trusted clock follows small steps, holds jumps, and survives restarts and reboots."""

import argparse
import json
import threading
from datetime import UTC, date, datetime

import pytest

from tracereel_collector.commands.clock import COMMAND
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.queue.snapshot import newest_unix_nano
from tracereel_collector.runtime.clock import Dating, RedatedPeriod, TrustedClock
from tracereel_collector.runtime.clock.sources import ClockSources
from tracereel_collector.runtime.clock.state import EARLIEST_NANO, MAX_REDATED

SECOND = 10**9
HOUR, DAY = 3600, 86_400
START = int(datetime(2026, 6, 30, 12, tzinfo=UTC).timestamp())


class Machine:
    """Wall clock and boot clock of a machine with a data directory."""

    def __init__(self, folder, *, wall=START):
        self.folder = folder
        self.wall, self.boot, self.boots = wall, 1000, 1
        self.clock = None

    @property
    def sources(self):
        return ClockSources(
            wall_nano=lambda: int(self.wall * SECOND),
            boot_nano=lambda: int(self.boot * SECOND),
            boot_id=lambda: f"boot-{self.boots}",
        )

    def serve(self, **options):
        self.clock = TrustedClock(self.folder, is_owner=True, sources=self.sources, **options)
        return self.clock

    def worker(self):
        return TrustedClock(self.folder, sources=self.sources)

    def run(self, seconds, *, step=60):
        """Let time pass while the collector runs."""
        for _ in range(int(seconds // step)):
            self.wall, self.boot = self.wall + step, self.boot + step
            self.clock.tick()

    def reboot(self, *, off=60, wall=None):
        self.wall = self.wall + off if wall is None else wall
        self.boot, self.boots = 10, self.boots + 1

    @property
    def trusted(self):
        return self.clock.unix_nano() / SECOND


@pytest.fixture
def machine(tmp_path, monkeypatch):
    # Days pass in these tests with one save per minute, so fsync is skipped.
    monkeypatch.setattr("os.fsync", lambda _: None)
    return Machine(tmp_path)


def test_small_steps_are_followed_at_once(machine):
    machine.serve()
    for step in (HOUR, -2 * HOUR, 2 * DAY, -3 * DAY):
        machine.wall += step
        assert machine.trusted == machine.wall
    assert machine.clock.status().state == "following"


def test_steady_time_does_not_step(machine):
    clock = machine.serve()
    before = clock.steady_nano()
    machine.wall += HOUR
    machine.clock.tick()
    assert clock.steady_nano() == before
    machine.run(60)
    assert clock.steady_nano() == before + 60 * SECOND


@pytest.mark.parametrize("jump", [3 * DAY, -3 * DAY, 400 * DAY, -400 * DAY, -START])
def test_clock_jump_is_held_while_time_passes(machine, jump):
    machine.serve()
    machine.wall += jump
    assert machine.trusted == START
    assert not machine.clock.dating().is_settled
    machine.run(HOUR)
    assert machine.trusted == START + HOUR
    status = machine.clock.status()
    assert (status.state, status.jump_seconds) == ("jumped", jump)

    machine.wall -= jump
    assert machine.trusted == START + HOUR
    machine.clock.tick()
    assert machine.clock.dating() == Dating(now_nano=(START + HOUR) * SECOND)


def test_small_steps_do_not_add_up_to_a_jump_within_a_day(machine):
    machine.serve()
    for _ in range(10):
        machine.wall += 1.5 * DAY
        machine.clock.tick()
        assert abs(machine.trusted - START) <= 2 * DAY


@pytest.mark.parametrize("jump", [30 * DAY, -30 * DAY])
def test_jump_is_accepted_after_a_day_of_uptime(machine, jump):
    machine.serve()
    machine.wall += jump
    machine.run(DAY - 60)
    assert machine.clock.status().state == "jumped"
    machine.run(120)
    assert machine.clock.status().state == "following"
    assert machine.trusted == machine.wall
    assert machine.clock.status().corrections == 1


def test_a_day_of_uptime_counts_over_restarts_but_not_while_suspended(machine):
    machine.serve()
    machine.wall += 30 * DAY
    machine.run(DAY / 2)
    machine.clock.close()
    machine.wall, machine.boot = machine.wall + 5 * DAY, machine.boot + 5 * DAY
    machine.serve()
    assert machine.clock.status().state == "jumped"
    machine.run(DAY / 2 + 60)
    assert machine.clock.status().state == "following"


def test_jump_is_accepted_on_a_machine_used_a_few_hours_a_day(machine):
    machine.serve()
    machine.clock.close()
    machine.reboot(off=30 * DAY)
    for _ in range(5):
        machine.serve()
        machine.run(6 * HOUR)
        machine.clock.close()
        machine.reboot(off=18 * HOUR)
    assert machine.serve().status().state == "following"
    assert machine.trusted == machine.wall


def test_a_clock_that_keeps_moving_does_not_count_as_held(machine):
    machine.serve()
    machine.wall += 30 * DAY
    for _ in range(30):
        machine.wall += DAY
        machine.run(HOUR)
    assert machine.clock.status().state == "jumped"
    assert machine.clock.status().corrections == 0


def test_clock_before_the_first_release_is_never_accepted(machine):
    machine.serve()
    machine.wall = 5
    machine.run(DAY + HOUR)
    assert machine.clock.status().state == "jumped"
    with pytest.raises(ValueError, match="set it first"):
        machine.clock.confirm()


def test_clock_is_accepted_after_a_week_stopped_on_a_running_machine(machine):
    machine.serve().close()
    machine.wall, machine.boot = machine.wall + 7 * DAY, machine.boot + 7 * DAY
    machine.serve()
    assert machine.trusted == START + 7 * DAY
    assert machine.clock.status().state == "following"


def test_clock_is_accepted_after_a_day_off_and_ages_include_it(machine):
    before = machine.serve().steady_nano()
    machine.clock.close()
    machine.reboot(off=DAY)
    machine.serve()
    assert machine.trusted == START + DAY
    assert machine.clock.steady_nano() == before + DAY * SECOND


def test_clock_continues_from_the_last_known_time_after_a_week_off(machine):
    machine.serve().close()
    machine.reboot(off=7 * DAY)
    machine.serve()
    assert machine.trusted == START
    assert not machine.clock.dating().is_settled
    machine.run(HOUR)
    assert machine.trusted == START + HOUR

    assert machine.clock.confirm()
    assert machine.trusted == START + 7 * DAY + HOUR
    dating = machine.clock.dating()
    assert dating.is_settled
    # Records of that hour are dated June 30th but have the age of July 7th.
    assert dating.kept_days(date(2026, 7, 7)) == [(date(2026, 6, 30), date(2026, 6, 30))]
    assert dating.kept_days(date(2026, 7, 8)) == []


def test_1970_at_boot_is_corrected_without_a_jump(machine):
    machine.serve()
    machine.run(HOUR)
    machine.clock.close()
    machine.reboot(wall=3)
    machine.serve()
    assert machine.trusted == START + HOUR
    machine.run(60)
    machine.wall = START + HOUR + 120
    assert machine.trusted == machine.wall
    machine.clock.tick()
    assert machine.clock.dating() == Dating(now_nano=machine.wall * SECOND)


def test_a_first_start_in_1970_dates_from_the_release_and_keeps_what_came(tmp_path):
    machine = Machine(tmp_path, wall=3)
    clock = machine.serve()
    assert clock.status().state == "unset"
    assert clock.unix_nano() == EARLIEST_NANO
    machine.run(HOUR)
    assert not clock.dating().is_settled

    machine.wall = START
    clock.tick()
    assert machine.trusted == START
    assert clock.dating().is_settled
    first = date(2026, 1, 1)
    assert clock.dating().kept_days(date(2026, 6, 1))[0][1] == first


def test_workers_follow_the_owner_and_a_confirmation_reaches_all(machine):
    machine.serve()
    worker = machine.worker()
    machine.wall += 100 * DAY
    assert worker.unix_nano() == START * SECOND
    machine.clock.tick()

    operator = machine.worker()
    assert operator.confirm()
    assert not operator.confirm()
    for clock in (machine.clock, worker):
        clock.tick()
        assert clock.unix_nano() == machine.wall * SECOND


def test_an_expired_key_does_not_become_valid_again(machine):
    clock = machine.serve()
    machine.wall += DAY
    expired_at = clock.latest_unix()
    machine.wall -= 2 * DAY
    assert clock.latest_unix() == expired_at
    clock.tick()
    clock.close()
    assert machine.serve().latest_unix() == expired_at


def test_forward_jump_expires_no_key_until_accepted(machine):
    clock = machine.serve()
    machine.wall += 400 * DAY
    assert clock.latest_unix() == START
    clock.confirm()
    assert clock.latest_unix() == machine.wall
    machine.wall -= 400 * DAY
    assert clock.latest_unix() == machine.wall + 400 * DAY
    clock.confirm()
    assert clock.latest_unix() == machine.wall


def test_a_lost_or_damaged_state_is_replaced_by_the_newest_record(machine, tmp_path):
    machine.serve().close()
    for damage in (b"", b"{", b'{"boot_id": 1}'):
        (tmp_path / "clock.json").write_bytes(damage)
        machine.wall = START + 400 * DAY
        clock = machine.serve(last_known_nano=lambda: START * SECOND)
        assert clock.unix_nano() == START * SECOND
        assert clock.status().state == "jumped"


def test_the_newest_record_of_a_queue_is_found(tmp_path):
    path = tmp_path / "queue.sqlite"
    assert newest_unix_nano(path) is None
    limits = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)
    queue = DurableQueue(path, limits)
    assert newest_unix_nano(path) is None
    queue._writer.submit(
        lambda connection: connection.execute("INSERT INTO emitters VALUES ('t', 'e', '', 77)")
    ).result()
    queue.close()
    assert newest_unix_nano(path) == 77
    path.write_bytes(b"no database" * 100)
    assert newest_unix_nano(path) is None


def test_clock_works_with_an_unwritable_disk(machine, monkeypatch):
    machine.serve()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(machine.clock._file, "save", fail)
    machine.run(300)
    machine.wall += 400 * DAY
    machine.run(300)
    assert machine.trusted == START + 600
    assert machine.clock.status().held_seconds > 0


def test_the_state_is_written_at_most_once_a_minute(machine, monkeypatch):
    clock = machine.serve()
    saved = []
    monkeypatch.setattr(clock._file, "save", saved.append)
    machine.run(600, step=1)
    assert len(saved) <= 11


def test_redated_periods_are_bounded(machine):
    machine.serve()
    for _ in range(MAX_REDATED + 5):
        machine.wall += 3 * DAY
        machine.clock.tick()
        machine.clock.confirm()
    assert len(machine.clock.dating().redated) == MAX_REDATED


def test_rows_of_a_redated_period_count_with_their_real_age():
    period = RedatedPeriod(
        start_nano=START * SECOND,
        end_nano=(START + DAY) * SECOND,
        shift_nano=10 * DAY * SECOND,
    )
    assert period.keeps(date(2026, 7, 11)) == (date(2026, 6, 30), date(2026, 7, 1))
    assert period.keeps(date(2026, 7, 12)) is None


def test_readers_and_ticks_agree_while_they_run_at_once(machine):
    clock = machine.serve()
    wrong, done = [], threading.Event()

    def read():
        while not done.is_set():
            if abs(clock.unix_nano() - START * SECOND) > DAY * SECOND:
                wrong.append(clock.unix_nano())

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(12):
        machine.wall = START + (400 * DAY if number % 2 else 0)
        clock.tick()
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def command(capsys, *words):
    parser = argparse.ArgumentParser()
    COMMAND.configure(parser)
    status = COMMAND.run(parser.parse_args([*words]))
    return status, capsys.readouterr()


def test_the_command_shows_and_confirms_on_a_stopped_collector(tmp_path, capsys):
    ahead = ClockSources(wall_nano=lambda: START * SECOND, boot_nano=lambda: 0, boot_id=lambda: "x")
    TrustedClock(tmp_path, is_owner=True, sources=ahead).close()

    status, said = command(capsys, "--json", "--data-dir", str(tmp_path))
    shown = json.loads(said.out)
    assert (status, shown["state"]) == (1, "jumped")
    assert "tracereel clock --confirm" in shown["hint"]

    status, said = command(capsys, "--confirm", "--data-dir", str(tmp_path))
    assert status == 0
    assert "confirmed" in said.out
    assert command(capsys, "--data-dir", str(tmp_path))[0] == 0


def test_the_command_names_a_missing_directory(tmp_path, capsys):
    status, said = command(capsys, "--data-dir", str(tmp_path / "none"))
    assert status == 2
    assert "there is no data directory" in said.err
