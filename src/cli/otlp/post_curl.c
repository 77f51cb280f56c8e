/* SPDX-License-Identifier: MIT */
/* post_curl.c - sends documents with libcurl, which is loaded when spans are to be sent.
 *
 * It comes with some thirty other libraries, so it is not linked: every other call of the program
 * would pay for loading them. The transfer is driven by this thread in steps of 100 ms at most, so
 * that it ends in time when the tracer does, whatever the collector does; also a name that is not
 * resolved holds nothing up (QUICK_EXIT). Certificates are always checked, redirects are not
 * followed. What a collector answers is read up to 64 KiB. */
#include "cli/otlp/post.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "quern/version.h"

#define LIBRARY "libcurl.so.4"
#define STEP_MS 100
#define ANSWER_SIZE_MAX ((size_t)64 << 10)

/* The functions that are used. */
struct calls {
    CURLcode (*global_init)(long flags);
    void (*global_cleanup)(void);
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
    CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);
    const char *(*easy_strerror)(CURLcode code);
    void (*easy_cleanup)(CURL *easy);
    CURLM *(*multi_init)(void);
    CURLMcode (*multi_add_handle)(CURLM *multi, CURL *easy);
    CURLMcode (*multi_remove_handle)(CURLM *multi, CURL *easy);
    CURLMcode (*multi_perform)(CURLM *multi, int *running);
    CURLMcode (*multi_poll)(CURLM *multi, struct curl_waitfd *more, unsigned count, int timeout_ms,
                            int *ret_count);
    CURLMsg *(*multi_info_read)(CURLM *multi, int *left);
    CURLMcode (*multi_cleanup)(CURLM *multi);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
};

struct qn_post {
    void *library;
    struct calls calls;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char error[CURL_ERROR_SIZE];
    struct qn_buf answer;
    uint64_t rejected;
};

/* --- Opening -------------------------------------------------------------------------------- */

static quern_status load(struct qn_post *post, quern_error *err)
{
    const struct {
        const char *name;
        void *to;
    } names[] = {
        {"curl_global_init", &post->calls.global_init},
        {"curl_global_cleanup", &post->calls.global_cleanup},
        {"curl_easy_init", &post->calls.easy_init},
        {"curl_easy_setopt", &post->calls.easy_setopt},
        {"curl_easy_getinfo", &post->calls.easy_getinfo},
        {"curl_easy_strerror", &post->calls.easy_strerror},
        {"curl_easy_cleanup", &post->calls.easy_cleanup},
        {"curl_multi_init", &post->calls.multi_init},
        {"curl_multi_add_handle", &post->calls.multi_add_handle},
        {"curl_multi_remove_handle", &post->calls.multi_remove_handle},
        {"curl_multi_perform", &post->calls.multi_perform},
        {"curl_multi_poll", &post->calls.multi_poll},
        {"curl_multi_info_read", &post->calls.multi_info_read},
        {"curl_multi_cleanup", &post->calls.multi_cleanup},
        {"curl_slist_append", &post->calls.slist_append},
        {"curl_slist_free_all", &post->calls.slist_free_all},
    };
    post->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (post->library == NULL) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED, "spans are sent by libcurl: %s", dlerror());
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *function = dlsym(post->library, names[i].name);
        if (function == NULL) {
            return qn_error_set(err, QUERN_E_UNSUPPORTED, LIBRARY " has no %s", names[i].name);
        }
        memcpy(names[i].to, &function, sizeof function);
    }
    return QUERN_OK;
}

static size_t read_answer(char *data, size_t size, size_t count, void *user)
{
    struct qn_post *post = user;
    quern_status kept = qn_buf_append(&post->answer, data, size * count);
    (void)kept; /* too long: the rest is not needed */
    return size * count;
}

