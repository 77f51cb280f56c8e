/* SPDX-License-Identifier: MIT */
/* test_options.c - the fields of quern_task are stored unchanged, or an error names the field; and
 * the life of the client itself. */
#include "lib_client.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "task/retry.h"

static void every_option_is_stored_and_read_back(void **state)
{
    struct client_test *t = *state;
    const quern_header headers[] = {{"trace", "abc"}, {"empty", NULL}};
    const quern_task task = {
        .type = "image:resize",
        .payload = "a\0b",
        .payload_size = 3,
        .id = "my id",
        .queue = "pictures",
        .retry_max = 7,
        .delay_ms = 1500,
        .timeout_ms = 2500,
        .deadline_at_ms = CLIENT_NOW_MS + 3600000,
        .unique_ms = 60000,
        .retention_ms = 86400000,
        .headers = headers,
        .header_count = 2,
        .retry = QUERN_BACKOFF_EXPONENTIAL(200, 5000),
    };
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);

    quern_task_info *info = client_find(t, "pictures", "my id");
    assert_non_null(info);
    size_t size = 0;
    assert_string_equal(quern_task_info_type(info), "image:resize");
    assert_memory_equal(quern_task_info_payload(info, &size), "a\0b", 3);
    assert_int_equal(size, 3);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_SCHEDULED);
    assert_int_equal(quern_task_info_due_at_ms(info), CLIENT_NOW_MS + 1500);
    assert_int_equal(quern_task_info_retry_max(info), 7);
    assert_int_equal(quern_task_info_timeout_ms(info), 2500);
    assert_int_equal(quern_task_info_deadline_at_ms(info), CLIENT_NOW_MS + 3600000);
    assert_int_equal(quern_task_info_retention_ms(info), 86400000);
    assert_int_equal(quern_task_info_enqueued_at_ms(info), CLIENT_NOW_MS);
    assert_int_equal(quern_task_info_header_count(info), 2);
    const quern_header *stored = quern_task_info_headers(info);
    size_t trace = strcmp(stored[0].name, "trace") == 0 ? 0 : 1; /* order is not promised */
    assert_string_equal(stored[trace].name, "trace");
    assert_string_equal(stored[trace].value, "abc");
    assert_string_equal(stored[1 - trace].name, "empty");
    assert_string_equal(stored[1 - trace].value, "");
    assert_int_equal(info->task.retry.kind, QN_BACKOFF_EXPONENTIAL);
    assert_int_equal(info->task.retry.base_ms, 200);
    assert_int_equal(info->task.retry.cap_ms, 5000);
    quern_task_info_free(info);
}

static void defaults_are_those_of_the_headers(void **state)
{
    struct client_test *t = *state;
    const quern_task task = {.type = "plain"};
    quern_task_info *returned = NULL;
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, &returned, &err), err);
    assert_int_equal(strlen(quern_task_info_id(returned)), 36);

    quern_task_info *info = client_find(t, "default", quern_task_info_id(returned));
    assert_non_null(info);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
    assert_int_equal(quern_task_info_retry_max(info), 25);
    assert_int_equal(quern_task_info_timeout_ms(info), 30 * 60 * 1000);
    assert_int_equal(quern_task_info_deadline_at_ms(info), 0);
    assert_int_equal(quern_task_info_retention_ms(info), 0);
    assert_string_equal(quern_task_info_group(info), "");
    assert_int_equal(quern_task_info_header_count(info), 0);
    quern_task_info_free(info);
    quern_task_info_free(returned);
}

