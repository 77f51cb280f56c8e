/* SPDX-License-Identifier: MIT */
/* test_symbols.c - names of functions, and files that are no longer what they were. */
#include "base/symbols.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib_test.h"

static __attribute__((noinline)) int hidden(int number)
{
    return number * 3;
}

static void a_static_function_is_found_by_any_of_its_addresses(void **state)
{
    (void)state;
    static struct qn_symbols symbols;
    qn_symbols_load(&symbols);
    uintptr_t address = (uintptr_t)hidden;
    assert_true(symbols.count > 0);
    assert_string_equal(qn_symbols_find(&symbols, address), "hidden");
    assert_string_equal(qn_symbols_find(&symbols, address + 1), "hidden");
    assert_null(qn_symbols_find(&symbols, (uintptr_t)&symbols));
    assert_null(qn_symbols_find(&symbols, 0));
    assert_null(qn_symbols_find(&symbols, UINTPTR_MAX));
    assert_int_equal(hidden(2), 6);
}

/* Reads all of its table. */
static void look_at(int fd)
{
    struct qn_symbols symbols = {.count = 1};
    struct qn_symbols_object *object = &symbols.objects[0];
    if (qn_symbols_map(fd, object)) {
        object->end = UINTPTR_MAX;
        for (uintptr_t address = 0; address < 1 << 20; address += 4096) {
            const char *name = qn_symbols_find(&symbols, address);
            assert_true(name == NULL || strlen(name) < object->names_size);
        }
        assert_null(qn_symbols_find(&symbols, UINTPTR_MAX));
    }
}

/* The first bytes of our program, with its section headers behind them. */
static int copy_program(const char *data, size_t size)
{
    int fd = memfd_create("copy", MFD_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t at = 0; at < size;) {
        ssize_t done = pwrite(fd, data + at, size - at, (off_t)at);
        assert_true(done > 0);
        at += (size_t)done;
    }
    return fd;
}

static char *read_program(size_t *ret_size)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    off_t size = lseek(fd, 0, SEEK_END);
    char *data = malloc((size_t)size);
    assert_non_null(data);
    for (off_t at = 0; at < size;) {
        ssize_t done = pread(fd, data + at, (size_t)(size - at), at);
        assert_true(done > 0);
        at += done;
    }
    (void)close(fd);
    *ret_size = (size_t)size;
    return data;
}

static void damaged_files_have_no_names_or_those_that_are_there(void **state)
{
    (void)state;
    size_t size = 0;
    char *data = read_program(&size);
    ElfW(Ehdr) head;
    memcpy(&head, data, sizeof head);
    int fd = copy_program(data, size);
    look_at(fd);
    for (size_t i = 0; i < 4000; i++) {
        bool in_head = i % 4 == 0;
        size_t room = in_head ? sizeof head : head.e_shnum * sizeof(ElfW(Shdr));
        size_t at = (in_head ? 0 : head.e_shoff) + (size_t)rand() % room;
        char odd = (char)(i % 3 == 0 ? 0xff : i % 3 == 1 ? 0 : rand());
        assert_int_equal(pwrite(fd, &odd, 1, (off_t)at), 1);
        look_at(fd);
        assert_int_equal(pwrite(fd, data + at, 1, (off_t)at), 1);
    }
    const size_t sizes[] = {0, 1, sizeof head - 1, sizeof head, head.e_shoff, size / 2, size - 1};
    for (size_t i = TEST_COUNT(sizes); i-- > 0;) {
        assert_int_equal(ftruncate(fd, (off_t)sizes[i]), 0);
        look_at(fd);
    }
    (void)close(fd);
    free(data);
}

static void what_is_no_file_has_none(void **state)
{
    (void)state;
    struct qn_symbols_object object;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_false(qn_symbols_map(fds[0], &object));
    assert_false(qn_symbols_map(-1, &object));
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_static_function_is_found_by_any_of_its_addresses),
        cmocka_unit_test(damaged_files_have_no_names_or_those_that_are_there),
        cmocka_unit_test(what_is_no_file_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
