"""OpenTelemetry's log signal, which is only available from private modules."""

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import ReadableLogRecord

__all__ = ["LogRecord", "OTLPLogExporter", "ReadableLogRecord", "SeverityNumber"]