static bool add_header(struct qn_post *post, const char *name, const char *value)
{
    struct qn_buf line;
    qn_buf_init(&line, ANSWER_SIZE_MAX);
    struct curl_slist *longer = NULL;
    /* A header without a value ends with ";" for libcurl, which sends "name:". */
    if (qn_buf_printf(&line, value[0] == '\0' ? "%s;" : "%s: %s", name, value) == QUERN_OK) {
        longer = post->calls.slist_append(post->headers, line.data);
    }
    qn_buf_finish(&line);
    post->headers = longer != NULL ? longer : post->headers;
    return longer != NULL;
}

static bool set_text(struct qn_post *post, CURLoption option, const char *text)
{
    return text == NULL || post->calls.easy_setopt(post->easy, option, text) == CURLE_OK;
}

static bool set_number(struct qn_post *post, CURLoption option, long number)
{
    return post->calls.easy_setopt(post->easy, option, number) == CURLE_OK;
}

static bool set_options(struct qn_post *post, const struct qn_otlp_settings *settings)
{
    bool ok =
        add_header(post, "Content-Type", "application/json") && add_header(post, "Expect", "");
    for (size_t i = 0; ok && i < settings->headers.count; i++) {
        ok = add_header(post, settings->headers.items[i].name, settings->headers.items[i].value);
    }
    return ok && set_text(post, CURLOPT_URL, settings->url) &&
           set_text(post, CURLOPT_USERAGENT, "quern/" QUERN_VERSION) &&
           set_text(post, CURLOPT_PROTOCOLS_STR, "http,https") &&
           set_text(post, CURLOPT_CAINFO, settings->certificate) &&
           set_text(post, CURLOPT_SSLCERT, settings->client_certificate) &&
           set_text(post, CURLOPT_SSLKEY, settings->client_key) &&
           set_number(post, CURLOPT_SSL_VERIFYPEER, 1) &&
           set_number(post, CURLOPT_SSL_VERIFYHOST, 2) && set_number(post, CURLOPT_NOSIGNAL, 1) &&
           set_number(post, CURLOPT_FOLLOWLOCATION, 0) && set_number(post, CURLOPT_QUICK_EXIT, 1) &&
           post->calls.easy_setopt(post->easy, CURLOPT_ERRORBUFFER, post->error) == CURLE_OK &&
           post->calls.easy_setopt(post->easy, CURLOPT_HTTPHEADER, post->headers) == CURLE_OK &&
           post->calls.easy_setopt(post->easy, CURLOPT_WRITEFUNCTION, read_answer) == CURLE_OK &&
           post->calls.easy_setopt(post->easy, CURLOPT_WRITEDATA, post) == CURLE_OK;
}

quern_status qn_post_open(const struct qn_otlp_settings *settings, struct qn_post **ret_post,
                          quern_error *err)
{
    struct qn_post *post = qn_alloc_zero(1, sizeof *post);
    if (post == NULL) {
        return qn_error_nomem(err);
    }
    qn_buf_init(&post->answer, ANSWER_SIZE_MAX);
    quern_status status = load(post, err);
    if (status != QUERN_OK) {
        goto fail_library;
    }
    if (post->calls.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        status = qn_error_nomem(err);
        goto fail_library;
    }
    post->multi = post->calls.multi_init();
    post->easy = post->calls.easy_init();
    if (post->multi == NULL || post->easy == NULL) {
        status = qn_error_nomem(err);
        goto fail_handles;
    }
    if (!set_options(post, settings)) {
        status = qn_error_set(err, QUERN_E_UNSUPPORTED, LIBRARY " does not know all options");
        goto fail_handles;
    }
    *ret_post = post;
    return QUERN_OK;

fail_handles:
    qn_post_close(post);
    return status;
fail_library:
    if (post->library != NULL) {
        (void)dlclose(post->library);
    }
    qn_free(post);
    return status;
}

/* The library stays loaded: what it has registered for the end of a process would be gone. */
void qn_post_close(struct qn_post *post)
{
    if (post == NULL) {
        return;
    }
    if (post->easy != NULL) {
        post->calls.easy_cleanup(post->easy);
    }
    if (post->multi != NULL) {
        (void)post->calls.multi_cleanup(post->multi);
    }
    post->calls.slist_free_all(post->headers);
    post->calls.global_cleanup();
    qn_buf_finish(&post->answer);
    qn_free(post);
}

