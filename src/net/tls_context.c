/* SPDX-License-Identifier: MIT */
/* tls_context.c - reads the files and makes OpenSSL's settings of them.
 *
 * Each file is read whole by us, with the checks of trusted_file.h, and parsed from memory. Nothing
 * prompts for a passphrase. Without a file of CAs, those of the system are used, which OpenSSL
 * looks for when it needs them.
 *
 * OpenSSL frees what its calls share when the process calls exit(), under the feet of threads that
 * go on until its end; those of a worker do. So who in this library uses OpenSSL first asks it not
 * to; there is nothing that the end of the process does not free, too. */
#include "net/tls_context.h"

#include <errno.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/trusted_file.h"

#define CA_SIZE_MAX 2097152 /* four times that of the usual list of all public CAs */
#define CERT_SIZE_MAX 262144
#define KEY_SIZE_MAX 65536
#define WORDS_SIZE 100

/* One of the files. */
struct file {
    const char *param;
    const char *path;
    bool is_secret;
    size_t size_max;
    char *data;
    BIO *bio;
};

static quern_status refuse_file(const struct file *file, const char *why, quern_error *err)
{
    ERR_clear_error();
    return qn_error_set(err, QUERN_E_INVALID, "TLS: %s=%.100s: %s", file->param, file->path, why);
}

static void close_file(struct file *file)
{
    BIO_free(file->bio);
    qn_secret_free(file->data);
}

static quern_status open_file(struct file *file, quern_error *err)
{
    size_t size = 0;
    file->data = qn_secret_alloc(file->size_max);
    if (file->data == NULL) {
        return qn_error_nomem(err);
    }
    const char *wrong =
        qn_trusted_file_read(file->path, file->is_secret, file->data, file->size_max, &size);
    if (wrong == NULL && size == file->size_max - 1) {
        wrong = "it is too large";
    }
    if (wrong != NULL) {
        close_file(file);
        return refuse_file(file, wrong, err);
    }
    file->bio = BIO_new_mem_buf(file->data, (int)size);
    if (file->bio == NULL) {
        close_file(file);
        return qn_error_nomem(err);
    }
    return QUERN_OK;
}

static int refuse_passphrase(char *out, int size, int rwflag, void *user)
{
    (void)out;
    (void)size;
    (void)rwflag;
    *(bool *)user = true;
    return -1;
}

/* Why PEM_read found nothing (more). NULL: the end of a file with something in it. */
static const char *what_ended(size_t count)
{
    unsigned long code = ERR_peek_last_error();
    bool is_end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
    if (!is_end) {
        return "a certificate in it is damaged";
    }
    ERR_clear_error();
    return count == 0 ? "no certificate in it (PEM is expected)" : NULL;
}

/* --- Whom we trust ------------------------------------------------------------------ */

/* All connections read its extensions, which OpenSSL decodes when they are asked for first: here,
 * where there is one thread. What is wrong with them is for the handshake to say. */
static void decode_extensions(X509 *certificate)
{
    (void)X509_check_purpose(certificate, -1, 0);
    ERR_clear_error();
}

static quern_status trust_certificates(SSL_CTX *context, const struct file *file, quern_error *err)
{
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    size_t count = 0;
    X509 *certificate = PEM_read_bio_X509(file->bio, NULL, NULL, NULL);
    while (certificate != NULL) {
        int added = X509_STORE_add_cert(store, certificate);
        decode_extensions(certificate);
        X509_free(certificate);
        if (added != 1) {
            return qn_error_nomem(err);
        }
        count++;
        certificate = PEM_read_bio_X509(file->bio, NULL, NULL, NULL);
    }
    const char *wrong = what_ended(count);
    return wrong == NULL ? QUERN_OK : refuse_file(file, wrong, err);
}

static quern_status read_ca(SSL_CTX *context, const char *path, quern_error *err)
{
    struct file file = {.param = "ca", .path = path, .size_max = CA_SIZE_MAX};
    quern_status status = open_file(&file, err);
    if (status == QUERN_OK) {
        status = trust_certificates(context, &file, err);
        close_file(&file);
    }
    /* Each certificate of the list is trusted by itself, also one that another CA has signed. */
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
    return status;
}

/* --- Who we are --------------------------------------------------------------------- */

