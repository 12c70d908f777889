"""Private names of prometheus_client and OpenTelemetry exist and behave as expected."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry, Gauge, Histogram

from tracereel._telemetry import compat


def test_fields_of_a_histogram_are_its_buckets_and_sum() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("size", "Sizes.", buckets=(1, 2), registry=registry)

    fields = compat.histogram_fields(histogram)

    assert fields is not None
    assert list(fields.bounds) == [1, 2, float("inf")]
    fields.buckets[1].inc(3)
    fields.total.inc(4.5)
    assert registry.get_sample_value("size_bucket", {"le": "1.0"}) == 0
    assert registry.get_sample_value("size_bucket", {"le": "2.0"}) == 3
    assert registry.get_sample_value("size_sum") == 4.5


def test_histogram_with_labels_has_no_fields_of_its_own() -> None:
    histogram = Histogram("size", "Sizes.", ["kind"], registry=CollectorRegistry())

    assert compat.histogram_fields(histogram) is None


def test_registered_metrics_are_found_with_their_labels() -> None:
    registry = CollectorRegistry()
    gauge = Gauge("depth", "Depth.", ["queue"], registry=registry)

    assert compat.registered_collector(registry, "depth") is gauge
    assert compat.registered_collector(registry, "width") is None
    assert compat.label_names(gauge) == ("queue",)


def test_global_provider_is_the_one_that_the_program_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    compat.global_tracer_provider()
    provider = TracerProvider()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)

    assert compat.global_tracer_provider() is provider is trace.get_tracer_provider()