/* --- Sending -------------------------------------------------------------------------------- */

/* Drives the transfer until it has ended, or its time is over. */
static CURLcode transfer(struct qn_post *post, quern_tracer *tracer)
{
    int running = 1;
    while (post->calls.multi_perform(post->multi, &running) == CURLM_OK && running > 0) {
        int64_t left_ms = quern_tracer_left_ms(tracer);
        if (left_ms <= 0) {
            return CURLE_OPERATION_TIMEDOUT;
        }
        int step_ms = left_ms < STEP_MS ? (int)left_ms : STEP_MS;
        if (post->calls.multi_poll(post->multi, NULL, 0, step_ms, NULL) != CURLM_OK) {
            return CURLE_FAILED_INIT;
        }
    }
    int left = 0;
    const CURLMsg *message = post->calls.multi_info_read(post->multi, &left);
    return message != NULL && message->msg == CURLMSG_DONE ? message->data.result
                                                           : CURLE_FAILED_INIT;
}

static quern_status refuse(const struct qn_post *post, CURLcode code, quern_error *err)
{
    const char *text = post->error[0] != '\0' ? post->error : post->calls.easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT) {
        return qn_error_set(err, QUERN_E_TIMEOUT, "the collector does not answer in time");
    }
    bool is_final = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
                    code == CURLE_OUT_OF_MEMORY;
    /* The network, names, certificates: another time it may work. */
    return qn_error_set(err, is_final ? QUERN_E_INVALID : QUERN_E_CONNECT, "%s", text);
}

/* {"partialSuccess":{"rejectedSpans":"3","errorMessage":"..."}} */
static void note_rejected(struct qn_post *post)
{
    json_t *answer =
        post->answer.size == 0 ? NULL : json_loadb(post->answer.data, post->answer.size, 0, NULL);
    json_t *partial = json_object_get(answer, "partialSuccess");
    json_t *rejected = json_object_get(partial, "rejectedSpans");
    if (json_is_integer(rejected) && json_integer_value(rejected) > 0) {
        post->rejected += (uint64_t)json_integer_value(rejected);
    } else if (json_is_string(rejected)) {
        post->rejected += strtoull(json_string_value(rejected), NULL, 10);
    }
    json_decref(answer);
}

/* As OTLP says which answers are worth another attempt. */
static quern_status judge(struct qn_post *post, long http, quern_error *err)
{
    if (http >= 200 && http <= 299) {
        note_rejected(post);
        return QUERN_OK;
    }
    bool may_come = http == 429 || http == 502 || http == 503 || http == 504;
    return qn_error_set(err, may_come ? QUERN_E_BUSY : QUERN_E_INVALID,
                        "the collector answers with HTTP %ld", http);
}

quern_status qn_post_send(struct qn_post *post, const quern_trace_document *document,
                          quern_error *err)
{
    long http = 0;
    post->error[0] = '\0';
    qn_buf_reset(&post->answer);
    const struct calls *calls = &post->calls;
    if (calls->easy_setopt(post->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)document->size) !=
            CURLE_OK ||
        calls->easy_setopt(post->easy, CURLOPT_POSTFIELDS, document->text) != CURLE_OK ||
        calls->multi_add_handle(post->multi, post->easy) != CURLM_OK) {
        return qn_error_nomem(err);
    }
    CURLcode code = transfer(post, document->tracer);
    (void)calls->easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &http);
    (void)calls->multi_remove_handle(post->multi, post->easy);
    return code == CURLE_OK ? judge(post, http, err) : refuse(post, code, err);
}

uint64_t qn_post_take_rejected(struct qn_post *post)
{
    uint64_t rejected = post->rejected;
    post->rejected = 0;
    return rejected;
}
