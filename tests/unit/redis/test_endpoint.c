/* SPDX-License-Identifier: MIT */
/* test_endpoint.c - which URLs name a Redis server, which are refused, and that the password is in
 * no address and in no error. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib_test.h"
#include "redis/endpoint.h"

static quern_status read_endpoint(const char *text, struct qn_endpoint *endpoint, quern_error *err)
{
    struct qn_url url;
    quern_status status = qn_url_parse(text, &url, err);
    if (status == QUERN_OK) {
        status = qn_endpoint_init(endpoint, &url, err);
        qn_url_finish(&url);
    }
    return status;
}

static void a_url_names_place_user_and_database(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *host;
        const char *port;
        const char *path;
        const char *user;
        const char *password;
        const char *address;
        int64_t db;
    } cases[] = {
        {"redis://localhost", "localhost", "6379", "", "", "", "redis://localhost:6379/0", 0},
        {"redis://a.b:7/", "a.b", "7", "", "", "", "redis://a.b:7/0", 0},
        {"redis://a:7/12", "a", "7", "", "", "", "redis://a:7/12", 12},
        {"redis://a?db=3", "a", "6379", "", "", "", "redis://a:6379/3", 3},
        {"redis://[::1]:7/1", "::1", "7", "", "", "", "redis://[::1]:7/1", 1},
        {"redis://:s%40cret@a", "a", "6379", "", "", "s@cret", "redis://a:6379/0", 0},
        {"redis://me:s@a/2", "a", "6379", "", "me", "s", "redis://a:6379/2", 2},
        {"rediss://a/2", "a", "6379", "", "", "", "rediss://a:6379/2", 2},
        {"redis-socket:///run/r.sock", "", "6379", "/run/r.sock", "", "",
         "redis-socket:///run/r.sock?db=0", 0},
        {"redis-socket://:pw@/run/r.sock?db=9", "", "6379", "/run/r.sock", "", "pw",
         "redis-socket:///run/r.sock?db=9", 9},
        {"redis-socket://me:pw@/r%20s", "", "6379", "/r s", "me", "pw", "redis-socket:///r s?db=0",
         0},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        struct qn_endpoint endpoint;
        assert_ok(read_endpoint(cases[i].url, &endpoint, &err), err);
        assert_string_equal(endpoint.peer.host, cases[i].host);
        assert_string_equal(endpoint.peer.port, cases[i].port);
        assert_string_equal(endpoint.peer.path, cases[i].path);
        assert_string_equal(endpoint.user, cases[i].user);
        assert_string_equal(endpoint.password, cases[i].password);
        assert_string_equal(endpoint.peer.address, cases[i].address);
        assert_int_equal(endpoint.db, cases[i].db);
        qn_endpoint_finish(&endpoint);
        qn_endpoint_finish(&endpoint);
    }
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *words;
    } cases[] = {
        {"redis://", "names no host"},
        {"redis:///3", "names no host"},
        {"redis://hidden:hidden@", "names no host"},
        {"redis://:hidden@a/x", "the database is a number"},
        {"redis://:hidden@a/-1", "the database is a number"},
        {"redis://:hidden@a/1/2", "the database is a number"},
        {"redis://:hidden@a?db=", "the database is a number"},
        {"redis://:hidden@a?db=99999999999999999999", "the database is a number"},
        {"redis://:hidden@a/1?db=2", "twice"},
        {"redis://:hidden@a?dbx=1", "unknown parameter \"dbx\"; there are db, password_file"},
        {"redis://a?password=hidden", "unknown parameter \"password\""},
        {"redis://:hidden@a?password_file=/nowhere", "a password and a password_file"},
        {"redis://a?password_file=/nowhere/x", "password_file /nowhere/x: No such file"},
        {"redis://a?password_env=X", "password_env"},
        {"redis://:hidden@a?ca=/x", "\"ca\" needs TLS: write rediss://"},
        {"rediss://:hidden@a?ca=/nowhere/x", "TLS: ca=/nowhere/x: No such file"},
        {"rediss://a?ca=/x&ssl_ca_certs=/x", "given twice"},
        {"rediss://a?ca=", "is empty"},
        {"rediss://a?key=/x", "key= without cert="},
        {"rediss://a?ssl_cert_reqs=CERT_NONE", "always checked"},
        {"rediss://a?ssl_check_hostname=False", "always checked"},
        {"redis-socket://", "three slashes"},
        {"redis-socket:///", "three slashes"},
        {"redis-socket://run/r.sock", "three slashes"},
        {"redis-socket:///0123456789012345678901234567890123456789012345678901234567890123456789"
         "0123456789012345678901234567890123456789",
         "too long"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        struct qn_endpoint endpoint;
        assert_int_equal(read_endpoint(cases[i].url, &endpoint, &err), QUERN_E_INVALID);
        if (strstr(err.text, cases[i].words) == NULL) {
            fail_msg("%s: %s", cases[i].url, err.text);
        }
        assert_null(strstr(err.text, "hidden"));
    }
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

static void the_password_is_the_first_line_of_a_file(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *password; /* NULL: refused */
    } cases[] = {
        {"s3cret", "s3cret"},         {"s3cret\n", "s3cret"}, {"s3cret\r\nmore\n", "s3cret"},
        {"with space", "with space"}, {"\ns3cret", NULL},     {"", NULL},
    };
    char dir[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 16];
    char url[TEST_DIR_SIZE + 64];
    test_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/pw", dir);
    (void)snprintf(url, sizeof url, "redis://me@a?password_file=%s", path);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        struct qn_endpoint endpoint;
        write_file(path, cases[i].text);
        quern_status status = read_endpoint(url, &endpoint, &err);
        if (cases[i].password == NULL) {
            assert_int_equal(status, QUERN_E_INVALID);
            assert_null(strstr(err.text, "s3cret"));
        } else {
            assert_ok(status, err);
            assert_string_equal(endpoint.password, cases[i].password);
            assert_null(strstr(endpoint.peer.address, cases[i].password));
            qn_endpoint_finish(&endpoint);
        }
    }
    test_dir_remove(dir);
}

