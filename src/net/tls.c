/* SPDX-License-Identifier: MIT */
/* tls.c - the settings for new connections, and the sessions to resume.
 *
 * A reload makes new settings beside the old ones and swaps them under the lock; an open connection
 * keeps a reference to those it was made with. A session is resumed only under the settings that it
 * was made with (generation): the new list of CAs may not trust that peer any more.
 *
 * PLACE_COUNT peers are remembered, the oldest is forgotten. A session is copied for each
 * connection that resumes it, as OpenSSL changes it while it is in use. */
#include "net/tls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include <openssl/err.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "net/tls_context.h"

#define PLACE_COUNT 64 /* more than the nodes of most clusters */

struct kept {
    char *place;
    SSL_SESSION *session;
};

struct qn_tls {
    _Atomic uint32_t refs;
    char *ca; /* the four never change */
    char *cert;
    char *key;
    char *server_name;
    pthread_mutex_t mutex; /* guards the rest */
    SSL_CTX *context;
    uint64_t generation; /* of the settings, from 1 */
    struct kept kept[PLACE_COUNT];
    size_t next; /* where the next place goes */
};

/* --- Sessions ----------------------------------------------------------------------- */

static void forget(struct kept *kept)
{
    SSL_SESSION_free(kept->session);
    qn_free(kept->place);
    *kept = (struct kept){.place = NULL};
}

static void forget_all(struct qn_tls *tls)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        forget(&tls->kept[i]);
    }
}

/* With mutex held. NULL: there is none. */
static struct kept *find(struct qn_tls *tls, const char *place)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        if (tls->kept[i].place != NULL && strcmp(tls->kept[i].place, place) == 0) {
            return &tls->kept[i];
        }
    }
    return NULL;
}

/* With mutex held. NULL: no memory, which costs a full handshake. */
static struct kept *make_room(struct qn_tls *tls, const char *place)
{
    struct kept *kept = find(tls, place);
    char *copy = kept == NULL ? qn_str_dup(place) : NULL;
    if (kept == NULL && copy != NULL) {
        kept = &tls->kept[tls->next];
        tls->next = (tls->next + 1) % PLACE_COUNT;
        forget(kept);
        kept->place = copy;
    }
    return kept;
}

/* OpenSSL calls it with each session that can be resumed. Returns 1 if it was kept. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    const struct qn_tls_user *user = SSL_get_app_data(ssl);
    struct qn_tls *tls = user->tls;
    (void)pthread_mutex_lock(&tls->mutex);
    struct kept *kept = user->generation == tls->generation ? make_room(tls, user->place) : NULL;
    if (kept != NULL) {
        SSL_SESSION_free(kept->session);
        kept->session = session;
    }
    (void)pthread_mutex_unlock(&tls->mutex);
    return kept != NULL ? 1 : 0;
}

/* --- Settings ----------------------------------------------------------------------- */

static quern_status make_context(const struct qn_tls *tls, SSL_CTX **ret_context, quern_error *err)
{
    const struct qn_tls_options options = {.ca = tls->ca, .cert = tls->cert, .key = tls->key};
    quern_status status = qn_tls_context_new(&options, ret_context, err);
    if (status == QUERN_OK) {
        SSL_CTX_sess_set_new_cb(*ret_context, keep_session);
    }
    return status;
}

static char *copy_text(const char *text)
{
    return qn_str_dup(text == NULL ? "" : text);
}

quern_status qn_tls_new(const struct qn_tls_options *options, struct qn_tls **ret_tls,
                        quern_error *err)
{
    struct qn_tls *tls = qn_alloc_zero(1, sizeof *tls);
    if (tls == NULL) {
        return qn_error_nomem(err);
    }
    (void)pthread_mutex_init(&tls->mutex, NULL);
    atomic_store(&tls->refs, 1);
    tls->generation = 1;
    tls->ca = copy_text(options->ca);
    tls->cert = copy_text(options->cert);
    tls->key = copy_text(options->key);
    tls->server_name = copy_text(options->server_name);
    quern_status status = QUERN_OK;
    if (tls->ca == NULL || tls->cert == NULL || tls->key == NULL || tls->server_name == NULL) {
        status = qn_error_nomem(err);
    } else {
        status = make_context(tls, &tls->context, err);
    }
    if (status != QUERN_OK) {
        qn_tls_unref(tls);
        return status;
    }
    *ret_tls = tls;
    return QUERN_OK;
}

struct qn_tls *qn_tls_ref(struct qn_tls *tls)
{
    if (tls != NULL) {
        (void)atomic_fetch_add(&tls->refs, 1);
    }
    return tls;
}

void qn_tls_unref(struct qn_tls *tls)
{
    if (tls == NULL || atomic_fetch_sub(&tls->refs, 1) != 1) {
        return;
    }
    forget_all(tls);
    SSL_CTX_free(tls->context);
    (void)pthread_mutex_destroy(&tls->mutex);
    qn_free(tls->ca);
    qn_free(tls->cert);
    qn_free(tls->key);
    qn_free(tls->server_name);
    qn_free(tls);
}

quern_status qn_tls_reload(struct qn_tls *tls, quern_error *err)
{
    SSL_CTX *fresh = NULL;
    quern_status status = make_context(tls, &fresh, err);
    if (status != QUERN_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&tls->mutex);
    SSL_CTX *old = tls->context;
    tls->context = fresh;
    tls->generation++;
    forget_all(tls);
    (void)pthread_mutex_unlock(&tls->mutex);
    SSL_CTX_free(old);
    return QUERN_OK;
}

/* --- Connections -------------------------------------------------------------------- */

const char *qn_tls_server_name(const struct qn_tls *tls, const char *host)
{
    return tls->server_name[0] != '\0' ? tls->server_name : host;
}

struct ssl_st *qn_tls_ssl_new(struct qn_tls *tls, struct qn_tls_user *user)
{
    SSL_SESSION *session = NULL;
    user->tls = tls;
    (void)pthread_mutex_lock(&tls->mutex);
    SSL *ssl = SSL_new(tls->context); /* takes a reference to the settings */
    const struct kept *kept = find(tls, user->place);
    if (ssl != NULL && kept != NULL) {
        session = SSL_SESSION_dup(kept->session);
    }
    user->generation = tls->generation;
    (void)pthread_mutex_unlock(&tls->mutex);
    if (ssl == NULL || SSL_set_app_data(ssl, user) != 1) {
        SSL_SESSION_free(session);
        SSL_free(ssl);
        return NULL;
    }
    user->reason.has_certificate = SSL_get_certificate(ssl) != NULL;
    if (session != NULL) {
        (void)SSL_set_session(ssl, session); /* else it is a full handshake */
        SSL_SESSION_free(session);
    }
    return ssl;
}
