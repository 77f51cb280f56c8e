/* SPDX-License-Identifier: MIT */
/* settings.c - reads --otlp, --trace-ratio and the variables OTEL_*.
 *
 * Names and rules are those of OpenTelemetry's specification: an empty variable is not set, a
 * variable with TRACES in its name wins over the general one, OTEL_EXPORTER_OTLP_ENDPOINT is a base
 * to which v1/traces is added. The option is such a base, too, or has v1/traces already. */
#include "cli/otlp/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/str.h"

#define PATH "v1/traces"
#define PREFIX "OTEL_EXPORTER_OTLP_"
#define URL_SIZE_MAX 2000
#define PPM 1000000

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* The one for traces, else the general one. */
static const char *either(const char *of_traces, const char *general)
{
    const char *text = variable(of_traces);
    return text != NULL ? text : variable(general);
}

/* --- The URL ------------------------------------------------------------------------------- */

static quern_status check_url(const char *name, const char *url, quern_error *err)
{
    size_t scheme = qn_str_starts_with(url, "http://")    ? strlen("http://")
                    : qn_str_starts_with(url, "https://") ? strlen("https://")
                                                          : 0;
    size_t host = strcspn(url + scheme, "/?#");
    if (scheme == 0 || host == 0) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must begin with http://HOST or https://HOST",
                            name);
    }
    if (memchr(url + scheme, '@', host) != NULL) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "%s: must have no password: give a header in " PREFIX "HEADERS", name);
    }
    for (const char *at = url; *at != '\0'; at++) {
        if (*at <= ' ' || *at == '\x7f' || strlen(url) > URL_SIZE_MAX) {
            return qn_error_set(err, QUERN_E_INVALID, "%s: is not a URL", name);
        }
    }
    return QUERN_OK;
}

static quern_status set_url(struct qn_otlp_settings *settings, const char *name, const char *base,
                            quern_error *err)
{
    size_t size = strlen(base);
    quern_status status = check_url(name, base, err);
    if (status != QUERN_OK) {
        return status;
    }
    bool has_path = size > strlen(PATH) && strcmp(base + size - strlen(PATH), PATH) == 0;
    const char *slash = base[size - 1] == '/' ? "" : "/";
    settings->url = has_path ? base : qn_arena_printf(&settings->arena, "%s%s" PATH, base, slash);
    return settings->url == NULL ? qn_error_nomem(err) : QUERN_OK;
}

/* What the environment wishes. */
static quern_status find_url(struct qn_otlp_settings *settings, quern_error *err)
{
    const char *own = variable(PREFIX "TRACES_ENDPOINT");
    const char *base = variable(PREFIX "ENDPOINT");
    const char *exporter = variable("OTEL_TRACES_EXPORTER");
    const char *disabled = variable("OTEL_SDK_DISABLED");
    const char *protocol = either(PREFIX "TRACES_PROTOCOL", PREFIX "PROTOCOL");
    if ((own == NULL && base == NULL) || (disabled != NULL && strcmp(disabled, "true") == 0) ||
        (exporter != NULL && strstr(exporter, "otlp") == NULL)) {
        return QUERN_OK;
    }
    if (protocol != NULL && !qn_str_starts_with(protocol, "http/")) {
        settings->ignored = "the OTEL_EXPORTER_OTLP_PROTOCOL is not http/json, which is the only "
                            "one here";
        return QUERN_OK;
    }
    if (own != NULL) {
        settings->url = own;
        return check_url(PREFIX "TRACES_ENDPOINT", own, err);
    }
    return set_url(settings, PREFIX "ENDPOINT", base, err);
}

/* --- Pairs ---------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* In place; false: the text has a control character, which could end a header. */
static bool decode(char *text)
{
    char *out = text;
    for (const char *at = text; *at != '\0'; at++) {
        char c = *at;
        if (c == '%' && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0) {
            c = (char)(hex_digit(at[1]) << 4 | hex_digit(at[2]));
            at += 2;
        }
        if ((unsigned char)c < ' ' || c == '\x7f') {
            return false;
        }
        *out++ = c;
    }
    *out = '\0';
    return true;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t size = strlen(text);
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t')) {
        text[--size] = '\0';
    }
    return text;
}