static void password_file_that_others_could_change_is_refused(void **state)
{
    (void)state;
    char dir[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 16];
    char url[TEST_DIR_SIZE + 64];
    struct qn_endpoint endpoint;
    quern_error err = {0};
    test_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/pw", dir);
    (void)snprintf(url, sizeof url, "redis://me@a?password_file=%s", path);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it would wait for a writer */
    assert_int_equal(read_endpoint(url, &endpoint, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(unlink(path), 0);
    write_file(path, "s3cret");
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(read_endpoint(url, &endpoint, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "others may write to it"));
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(read_endpoint(url, &endpoint, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "every user may replace it"));
    assert_int_equal(chmod(dir, 01777), 0);
    assert_int_equal(read_endpoint(url, &endpoint, &err), QUERN_OK);
    qn_endpoint_finish(&endpoint);
    assert_int_equal(chmod(dir, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(read_endpoint(url, &endpoint, &err), QUERN_E_INVALID);
        assert_non_null(strstr(err.text, "belongs to another user"));
    } else {
        assert_int_equal(chmod(path, 0644), 0);
        assert_int_equal(read_endpoint(url, &endpoint, &err), QUERN_E_INVALID);
        assert_non_null(strstr(err.text, "every user may read it"));
    }
    test_dir_remove(dir);
}

/* The flags of the mapping that this address is in, as the kernel names them. */
static bool is_left_out_of_core_dumps(const void *address)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    unsigned long first = 0;
    unsigned long end = 0;
    bool inside = false;
    bool left_out = false;
    if (file == NULL) {
        TEST_SKIP("this kernel has no /proc/self/smaps");
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &first, &end) == 2) {
            inside = (uintptr_t)address >= first && (uintptr_t)address < end;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            left_out = strstr(line, " dd") != NULL;
        }
    }
    assert_int_equal(fclose(file), 0);
    return left_out;
}

static void memory_of_passwords_is_in_no_core_dump(void **state)
{
    (void)state;
    struct qn_endpoint endpoint;
    struct qn_url url;
    quern_error err = {0};
    assert_ok(qn_url_parse("redis://me:s3cret@a", &url, &err), err);
    assert_true(is_left_out_of_core_dumps(url.password));
    assert_ok(qn_endpoint_init(&endpoint, &url, &err), err);
    qn_url_finish(&url);
    assert_string_equal(endpoint.password, "s3cret");
    assert_true(is_left_out_of_core_dumps(endpoint.password));
    qn_endpoint_finish(&endpoint);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_url_names_place_user_and_database),
    cmocka_unit_test(what_is_wrong_is_named),
    cmocka_unit_test(the_password_is_the_first_line_of_a_file),
    cmocka_unit_test(password_file_that_others_could_change_is_refused),
    cmocka_unit_test(memory_of_passwords_is_in_no_core_dump),
};
TEST_MAIN(tests)