static void returned_info_shows_what_was_stored(void **state)
{
    struct client_test *t = *state;
    const quern_task task = {
        .type = "later", .queue = "q", .id = "x", .process_at_ms = CLIENT_NOW_MS + 9};
    quern_task_info *returned = NULL;
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, &returned, &err), err);
    quern_task_info *info = client_find(t, "q", "x");
    assert_non_null(info);
    assert_string_equal(quern_task_info_id(returned), "x");
    assert_string_equal(quern_task_info_queue(returned), "q");
    assert_string_equal(quern_task_info_type(returned), quern_task_info_type(info));
    assert_int_equal(quern_task_info_state(returned), quern_task_info_state(info));
    assert_int_equal(quern_task_info_due_at_ms(returned), CLIENT_NOW_MS + 9);
    assert_int_equal(quern_task_info_due_at_ms(info), CLIENT_NOW_MS + 9);
    assert_int_equal(quern_task_info_enqueued_at_ms(returned),
                     quern_task_info_enqueued_at_ms(info));
    assert_int_equal(quern_task_info_retry_max(returned), quern_task_info_retry_max(info));
    quern_task_info_free(info);
    quern_task_info_free(returned);
}

static void constants_turn_retries_and_timeout_off(void **state)
{
    struct client_test *t = *state;
    const quern_task task = {.type = "once",
                             .id = "x",
                             .retry_max = QUERN_RETRY_NEVER,
                             .timeout_ms = QUERN_TIMEOUT_NEVER};
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    quern_task_info *info = client_find(t, NULL, "x");
    assert_non_null(info);
    assert_int_equal(quern_task_info_retry_max(info), QUERN_RETRY_NEVER);
    assert_int_equal(quern_task_info_timeout_ms(info), QUERN_TIMEOUT_NEVER);
    quern_task_info_free(info);
}

static void a_task_with_a_group_is_stored_as_aggregating(void **state)
{
    struct client_test *t = *state;
    const quern_task task = {.type = "mail", .id = "x", .group = "user 7"};
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    quern_task_info *info = client_find(t, NULL, "x");
    assert_non_null(info);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_AGGREGATING);
    assert_string_equal(quern_task_info_group(info), "user 7");
    assert_int_equal(quern_task_info_grouped_at_ms(info), CLIENT_NOW_MS);
    quern_task_info_free(info);
}

static char long_name[300];
static const quern_header nameless[] = {{"", "x"}};
static const quern_header bad_value[] = {{"n", "\xff"}};

static const struct {
    const char *field;
    quern_task task;
} refused[] = {
    {"type", {.type = NULL}},
    {"type", {.type = ""}},
    {"type", {.type = " \t "}},
    {"type", {.type = long_name}},
    {"type", {.type = "a\nb"}},
    {"type", {.type = "\xc3\x28"}},
    {"id", {.type = "t", .id = ""}},
    {"id", {.type = "t", .id = "  "}},
    {"id", {.type = "t", .id = long_name}},
    {"queue", {.type = "t", .queue = ""}},
    {"queue", {.type = "t", .queue = " "}},
    {"queue", {.type = "t", .queue = long_name}},
    {"queue", {.type = "t", .queue = "a\x01"}},
    {"queue", {.type = "t", .queue = "{a}"}},
    {"group", {.type = "t", .group = long_name}},
    {"retry_max", {.type = "t", .retry_max = -2}},
    {"delay_ms", {.type = "t", .delay_ms = -1}},
    {"delay_ms", {.type = "t", .delay_ms = 1, .process_at_ms = 1}},
    {"delay_ms", {.type = "t", .delay_ms = INT64_MAX}},
    {"process_at_ms", {.type = "t", .process_at_ms = -1}},
    {"timeout_ms", {.type = "t", .timeout_ms = -2}},
    {"deadline_at_ms", {.type = "t", .deadline_at_ms = -1}},
    {"unique_ms", {.type = "t", .unique_ms = -1}},
    {"unique_ms", {.type = "t", .unique_ms = 999}},
    {"retention_ms", {.type = "t", .retention_ms = -1}},
    {"payload", {.type = "t", .payload_size = 1}},
    {"header", {.type = "t", .headers = nameless, .header_count = 1}},
    {"header", {.type = "t", .headers = bad_value, .header_count = 1}},
    {"header", {.type = "t", .header_count = 1}},
    {"header", {.type = "t", .headers = nameless, .header_count = 65}},
    {"retry", {.type = "t", .retry = {.kind = 99}}},
    {"retry", {.type = "t", .retry = QUERN_BACKOFF_FIXED(-1)}},
    {"retry", {.type = "t", .retry = QUERN_BACKOFF_EXPONENTIAL(100, 10)}},
};