/* "name=value,name=value", percent-encoded. */
static quern_status read_pairs(struct qn_otlp_settings *settings, struct qn_otlp_pairs *pairs,
                               const char *name, const char *text, quern_error *err)
{
    char *rest = text == NULL ? NULL : qn_arena_strdup(&settings->arena, text);
    if (text != NULL && rest == NULL) {
        return qn_error_nomem(err);
    }
    while (rest != NULL && *rest != '\0') {
        char *pair = strsep(&rest, ",");
        char *value = strchr(pair, '=');
        if (*trim(pair) == '\0') {
            continue;
        }
        if (value != NULL) {
            *value++ = '\0';
        }
        char *key = trim(pair);
        value = value == NULL ? NULL : trim(value);
        if (value == NULL || *key == '\0' || strpbrk(key, " :\t") != NULL || !decode(key) ||
            !decode(value) || pairs->count == QN_OTLP_PAIRS_MAX) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "%s: is not NAME=VALUE,NAME=VALUE, %d at most", name,
                                QN_OTLP_PAIRS_MAX);
        }
        pairs->items[pairs->count++] = (quern_header){key, value};
    }
    return QUERN_OK;
}

/* --- The rest -------------------------------------------------------------------------------- */

static quern_status read_ratio(const char *name, const char *text, int32_t *ret_ppm,
                               quern_error *err)
{
    char *end = NULL;
    double ratio = strtod(text, &end);
    if (end == text || *end != '\0' || !(ratio >= 0 && ratio <= 1)) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: '%s' is not a number from 0 to 1", name,
                            text);
    }
    int32_t ppm = (int32_t)(ratio * PPM + 0.5);
    *ret_ppm = ppm == 0 ? -1 : ppm; /* QUERN_SAMPLE_NONE */
    return QUERN_OK;
}

static quern_status read_sampling(struct qn_otlp_settings *settings, const char *ratio,
                                  quern_error *err)
{
    const char *sampler = variable("OTEL_TRACES_SAMPLER");
    const char *argument = variable("OTEL_TRACES_SAMPLER_ARG");
    if (ratio != NULL) {
        return read_ratio("--trace-ratio", ratio, &settings->sample_ppm, err);
    }
    if (sampler == NULL) {
        return QUERN_OK;
    }
    if (strstr(sampler, "always_off") != NULL) {
        settings->sample_ppm = -1;
    } else if (strstr(sampler, "traceidratio") != NULL && argument != NULL) {
        return read_ratio("OTEL_TRACES_SAMPLER_ARG", argument, &settings->sample_ppm, err);
    }
    return QUERN_OK;
}

static quern_status read_timeout(struct qn_otlp_settings *settings, quern_error *err)
{
    const char *text = either(PREFIX "TRACES_TIMEOUT", PREFIX "TIMEOUT");
    char *end = NULL;
    if (text == NULL) {
        return QUERN_OK;
    }
    long ms = strtol(text, &end, 10);
    if (*end != '\0' || ms <= 0 || ms > 3600000) {
        return qn_error_set(err, QUERN_E_INVALID,
                            PREFIX "TIMEOUT: '%s' is not a number of ms, up to an hour", text);
    }
    settings->timeout_ms = ms;
    return QUERN_OK;
}

static quern_status read_rest(struct qn_otlp_settings *settings, const char *ratio,
                              quern_error *err)
{
    settings->certificate = either(PREFIX "TRACES_CERTIFICATE", PREFIX "CERTIFICATE");
    settings->client_certificate =
        either(PREFIX "TRACES_CLIENT_CERTIFICATE", PREFIX "CLIENT_CERTIFICATE");
    settings->client_key = either(PREFIX "TRACES_CLIENT_KEY", PREFIX "CLIENT_KEY");
    settings->service = variable("OTEL_SERVICE_NAME");
    const char *headers = either(PREFIX "TRACES_HEADERS", PREFIX "HEADERS");
    quern_status status = read_sampling(settings, ratio, err);
    if (status == QUERN_OK) {
        status = read_timeout(settings, err);
    }
    if (status == QUERN_OK) {
        status = read_pairs(settings, &settings->headers, PREFIX "HEADERS", headers, err);
    }
    if (status == QUERN_OK) {
        status = read_pairs(settings, &settings->resource, "OTEL_RESOURCE_ATTRIBUTES",
                            variable("OTEL_RESOURCE_ATTRIBUTES"), err);
    }
    return status;
}

quern_status qn_otlp_settings_read(const char *option, const char *ratio,
                                   struct qn_otlp_settings *ret_settings, quern_error *err)
{
    quern_status status = QUERN_OK;
    *ret_settings = (struct qn_otlp_settings){.url = NULL};
    if (option == NULL) {
        status = find_url(ret_settings, err);
    } else if (strcmp(option, "none") != 0) {
        status = set_url(ret_settings, "--otlp", option, err);
    }
    if (status == QUERN_OK && (ret_settings->url != NULL || ratio != NULL)) {
        status = read_rest(ret_settings, ratio, err);
    }
    if (status != QUERN_OK) {
        qn_otlp_settings_finish(ret_settings);
    }
    return status;
}

void qn_otlp_settings_finish(struct qn_otlp_settings *settings)
{
    qn_arena_finish(&settings->arena);
    *settings = (struct qn_otlp_settings){.url = NULL};
}
