/* SPDX-License-Identifier: MIT */
/* endpoint.c - parses a URL into the parameters of a connection.
 *
 *     redis://[user[:password]@]host[:port][/db]      redis-socket://[user[:password]@]/path[?db=n]
 *     redis-cluster://[user[:password]@]host[:port],host[:port],...
 *     rediss://... and rediss-cluster://... the same by TLS
 *
 * Parameters: db, and password_file, whose first line is the password; those of TLS are in
 * tls_params.c. (password_env is resolved by the program quern, as a library reads no environment.)
 *
 * All strings lie in one block (secret.h): the password is among them. Texts of errors name the
 * part that is wrong and never the password. */
#include "redis/endpoint.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/text/str.h"
#include "redis/failover/url_params.h"
#include "redis/password_file.h"
#include "redis/url/tls_params.h"

#define CONNECT_TIMEOUT_MS 5000
#define COMMAND_TIMEOUT_MS 10000
#define DB_MAX 1000000
#define KNOWN_PARAMS                                                                               \
    "db, password_file, failover, wait, wait_ms, interval_{start,step,max}_ms, "                   \
    "max_retries, " QN_TLS_PARAMS " and, for the program quern, password_env"

static quern_status read_db(const char *text, int64_t *ret_db, quern_error *err)
{
    int64_t db = 0;
    size_t size = strlen(text);
    bool valid = size > 0;
    for (size_t i = 0; i < size && valid; i++) {
        valid = text[i] >= '0' && text[i] <= '9' && db < DB_MAX;
        db = valid ? db * 10 + (text[i] - '0') : 0;
    }
    if (!valid) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "redis: the database is a number, 0 for the first, not \"%.40s\"",
                            text);
    }
    *ret_db = db;
    return QUERN_OK;
}

/* Parts of an endpoint that are not yet in its memory. */
struct draft {
    const char *password;
    const char *file; /* "": none */
    char from_file[QN_PASSWORD_SIZE];
};

static quern_status read_password_file(const char *path, struct draft *draft, quern_error *err)
{
    if (draft->password[0] != '\0') {
        return qn_error_set(err, QUERN_E_INVALID,
                            "redis: the URL has a password and a password_file");
    }
    draft->password = draft->from_file;
    draft->file = path;
    return qn_password_file_read("password_file", path, draft->from_file, err);
}

static quern_status read_params(struct qn_endpoint *endpoint, const struct qn_url *url,
                                struct draft *draft, quern_error *err)
{
    for (size_t i = 0; i < url->param_count; i++) {
        const char *name = url->params[i].name;
        const char *value = url->params[i].value;
        quern_status status = QUERN_OK;
        if (strcmp(name, "db") == 0 && endpoint->db >= 0) {
            status = qn_error_set(err, QUERN_E_INVALID, "redis: the database is given twice");
        } else if (strcmp(name, "db") == 0) {
            status = read_db(value, &endpoint->db, err);
        } else if (strcmp(name, "password_file") == 0) {
            status = read_password_file(value, draft, err);
        } else if (!qn_tls_params_has(name) && !qn_url_params_has(name)) {
            status =
                qn_error_set(err, QUERN_E_INVALID,
                             "redis: unknown parameter \"%.40s\"; there are " KNOWN_PARAMS, name);
        }
        if (status != QUERN_OK) {
            return status;
        }
    }
    return QUERN_OK;
}