static void every_validation_error_names_its_field(void **state)
{
    struct client_test *t = *state;
    memset(long_name, 'n', 257);
    for (size_t i = 0; i < TEST_COUNT(refused); i++) {
        quern_error err = {0};
        quern_status status = quern_client_enqueue(t->client, &refused[i].task, NULL, &err);
        if (status != QUERN_E_INVALID || err.code != status ||
            strstr(err.text, refused[i].field) == NULL) {
            fail_msg("case %zu (%s): %s \"%s\"", i, refused[i].field, quern_status_name(status),
                     err.text);
        }
    }
    assert_int_equal(client_stored(t), 0);
}

static void a_payload_over_the_limit_is_refused(void **state)
{
    struct client_test *t = *state;
    client_reopen(t, &(quern_client_options){.payload_size_max = 8});
    quern_task task = {.type = "t", .payload = "123456789", .payload_size = 9};
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue(t->client, &task, NULL, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "payload"));
    task.payload_size = 8;
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    assert_int_equal(client_stored(t), 1);
}

static void a_second_equal_unique_task_is_a_duplicate(void **state)
{
    struct client_test *t = *state;
    const quern_task task = {.type = "sync", .unique_ms = 1000};
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    assert_int_equal(quern_client_enqueue(t->client, &task, NULL, &err), QUERN_E_DUPLICATE);
    assert_int_equal(err.code, QUERN_E_DUPLICATE);
    assert_non_null(strstr(err.text, "sync"));
    assert_int_equal(client_stored(t), 1);
}

static void a_second_task_with_the_same_id_is_a_conflict(void **state)
{
    struct client_test *t = *state;
    quern_task task = {.type = "a", .id = "order 5"};
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    task.type = "b";
    assert_int_equal(quern_client_enqueue(t->client, &task, &info, &err), QUERN_E_CONFLICT);
    assert_non_null(info);
    assert_string_equal(quern_task_info_id(info), "order 5");
    assert_string_equal(quern_task_info_type(info), "a");
    quern_task_info_free(info);
    assert_non_null(strstr(err.text, "order 5"));
    task.queue = "another"; /* an id is unique in its queue only */
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    info = client_find(t, "default", "order 5");
    assert_non_null(info);
    assert_string_equal(quern_task_info_type(info), "a");
    quern_task_info_free(info);
}

static const struct {
    const char *field;
    quern_client_options options;
} refused_options[] = {
    {"connect_timeout_ms", {.connect_timeout_ms = -1}},
    {"command_timeout_ms", {.command_timeout_ms = -1}},
    {"interval_start_ms", {.interval_start_ms = -1}},
    {"interval_step_ms", {.interval_step_ms = 86400001}},
    {"interval_max_ms", {.interval_start_ms = 2, .interval_max_ms = 1}},
    {"max_retries", {.max_retries = UINT32_MAX}},
    {"reserved_too", {.reserved_too = 1}},
    {"payload_size_max", {.payload_size_max = ((size_t)512 << 20) + 1}},
};

static void bad_options_of_the_client_are_named(void **state)
{
    struct client_test *t = *state;
    quern_client *client = NULL;
    quern_error err = {0};
    for (size_t i = 0; i < TEST_COUNT(refused_options); i++) {
        assert_int_equal(quern_client_open(t->url, &refused_options[i].options, &client, &err),
                         QUERN_E_INVALID);
        assert_non_null(strstr(err.text, refused_options[i].field));
        assert_null(client);
    }
}

