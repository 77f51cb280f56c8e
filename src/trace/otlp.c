/* SPDX-License-Identifier: MIT */
/* otlp.c - writes an ExportTraceServiceRequest in the JSON of OTLP 1.x.
 *
 * Unlike other JSON of protobuf it has the ids of traces and spans in hex; 64-bit numbers are
 * texts. Attributes have the names of OpenTelemetry's conventions for messaging where there is one,
 * and begin with "quern." else. Stored texts may hold any bytes: what is not UTF-8 is replaced. */
#include "trace/otlp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"
#include "quern/version.h"

/* Of one value; longer ones are cut. */
#define TEXT_SIZE_MAX 2048

/* The numbers of OTLP. */
enum { KIND_PRODUCER = 4, KIND_CONSUMER = 5, STATUS_ERROR = 2 };

/* The first failure is kept. */
struct writer {
    struct qn_buf *out;
    quern_status status;
    bool has_one; /* of a list: the next member needs a comma */
};

static void put(struct writer *writer, const char *text)
{
    if (writer->status == QUERN_OK) {
        writer->status = qn_buf_append_text(writer->out, text);
    }
}

static void put_char(struct writer *writer, char c)
{
    char text[8] = {c};
    if (c == '"' || c == '\\') {
        text[0] = '\\';
        text[1] = c;
    } else if ((unsigned char)c < ' ' || c == '\x7f') {
        (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    }
    put(writer, text);
}

/* In quotes. */
static void put_text(struct writer *writer, const char *text)
{
    char clean[TEXT_SIZE_MAX + 1];
    (void)qn_utf8_sanitize(text, strlen(text), clean, sizeof clean);
    put(writer, "\"");
    const char *at = clean;
    while (*at != '\0') {
        size_t plain = 0;
        while ((unsigned char)at[plain] >= ' ' && at[plain] != '"' && at[plain] != '\\' &&
               at[plain] != '\x7f') {
            plain++;
        }
        if (writer->status == QUERN_OK && plain > 0) {
            writer->status = qn_buf_append(writer->out, at, plain);
        }
        at += plain;
        if (*at != '\0') {
            put_char(writer, *at++);
        }
    }
    put(writer, "\"");
}

static void begin_member(struct writer *writer)
{
    put(writer, writer->has_one ? "," : "");
    writer->has_one = true;
}

static void put_attribute(struct writer *writer, const char *name, const char *text)
{
    if (text == NULL) {
        return;
    }
    begin_member(writer);
    put(writer, "{\"key\":");
    put_text(writer, name);
    put(writer, ",\"value\":{\"stringValue\":");
    put_text(writer, text);
    put(writer, "}}");
}

static void put_number_attribute(struct writer *writer, const char *name, int64_t number)
{
    char text[96];
    (void)snprintf(text, sizeof text, "{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}",
                   name, number);
    begin_member(writer);
    put(writer, text);
}

static const char *operation(enum qn_span_kind kind)
{
    switch (kind) {
    case QN_SPAN_ENQUEUE:
        return "enqueue";
    case QN_SPAN_WAIT:
        return "wait";
    case QN_SPAN_RUN:
        return "run";
    }
    return "";
}

static const char *operation_type(enum qn_span_kind kind)
{
    switch (kind) {
    case QN_SPAN_ENQUEUE:
        return "send";
    case QN_SPAN_WAIT:
        return "receive";
    case QN_SPAN_RUN:
        return "process";
    }
    return "";
}

static void put_attributes(struct writer *writer, const struct qn_span *span)
{
    put(writer, ",\"attributes\":[");
    writer->has_one = false;
    put_attribute(writer, "messaging.system", "quern");
    put_attribute(writer, "messaging.operation.name", operation(span->kind));
    put_attribute(writer, "messaging.operation.type", operation_type(span->kind));
    put_attribute(writer, "messaging.destination.name", span->queue);
    put_attribute(writer, "messaging.message.id", span->id);
    if (span->kind != QN_SPAN_WAIT) {
        put_number_attribute(writer, "messaging.message.body.size", (int64_t)span->payload_size);
    }
    put_attribute(writer, "quern.task.type", span->type);
    if (span->kind != QN_SPAN_ENQUEUE) {
        put_number_attribute(writer, "quern.retry.count", span->retry_count);
    }
    put_attribute(writer, "quern.worker", span->worker);
    put_attribute(writer, "quern.cause", span->cause);
    put_attribute(writer, "quern.outcome", span->outcome);
    if (span->error != NULL) {
        put_attribute(writer, "error.type",
                      span->error_class != NULL ? span->error_class : "_OTHER");
    }
    put(writer, "]");
}

static void put_span(struct writer *writer, const struct qn_span *span)
{
    char trace[QN_TRACE_ID_SIZE];
    char own[QN_TRACE_SPAN_SIZE];
    char parent[QN_TRACE_SPAN_SIZE];
    char text[256];
    qn_trace_context_format_id(&span->context, trace);
    qn_trace_context_format_span(span->context.span, own);
    qn_trace_context_format_span(span->parent, parent);
    (void)snprintf(text, sizeof text, "{\"traceId\":\"%s\",\"spanId\":\"%s\"", trace, own);
    put(writer, text);
    if (span->parent != 0) {
        (void)snprintf(text, sizeof text, ",\"parentSpanId\":\"%s\"", parent);
        put(writer, text);
    }
    if (span->state != NULL) {
        put(writer, ",\"traceState\":");
        put_text(writer, span->state);
    }
    char name[TEXT_SIZE_MAX];
    (void)snprintf(name, sizeof name, "%s %s", operation(span->kind), span->queue);
    put(writer, ",\"name\":");
    put_text(writer, name);
    int64_t ended_at_ns =
        span->ended_at_ns > span->started_at_ns ? span->ended_at_ns : span->started_at_ns;
    (void)snprintf(text, sizeof text,
                   ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRId64
                   "\",\"endTimeUnixNano\":\"%" PRId64 "\"",
                   span->kind == QN_SPAN_ENQUEUE ? KIND_PRODUCER : KIND_CONSUMER,
                   span->started_at_ns, ended_at_ns);
    put(writer, text);
    put_attributes(writer, span);
    if (span->error != NULL) {
        (void)snprintf(text, sizeof text, ",\"status\":{\"code\":%d,\"message\":", STATUS_ERROR);
        put(writer, text);
        put_text(writer, span->error);
        put(writer, "}");
    }
    put(writer, "}");
}

quern_status qn_otlp_write(struct qn_buf *out, const struct qn_otlp_resource *resource,
                           const struct qn_span *const *spans, size_t count)
{
    struct writer writer = {.out = out, .status = QUERN_OK};
    qn_buf_reset(out);
    put(&writer, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    for (size_t i = 0; i < resource->count; i++) {
        put_attribute(&writer, resource->attributes[i].name, resource->attributes[i].value);
    }
    put(&writer, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"quern\",\"version\":");
    put_text(&writer, quern_version());
    put(&writer, "},\"spans\":[");
    for (size_t i = 0; i < count; i++) {
        put(&writer, i > 0 ? "," : "");
        put_span(&writer, spans[i]);
    }
    put(&writer, "]}]}]}");
    return writer.status;
}
