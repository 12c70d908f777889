"""Public names for redaction: rules, and `redact` for a program's texts."""

from tracereel._redact.rules import BUILT_IN, OFF, Redaction, Rule, redact

__all__ = ["BUILT_IN", "OFF", "Redaction", "Rule", "redact"]