static void options_of_a_newer_header_are_refused_unless_zero(void **state)
{
    struct client_test *t = *state;
    struct {
        quern_task task;
        char newer[16];
    } large = {.task = {.type = "t"}};
    quern_error err = {0};
    assert_ok(quern_client_enqueue_sized(t->client, &large.task, sizeof large, NULL, &err), err);
    large.newer[3] = 1;
    assert_int_equal(quern_client_enqueue_sized(t->client, &large.task, sizeof large, NULL, &err),
                     QUERN_E_INVALID);
    assert_int_equal(client_stored(t), 1);
}

static void a_task_of_an_older_header_gets_defaults_for_the_rest(void **state)
{
    struct client_test *t = *state;
    quern_task task = {.type = "t", .id = "x"};
    memset(&task.retry, 0xff, sizeof task.retry); /* not part of the older struct */
    quern_error err = {0};
    assert_ok(quern_client_enqueue_sized(t->client, &task, offsetof(quern_task, retry), NULL, &err),
              err);
    quern_task_info *info = client_find(t, NULL, "x");
    assert_non_null(info);
    assert_int_equal(info->task.retry.kind, QN_BACKOFF_DEFAULT);
    quern_task_info_free(info);
}

static void a_fork_of_the_program_is_refused(void **state)
{
    struct client_test *t = *state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const quern_task task = {.type = "t"};
        quern_error err = {0};
        bool refused_one = quern_client_enqueue(t->client, &task, NULL, &err) == QUERN_E_CLOSED &&
                           err.text[0] != '\0';
        bool refused_many =
            quern_client_enqueue_batch(t->client, &task, 1, NULL, NULL) == QUERN_E_CLOSED;
        quern_client_wake(t->client);
        quern_client_free(t->client);
        quern_client *own = NULL;
        bool opened = quern_client_open(t->url, NULL, &own, NULL) == QUERN_OK &&
                      quern_client_enqueue(own, &task, NULL, NULL) == QUERN_OK;
        quern_client_free(own);
        _exit(refused_one && refused_many && opened ? 0 : 1);
    }
    int end = 0;
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_int_equal(end, 0);
    const quern_task task = {.type = "t"};
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    assert_int_equal(client_stored(t), 2); /* the child's own and ours */
}

static void null_arguments_are_refused(void **state)
{
    struct client_test *t = *state;
    const quern_task task = {.type = "t"};
    quern_client *client = NULL;
    assert_int_equal(quern_client_open(NULL, NULL, &client, NULL), QUERN_E_INVALID);
    assert_int_equal(quern_client_open(t->url, NULL, NULL, NULL), QUERN_E_INVALID);
    assert_int_equal(quern_client_enqueue(NULL, &task, NULL, NULL), QUERN_E_INVALID);
    assert_int_equal(quern_client_enqueue(t->client, NULL, NULL, NULL), QUERN_E_INVALID);
    assert_int_equal(quern_client_enqueue_batch(t->client, NULL, 1, NULL, NULL), QUERN_E_INVALID);
    quern_client_wake(NULL);
    quern_client_free(NULL);
}

static const struct CMUnitTest tests[] = {
    CLIENT_TEST(every_option_is_stored_and_read_back),
    CLIENT_TEST(defaults_are_those_of_the_headers),
    CLIENT_TEST(returned_info_shows_what_was_stored),
    CLIENT_TEST(constants_turn_retries_and_timeout_off),
    CLIENT_TEST(a_task_with_a_group_is_stored_as_aggregating),
    CLIENT_TEST(every_validation_error_names_its_field),
    CLIENT_TEST(a_payload_over_the_limit_is_refused),
    CLIENT_TEST(a_second_equal_unique_task_is_a_duplicate),
    CLIENT_TEST(a_second_task_with_the_same_id_is_a_conflict),
    CLIENT_TEST(bad_options_of_the_client_are_named),
    CLIENT_TEST(options_of_a_newer_header_are_refused_unless_zero),
    CLIENT_TEST(a_task_of_an_older_header_gets_defaults_for_the_rest),
    CLIENT_TEST(a_fork_of_the_program_is_refused),
    CLIENT_TEST(null_arguments_are_refused),
};
TEST_MAIN(tests)
