"""A repeated OTLP request is stored once, and the response counts the duplicates."""

import json

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from tests.support.collector import http
from tests.support.waiting import wait_until

EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


def protobuf_body(text):
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for _ in range(2):
        records.add().body.string_value = text
    return request.SerializeToString()


def json_body(text):
    records = [{"body": {"stringValue": text}}] * 2
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


def send_protobuf(collector, text):
    headers = {"Content-Type": "application/x-protobuf"}
    answer = http("POST", f"{collector.url}/v1/logs", protobuf_body(text), headers)
    assert answer.status == 200
    success = ExportLogsServiceResponse.FromString(answer.body).partial_success
    return success.rejected_log_records, success.error_message


def send_json(collector, text):
    headers = {"Content-Type": "application/json"}
    answer = http("POST", f"{collector.url}/v1/logs", json_body(text), headers)
    assert answer.status == 200
    success = answer.json().get("partialSuccess", {})
    return int(success.get("rejectedLogRecords", 0)), success.get("errorMessage", "")


def send_grpc(collector, text):
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        answer = channel.unary_unary(EXPORT)(protobuf_body(text), timeout=30)
    success = ExportLogsServiceResponse.FromString(answer).partial_success
    return success.rejected_log_records, success.error_message


@pytest.mark.parametrize("send", [send_protobuf, send_json, send_grpc])
def test_duplicate_request_is_reported_as_partial_success(collector, sql, trace_id, send):
    first = send(collector, trace_id)
    repeated = [send(collector, trace_id) for _ in range(2)]

    assert first == (0, "")
    for rejected, message in repeated:
        assert rejected == 0
        assert message.startswith("2 records were not stored again")
    stored = "SELECT count() FROM otel_logs WHERE Body = {body:String}"
    wait_until(lambda: sql.query(stored, parameters={"body": trace_id}).result_rows == [(2,)])
