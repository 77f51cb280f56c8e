/* SPDX-License-Identifier: MIT */
/* unique_key.c - the name of a uniqueness lock, as asynq builds it.
 *
 * MD5 is asynq's choice and part of the key's name; it names a payload and protects nothing. An
 * OpenSSL that was configured without it (FIPS) gives QUERN_E_UNSUPPORTED. */
#include "message/asynq/unique_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#define MD5_SIZE 16
#define OWN_END ":custom"

quern_status qn_unique_key(struct qn_arena *arena, const struct qn_uniqueness *same,
                           const char **ret_key, quern_error *err)
{
    if (same->key != NULL) {
        *ret_key = qn_arena_printf(arena, "asynq:{%s}:unique:%s" OWN_END, same->queue, same->key);
        return *ret_key == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    char hex[2 * MD5_SIZE + 1] = "";
    const struct qn_bytes *payload = &same->payload;
    QN_ASSERT(payload->data != NULL || payload->size == 0);
    if (payload->data != NULL) {
        static const char digits[] = "0123456789abcdef";
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned size = 0;
        (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL); /* net/tls_context.c: why */
        if (EVP_Digest(payload->data, payload->size, digest, &size, EVP_md5(), NULL) != 1) {
            return qn_error_set(err, QUERN_E_UNSUPPORTED,
                                "unique key: this OpenSSL offers no MD5, which unique tasks need");
        }
        QN_ASSERT(size == MD5_SIZE);
        for (unsigned i = 0; i < size; i++) {
            hex[2 * i] = digits[digest[i] >> 4];
            hex[2 * i + 1] = digits[digest[i] & 0xf];
        }
    }
    const char *key =
        qn_arena_printf(arena, "asynq:{%s}:unique:%s:%s", same->queue, same->type, hex);
    if (key == NULL) {
        return qn_error_nomem(err);
    }
    *ret_key = key;
    return QUERN_OK;
}

quern_status qn_unique_key_own(struct qn_arena *arena, const char *queue, const char *lock,
                               const char **ret_key, quern_error *err)
{
    size_t prefix = strlen("asynq:{}:unique:") + strlen(queue);
    size_t end = strlen(OWN_END);
    size_t size = strlen(lock);
    if (size <= prefix + end || strcmp(lock + size - end, OWN_END) != 0) {
        *ret_key = NULL;
        return QUERN_OK;
    }
    const char *again = NULL;
    const struct qn_uniqueness same = {
        .queue = queue,
        .key = qn_arena_printf(arena, "%.*s", (int)(size - end - prefix), lock + prefix)};
    quern_status status =
        same.key == NULL ? qn_error_nomem(err) : qn_unique_key(arena, &same, &again, err);
    if (status == QUERN_OK) {
        *ret_key = strcmp(again, lock) == 0 ? same.key : NULL;
    }
    return status;
}

quern_status qn_unique_key_move(struct qn_arena *arena, const struct qn_unique_move *move,
                                const char **ret_moved, quern_error *err)
{
    const char *prefix = qn_arena_printf(arena, "asynq:{%s}:unique:", move->from);
    if (prefix == NULL) {
        return qn_error_nomem(err);
    }
    *ret_moved = NULL;
    if (strncmp(move->lock, prefix, strlen(prefix)) != 0) {
        return QUERN_OK;
    }
    *ret_moved =
        qn_arena_printf(arena, "asynq:{%s}:unique:%s", move->to, move->lock + strlen(prefix));
    return *ret_moved == NULL ? qn_error_nomem(err) : QUERN_OK;
}