static quern_status read_place(struct qn_endpoint *endpoint, const struct qn_url *url,
                               quern_error *err)
{
    if (strcmp(url->scheme, "redis-socket") == 0) {
        if (url->host[0] != '\0' || strlen(url->path) < 2) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "redis: a socket has three slashes: redis-socket:///path/to.sock");
        }
        if (strlen(url->path) >= sizeof((struct sockaddr_un *)NULL)->sun_path) {
            return qn_error_set(err, QUERN_E_INVALID, "redis: the path of the socket is too long");
        }
        return QUERN_OK;
    }
    if (url->host[0] == '\0') {
        return qn_error_set(err, QUERN_E_INVALID, "redis: the URL names no host: redis://host");
    }
    bool is_cluster =
        strcmp(url->scheme, "redis-cluster") == 0 || strcmp(url->scheme, "rediss-cluster") == 0;
    endpoint->mode = is_cluster ? QN_SERVER_CLUSTER : QN_SERVER_STANDALONE;
    if (!is_cluster && strchr(url->host, ',') != NULL) {
        return qn_error_set(
            err, QUERN_E_INVALID,
            "redis: hosts with commas are those of redis-sentinel:// or redis-cluster://; "
            "servers that stand in for each other are redis://a;redis://b");
    }
    if (url->path[0] != '\0' && strcmp(url->path, "/") != 0) {
        return read_db(url->path + 1, &endpoint->db, err);
    }
    return QUERN_OK;
}

/* Puts a copy of text at *at and moves it behind. */
static const char *copy_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

/* The texts of an endpoint, in its memory: it must not hold any yet. */
struct texts {
    const char *host;
    const char *port;
    const char *path; /* of a socket; "": none */
    const char *user;
    const char *password;
    const char *password_file;
};

static quern_status copy_texts(struct qn_endpoint *endpoint, const struct texts *texts,
                               quern_error *err)
{
    bool is_ipv6 = strchr(texts->host, ':') != NULL;
    const char *scheme = endpoint->peer.tls != NULL ? "rediss" : "redis";
    size_t size = 2 * (strlen(texts->host) + strlen(texts->port) + strlen(texts->path)) +
                  strlen(texts->user) + strlen(texts->password) + strlen(texts->password_file) +
                  128;
    endpoint->memory = qn_secret_alloc(size);
    if (endpoint->memory == NULL) {
        return qn_error_nomem(err);
    }
    char *at = endpoint->memory;
    endpoint->peer.host = copy_text(&at, texts->host);
    endpoint->peer.port = copy_text(&at, texts->port);
    endpoint->peer.path = copy_text(&at, texts->path);
    endpoint->user = copy_text(&at, texts->user);
    endpoint->password = copy_text(&at, texts->password);
    endpoint->password_file = copy_text(&at, texts->password_file);
    endpoint->peer.address = at;
    size_t left = size - (size_t)(at - endpoint->memory);
    if (endpoint->mode == QN_SERVER_CLUSTER) {
        bool is_list = strchr(texts->host, ',') != NULL;
        (void)snprintf(at, left, "%s-cluster://%s%s%s%s%s", scheme, is_ipv6 && !is_list ? "[" : "",
                       texts->host, is_ipv6 && !is_list ? "]" : "", is_list ? "" : ":",
                       is_list ? "" : texts->port);
    } else if (texts->path[0] != '\0') {
        (void)snprintf(at, left, "redis-socket://%s?db=%lld", texts->path, (long long)endpoint->db);
    } else {
        (void)snprintf(at, left, "%s://%s%s%s:%s/%lld", scheme, is_ipv6 ? "[" : "", texts->host,
                       is_ipv6 ? "]" : "", texts->port, (long long)endpoint->db);
    }
    return QUERN_OK;
}

