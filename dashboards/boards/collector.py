"""The collector: from received to stored, how late, how full, what was refused."""

from dashboards.panels import Board, bars, lines, prom, rising, stat

RATE = "[$__rate_interval]"
TROUBLE = {
    "engine restarts": "tracereel_engine_restarts_total",
    "inserts repeated": "tracereel_insert_retries_total",
    "batches refused, nobody knows why": "tracereel_unknown_refusals_total",
    "connections ended early": "tracereel_connections_ended_total",
    "records not forwarded": "tracereel_forward_dropped_total",
    "lines of the audit log lost": "tracereel_audit_lines_lost_total",
}


def _by_kind(name: str) -> str:
    return f"sum by (kind) (rate(tracereel_records_{name}_total{RATE})) > 0"


BOARD = Board(
    uid="tracereel-collector",
    title="tracereel / Collector",
    about="What the collector received, stored, refused and holds, and how much room it has.",
    rows=[
        (
            "Now",
            [
                stat(
                    "Collectors up", "How many answer Prometheus.", prom('sum(up{job="tracereel-collector"})'),
                    steps=((None, "red"), (1, "green")), defaults={"decimals": 0},
                ),
                stat(
                    "Received", "Records per second, of all kinds.",
                    prom(f"sum(rate(tracereel_records_received_total{RATE}))"), unit="recps",
                ),
                stat(
                    "Store is behind by", "Age of the oldest record that is acknowledged and not stored.",
                    prom("max(tracereel_queue_oldest_seconds)"), unit="s", steps=rising(10, 60),
                    defaults={"decimals": 1},
                ),
                stat(
                    "Queue is full by", "Of TRACEREEL_MAX_PENDING_BYTES, quarantine included; at 100 % senders get 429.",
                    prom("max(collector:queue_fill:ratio)"), unit="percentunit", steps=rising(0.5, 0.7),
                    defaults={"decimals": 1},
                ),
                stat(
                    "Disk free", "Where the queue lives.", prom("min(tracereel_disk_free_bytes)"),
                    unit="bytes", steps=((None, "red"), (1 << 30, "orange"), (10 << 30, "green")),
                ),
                stat(
                    "In quarantine", "Set aside since the queue was made, and not given back to delivery.",
                    prom("sum(tracereel_records_quarantined_total) - sum(tracereel_records_retried_total)"),
                    steps=((None, "green"), (1, "orange")), defaults={"decimals": 0},
                ),
            ],
        ),
        (
            "From received to stored",
            [
                lines("Received", "Records per second.", prom(_by_kind("received"), "{{kind}}"), unit="recps", width=6),
                lines("Stored", "Records per second.", prom(_by_kind("stored"), "{{kind}}"), unit="recps", width=6),
                lines(
                    "Waiting", "Records acknowledged and not stored yet.",
                    prom("sum by (kind) (tracereel_records_pending)", "{{kind}}"), stacked=True, width=6,
                ),
                lines(
                    "Store is behind by", "Age of the oldest waiting record; the alert is at a minute.",
                    prom("tracereel_queue_oldest_seconds", "{{instance}}"), unit="s",
                    steps=((None, "green"), (60, "red")), width=6,
                ),
            ],
        ),
        (
            "What did not get through",
            [
                lines(
                    "Refused at the door", "Records per minute, by kind and reason.",
                    prom(
                        f"60 * sum by (kind, reason) (rate(tracereel_records_rejected_total{RATE}))",
                        "{{kind}}: {{reason}}",
                    ),
                    unit="recpm", bars=True, stacked=True, defaults={"noValue": "none"},
                ),
                lines(
                    "Refused by the store, sent twice, damaged",
                    "Records per minute. Quarantine needs somebody to look; duplicates are senders' resends.",
                    prom(f"60 * sum(rate(tracereel_records_quarantined_total{RATE}))", "quarantined"),
                    prom(f"60 * sum(rate(tracereel_records_duplicate_total{RATE}))", "duplicates"),
                    prom(f"60 * sum(rate(tracereel_records_damaged_total{RATE}))", "damaged"),
                    unit="recpm",
                ),
                lines(
                    "Requests refused for who sent them, per minute", "A wrong key, a missing scope, too fast: by reason.",
                    prom(
                        f"60 * sum by (reason) (rate(tracereel_access_refused_total{RATE}))",
                        "{{reason}}",
                    ),
                    bars=True, stacked=True, defaults={"noValue": "none"},
                ),
            ],
        ),
        (
            "Room",
            [
                lines(
                    "Queue", "Bytes that wait, bytes in quarantine.",
                    prom("tracereel_queue_pending_bytes", "waiting"),
                    prom("tracereel_queue_quarantined_bytes", "quarantine"), unit="bytes", stacked=True,
                ),
                lines(
                    "Disk free", "Below the lower line nothing is taken; the alert is at four times as much.",
                    prom("tracereel_disk_free_bytes", "free"), prom("tracereel_disk_kept_bytes", "kept free"),
                    unit="bytes",
                ),
                lines(
                    "Waiting at the agents", "Events in the spools of programs: what the collector has yet to get.",
                    prom("sum by (instance) (tracereel_sdk_spooled_events)", "{{instance}}"), stacked=True,
                ),
            ],
        ),
        (
            "Requests and inserts",
            [
                lines(
                    "Requests by code", "Per second.",
                    prom(f"sum by (code) (rate(tracereel_http_requests_total{RATE}))", "{{code}}"),
                    unit="reqps", stacked=True, width=6,
                ),
                lines(
                    "Duration of requests p95", "By route, where there were any.",
                    prom(
                        f"histogram_quantile(0.95, sum by (route, le) (rate(tracereel_http_seconds_bucket{RATE}))) > 0",
                        "{{route}}",
                    ),
                    unit="s", width=6,
                ),
                lines(
                    "Duration of inserts p95", "95 of 100 inserts are quicker, by kind.",
                    prom(
                        f"histogram_quantile(0.95, sum by (kind, le) (rate(tracereel_insert_seconds_bucket{RATE}))) > 0",
                        "{{kind}}",
                    ),
                    unit="s", width=6,
                ),
                bars(
                    "Trouble in the time shown", "How often, since the beginning of the time shown above.",
                    *(
                        prom(f"sum(increase({metric}[$__range])) or vector(0)", name, instant=True)
                        for name, metric in TROUBLE.items()
                    ),
                    width=6, steps=((None, "green"), (1, "orange")), defaults={"min": 0, "decimals": 0},
                ),
            ],
        ),
    ],
)  # fmt: skip
