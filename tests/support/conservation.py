"""The two equations that every fault must leave true, read from /metrics or from a queue."""

NAMES = (
    *("received", "appended", "stored", "duplicate"),
    *("quarantined", "retried", "dropped"),
)


def balanced(counts, pending):
    """Hold the equations against one kind's counters, and give them back."""
    assert counts["received"] == counts["rejected"] + counts["appended"], counts
    aside = counts["quarantined"] - counts["retried"]
    assert counts["appended"] == counts["stored"] + counts["duplicate"] + aside + pending, (
        counts,
        pending,
    )
    assert counts["dropped"] <= aside, counts
    assert pending >= 0, (counts, pending)
    return counts


def conserved(collector, kind="events", *, pending=0):
    """A running collector's counters of a kind; they balance, and so much is still under way."""
    counts = {
        name: int(collector.metric(f"tracereel_records_{name}_total", kind=kind))
        for name in (*NAMES, "rejected")
    }
    assert int(collector.metric("tracereel_records_pending", kind=kind)) == pending
    return balanced(counts, pending)


def conserved_queue(queue, kind="events", *, pending=0):
    """The same of a queue in this process."""
    counts = {name: value for (name, of), value in queue.counters().items() if of == kind}
    by_reason = sum(value for name, value in counts.items() if name.startswith("rejected:"))
    assert by_reason == counts["rejected"], counts
    return balanced(counts, pending)
