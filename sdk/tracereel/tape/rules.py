"""Redaction rules of a replay: those of this process, never patterns from a tape.

A tape names the rules it was recorded with. Its patterns are untrusted, so the rules with the same
names in this process's configuration are used instead.
"""

from tracereel._core import recorder
from tracereel._redact.event_redaction import Privacy
from tracereel._redact.rules import Redaction, Rule
from tracereel.tape.format import Tape


def _local() -> Redaction:
    """Return the configured redaction, or the built-in rules."""
    # In a replay `active()` returns the replacement recorder.
    configured = recorder._active  # noqa: SLF001
    if configured is None or isinstance(configured, str):
        return Redaction()
    return configured.config.redaction


def local_rules() -> list[Rule]:
    """Return the custom rules configured in this process."""
    return list(_local().rules)


def outgoing() -> Privacy:
    """Return the redaction for data that a replay sends, whatever the tape specifies."""
    return Privacy(_local(), capture_content=True)


def privacy_of(tape: Tape) -> Privacy | None:
    """Return the redaction of the recording, so that redacted arguments match."""
    built_in = bool((tape.header.get("redaction") or {}).get("built_in"))
    names = _names(tape)
    rules = [rule for rule in local_rules() if rule.name in names]
    if not built_in and not rules:
        return None
    return Privacy(Redaction(rules=rules, built_in=built_in), capture_content=True)


def notes(tape: Tape) -> list[str]:
    """Return a note on rules of the recording that are missing in this process."""
    missing = sorted(_names(tape) - {rule.name for rule in local_rules()})
    if not missing:
        return []
    reason = "it was recorded with redaction rules that are not configured here"
    return [f"Note: {reason} ({', '.join(missing)}): call tracereel.configure(redaction=…) first."]


def _names(tape: Tape) -> set[str]:
    given = (tape.header.get("redaction") or {}).get("rules") or ()
    return {rule[0] for rule in given if rule}