quern_status qn_endpoint_init(struct qn_endpoint *endpoint, const struct qn_url *url,
                              quern_error *err)
{
    *endpoint = (struct qn_endpoint){
        .name = "quern",
        .db = -1, /* not given */
        .peer = {.connect_timeout_ms = CONNECT_TIMEOUT_MS, .timeout_ms = COMMAND_TIMEOUT_MS},
    };
    struct draft draft = {.password = url->password, .file = ""};
    quern_status status = read_place(endpoint, url, err);
    if (status == QUERN_OK) {
        status = read_params(endpoint, url, &draft, err);
    }
    if (endpoint->db < 0) {
        endpoint->db = 0;
    }
    if (status == QUERN_OK && endpoint->mode == QN_SERVER_CLUSTER && endpoint->db != 0) {
        status =
            qn_error_set(err, QUERN_E_INVALID, "redis: a cluster has no other database than 0");
    }
    if (status == QUERN_OK) {
        bool is_tls = qn_str_starts_with(url->scheme, "rediss");
        status = qn_tls_params_read(url, is_tls, &endpoint->peer.tls, err);
    }
    if (status == QUERN_OK) {
        bool is_socket = strcmp(url->scheme, "redis-socket") == 0;
        const struct texts texts = {.host = url->host,
                                    .port = url->port[0] == '\0' ? "6379" : url->port,
                                    .path = is_socket ? url->path : "",
                                    .user = url->user,
                                    .password = draft.password,
                                    .password_file = draft.file};
        status = copy_texts(endpoint, &texts, err);
    }
    if (status != QUERN_OK) {
        qn_endpoint_finish(endpoint);
    }
    explicit_bzero(&draft, sizeof draft);
    return status;
}

void qn_endpoint_finish(struct qn_endpoint *endpoint)
{
    qn_tls_unref(endpoint->peer.tls);
    qn_secret_free(endpoint->memory);
    *endpoint = (struct qn_endpoint){.memory = NULL};
}

/* --- References ----------------------------------------------------------------------- */

/* On the heap from now on. */
static struct qn_endpoint *keep(struct qn_endpoint *endpoint)
{
    endpoint->peer.abandoned = &endpoint->abandoned;
    atomic_store(&endpoint->refs, 1);
    return endpoint;
}

quern_status qn_endpoint_new(const struct qn_url *url, const struct qn_endpoint_terms *terms,
                             struct qn_endpoint **ret_endpoint, quern_error *err)
{
    struct qn_endpoint *endpoint = qn_alloc_zero(1, sizeof *endpoint);
    if (endpoint == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_endpoint_init(endpoint, url, err);
    if (status != QUERN_OK) {
        qn_free(endpoint);
        return status;
    }
    struct qn_peer *peer = &endpoint->peer;
    peer->connect_timeout_ms =
        terms->connect_timeout_ms > 0 ? terms->connect_timeout_ms : peer->connect_timeout_ms;
    peer->timeout_ms = terms->timeout_ms > 0 ? terms->timeout_ms : peer->timeout_ms;
    peer->patience_ms = terms->patience_ms;
    *ret_endpoint = keep(endpoint);
    return QUERN_OK;
}

quern_status qn_endpoint_at(const struct qn_endpoint *model, const char *host, const char *port,
                            struct qn_endpoint **ret_endpoint, quern_error *err)
{
    struct qn_endpoint *endpoint = qn_alloc_zero(1, sizeof *endpoint);
    if (endpoint == NULL) {
        return qn_error_nomem(err);
    }
    endpoint->peer = model->peer;
    endpoint->name = model->name;
    endpoint->db = model->db;
    endpoint->mode = model->mode;
    const struct texts texts = {.host = host,
                                .port = port,
                                .path = host[0] == '\0' ? model->peer.path : "",
                                .user = model->user,
                                .password = model->password,
                                .password_file = model->password_file};
    quern_status status = copy_texts(endpoint, &texts, err);
    if (status != QUERN_OK) {
        qn_free(endpoint);
        return status;
    }
    endpoint->peer.tls = qn_tls_ref(model->peer.tls);
    *ret_endpoint = keep(endpoint);
    return QUERN_OK;
}

struct qn_endpoint *qn_endpoint_ref(struct qn_endpoint *endpoint)
{
    (void)atomic_fetch_add(&endpoint->refs, 1);
    return endpoint;
}

void qn_endpoint_unref(struct qn_endpoint *endpoint)
{
    if (endpoint != NULL && atomic_fetch_sub(&endpoint->refs, 1) == 1) {
        qn_endpoint_finish(endpoint);
        qn_free(endpoint);
    }
}
