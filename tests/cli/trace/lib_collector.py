# SPDX-License-Identifier: MIT
"""A collector of spans over HTTP: it parses each document with OpenTelemetry's own definitions."""

import base64
import gzip
import http.server
import json
import os
import pathlib
import ssl
import sys
import threading

SOURCE = pathlib.Path(os.environ.get("QUERN_SOURCE", pathlib.Path(__file__).parents[3]))
sys.path.insert(0, str(SOURCE / "build/pypi"))  # by scripts/bootstrap

# pylint: disable=wrong-import-position
from google.protobuf import json_format  # noqa: E402
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: E402
    ExportTraceServiceRequest)

IDS = ("traceId", "spanId", "parentSpanId")


def with_base64_ids(value):
    """The JSON of OTLP has these in hex, that of protobuf in base64."""
    if isinstance(value, list):
        return [with_base64_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: base64.b64encode(bytes.fromhex(one)).decode() if name in IDS
            else with_base64_ids(one) for name, one in value.items()}


def values(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


class Span:
    """What one span says, with its ids in hex."""

    def __init__(self, span, resource):
        assert len(span.trace_id) == 16 and len(span.span_id) == 8
        assert len(span.parent_span_id) in (0, 8)
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        self.resource = resource
        self.trace, self.id = span.trace_id.hex(), span.span_id.hex()
        self.parent = span.parent_span_id.hex()
        self.name, self.kind, self.state = span.name, span.kind, span.trace_state
        self.start, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes = values(span.attributes)
        self.status, self.message = span.status.code, span.status.message

    def __repr__(self):
        return f"{self.name} {self.trace}/{self.id}<{self.parent} {self.attributes}"


class Collector:
    """Answers with `status` and `answer`; while `held` is not set it does not answer at all."""

    def __init__(self, status=200, answer=b"{}", tls=None):
        self.status, self.answer = status, answer
        self.held = threading.Event()
        self.held.set()
        self.changed = threading.Condition()
        self.spans, self.documents, self.requests, self.faults = [], [], [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, dict(self.headers), body)
                collector.held.wait()
                try:
                    self.send_response(collector.status)
                    self.send_header("Content-Length", str(len(collector.answer)))
                    self.end_headers()
                    self.wfile.write(collector.answer)
                except OSError:
                    pass  # it did not wait for the answer

            def log_message(self, *args):  # pylint: disable=arguments-differ
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args):  # pylint: disable=arguments-differ
                pass  # a client that refuses our certificate

        self.server = Server(("127.0.0.1", 0), Handler)
        scheme = "http"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.port = self.server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def take(self, path, headers, body):
        with self.changed:
            self.requests.append((path, headers))
            try:
                if headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                document = json.loads(body)
                request = json_format.ParseDict(with_base64_ids(document),
                                                ExportTraceServiceRequest())
                spans = [Span(span, values(resource.resource.attributes))
                         for resource in request.resource_spans
                         for scope in resource.scope_spans for span in scope.spans]
                assert spans, "a document without spans"
                self.documents.append(document)
                if self.status == 200:
                    self.spans += spans
            except Exception as fault:  # pylint: disable=broad-exception-caught
                self.faults.append((repr(fault), body[:2000]))
            self.changed.notify_all()

    def wait_for(self, condition, patience_s):
        """Until condition(spans) holds; returns the spans."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.faults or condition(self.spans),
                                         patience_s), f"only {self.spans} {self.requests}"
            assert not self.faults, self.faults
            return list(self.spans)

    def stop(self):
        self.held.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
