"""The two conservation equations that hold after every fault, from /metrics or a queue."""

NAMES = (
    *("received", "appended", "stored", "duplicate", "relayed", "from_peers"),
    *("quarantined", "retried", "dropped"),
)


def balanced(counts, pending):
    """Check the equations for one kind's counters and return them."""
    assert counts["received"] == counts["rejected"] + counts["appended"], counts
    aside = counts["quarantined"] - counts["retried"]
    gone = counts["stored"] + counts["duplicate"] + counts["relayed"]
    assert counts["appended"] == gone + aside + pending, (counts, pending)
    assert counts["from_peers"] <= counts["received"], counts
    assert counts["dropped"] <= aside, counts
    assert pending >= 0, (counts, pending)
    return counts


def conserved(collector, kind="events", *, pending=0):
    """Check a running collector's counters of a kind, with so many records pending."""
    counts = {
        name: int(collector.metric(f"tracereel_records_{name}_total", kind=kind))
        for name in (*NAMES, "rejected")
    }
    assert int(collector.metric("tracereel_records_pending", kind=kind)) == pending
    return balanced(counts, pending)


def conserved_group(collectors, kind="events"):
    """Check the counters of all members of a group with nothing pending; return their sums."""
    found = [conserved(each, kind) for each in collectors]
    total = {name: sum(counts[name] for counts in found) for name in (*NAMES, "rejected")}
    assert total["relayed"] == total["from_peers"], found
    return {**total, "sent": total["received"] - total["from_peers"]}


def conserved_queue(queue, kind="events", *, pending=0):
    """Check the counters of a queue in this process."""
    counts = {name: value for (name, of), value in queue.counters().items() if of == kind}
    by_reason = sum(value for name, value in counts.items() if name.startswith("rejected:"))
    assert by_reason == counts["rejected"], counts
    return balanced(counts, pending)
