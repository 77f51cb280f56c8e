/* SPDX-License-Identifier: MIT */
/* test_tls_memory.c - memory runs out somewhere in TLS: at each allocation of ours and of OpenSSL,
 * one after the other, the connection fails with a status, or does without, and all goes on. */
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/memory/alloc.h"
#include "lib_tls_bench.h"

static _Thread_local long allowed = -1; /* allocations of this thread; negative: any number */

static bool may_allocate(void)
{
    if (allowed > 0) {
        allowed--;
    }
    return allowed != 0;
}

static void *give(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return may_allocate() ? malloc(size) : NULL;
}

static void *resize(void *block, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return may_allocate() ? realloc(block, size) : NULL;
}

static void take(void *block, const char *file, int line)
{
    (void)file;
    (void)line;
    free(block);
}

/* The linker puts these in the place of ours. */
void *__real_qn_alloc(size_t size);
void *__wrap_qn_alloc(size_t size);
void *__wrap_qn_alloc(size_t size)
{
    return may_allocate() ? __real_qn_alloc(size) : NULL;
}

void *__real_qn_alloc_zero(size_t count, size_t size);
void *__wrap_qn_alloc_zero(size_t count, size_t size);
void *__wrap_qn_alloc_zero(size_t count, size_t size)
{
    return may_allocate() ? __real_qn_alloc_zero(count, size) : NULL;
}

/* Connects, and gets an echo, with only so many allocations. */
static quern_status try_connection(struct bench *bench, long allocations)
{
    char answer[8];
    allowed = allocations;
    quern_status status = tls_connect(bench);
    status = status == QUERN_OK ? tls_send(bench, "hello", 5) : status;
    status = status == QUERN_OK ? tls_receive(bench, answer, 5) : status;
    allowed = -1;
    qn_socket_close(&bench->socket);
    return status;
}

static void an_allocation_that_fails_costs_one_connection(void **state)
{
    (void)state;
    struct bench bench;
    tls_begin(&bench, &(struct test_tls_server_options){0}, &tls_usual);
    assert_int_equal(try_connection(&bench, -1), QUERN_OK); /* OpenSSL makes what it keeps */
    quern_status status = QUERN_E_NOMEM;
    long step = getenv("QUERN_TEST_FULL") != NULL ? 1 : 17;
    for (long i = 1; status != QUERN_OK || i < 100; i += step) {
        status = try_connection(&bench, i);
        if (status != QUERN_OK && status != QUERN_E_NOMEM && status != QUERN_E_CONNECT) {
            fail_msg("%ld: %s", i, bench.err.text);
        }
        assert_true(status == QUERN_OK || bench.err.text[0] != '\0');
        assert_true(i < 100000);
    }
    assert_int_equal(try_connection(&bench, -1), QUERN_OK);
    tls_end(&bench);
}

static void a_reload_without_memory_changes_nothing(void **state)
{
    (void)state;
    struct bench bench;
    tls_begin(&bench, &(struct test_tls_server_options){0}, &tls_usual);
    quern_status status = QUERN_E_NOMEM;
    long step = getenv("QUERN_TEST_FULL") != NULL ? 1 : 17;
    for (long i = 1; status != QUERN_OK; i += step) {
        allowed = i;
        status = qn_tls_reload(bench.peer.tls, &bench.err);
        allowed = -1;
        assert_true(i < 100000);
    }
    assert_int_equal(try_connection(&bench, -1), QUERN_OK);
    tls_end(&bench);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_allocation_that_fails_costs_one_connection),
    cmocka_unit_test(a_reload_without_memory_changes_nothing),
};

int main(int argc, char **argv)
{
    if (CRYPTO_set_mem_functions(give, resize, take) != 1) {
        return 1;
    }
    return tls_main(argc, argv, tests, TEST_COUNT(tests));
}