static quern_status use_certificates(SSL_CTX *context, const struct file *file, quern_error *err)
{
    size_t count = 0;
    X509 *certificate = PEM_read_bio_X509(file->bio, NULL, NULL, NULL);
    while (certificate != NULL) {
        int used = count == 0 ? SSL_CTX_use_certificate(context, certificate)
                              : (int)SSL_CTX_add1_chain_cert(context, certificate);
        X509_free(certificate);
        if (used != 1) {
            char words[WORDS_SIZE];
            qn_tls_reason_words(words, sizeof words);
            return refuse_file(file, words, err);
        }
        count++;
        certificate = PEM_read_bio_X509(file->bio, NULL, NULL, NULL);
    }
    const char *wrong = what_ended(count);
    return wrong == NULL ? QUERN_OK : refuse_file(file, wrong, err);
}

static quern_status use_key(SSL_CTX *context, const struct file *file, quern_error *err)
{
    bool is_locked = false;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(file->bio, NULL, refuse_passphrase, &is_locked);
    if (key == NULL) {
        return refuse_file(file,
                           is_locked ? "it has a passphrase; store it without one, mode 600"
                                     : "no private key in it (PEM is expected)",
                           err);
    }
    int used = SSL_CTX_use_PrivateKey(context, key);
    EVP_PKEY_free(key);
    if (used != 1 || SSL_CTX_check_private_key(context) != 1) {
        return refuse_file(file, "it is not the key of the certificate", err);
    }
    return QUERN_OK;
}

static quern_status read_own(SSL_CTX *context, const struct qn_tls_options *options,
                             quern_error *err)
{
    bool is_one = options->key == NULL || options->key[0] == '\0';
    struct file cert = {
        .param = "cert", .path = options->cert, .is_secret = is_one, .size_max = CERT_SIZE_MAX};
    struct file key = {.param = is_one ? "cert" : "key",
                       .path = is_one ? options->cert : options->key,
                       .is_secret = true,
                       .size_max = KEY_SIZE_MAX};
    quern_status status = open_file(&cert, err);
    if (status == QUERN_OK) {
        status = use_certificates(context, &cert, err);
        close_file(&cert);
    }
    if (status == QUERN_OK) {
        status = open_file(&key, err);
    }
    if (status == QUERN_OK) {
        status = use_key(context, &key, err);
        close_file(&key);
    }
    return status;
}

/* --- All of it ---------------------------------------------------------------------- */

static struct qn_tls_reason *reason_of(const SSL *ssl)
{
    struct qn_tls_user *user = SSL_get_app_data(ssl);
    return &user->reason;
}

/* OpenSSL calls it when the peer asks for our certificate. */
static int note_question(SSL *ssl, void *nothing)
{
    (void)nothing;
    reason_of(ssl)->was_asked_for_one = true;
    return 1;
}

/* An alert that we send: a refused renegotiation is no failure for OpenSSL, but it is one for us.
 */
static void note_alert(const SSL *ssl, int where, int value)
{
    if ((where & SSL_CB_WRITE_ALERT) == SSL_CB_WRITE_ALERT &&
        (value & 0xff) == SSL_AD_NO_RENEGOTIATION) {
        reason_of(ssl)->is_renegotiating = true;
    }
}

static bool set_up(SSL_CTX *context)
{
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, qn_tls_reason_verify);
    SSL_CTX_set_cert_cb(context, note_question, NULL);
    SSL_CTX_set_info_callback(context, note_alert);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1;
}

quern_status qn_tls_context_new(const struct qn_tls_options *options, SSL_CTX **ret_context,
                                quern_error *err)
{
    bool has_ca = options->ca != NULL && options->ca[0] != '\0';
    bool has_cert = options->cert != NULL && options->cert[0] != '\0';
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT,
                              NULL); /* without memory, the next one fails */
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL || !set_up(context)) {
        ERR_clear_error();
        SSL_CTX_free(context);
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    if (has_ca) {
        status = read_ca(context, options->ca, err);
    } else if (SSL_CTX_set_default_verify_paths(context) != 1) {
        status = qn_error_nomem(err);
    }
    if (status == QUERN_OK && has_cert) {
        status = read_own(context, options, err);
    } else if (status == QUERN_OK && options->key != NULL && options->key[0] != '\0') {
        status = qn_error_set(err, QUERN_E_INVALID, "TLS: key= without cert=");
    }
    ERR_clear_error();
    if (status != QUERN_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *ret_context = context;
    return QUERN_OK;
}
