/* SPDX-License-Identifier: MIT */
/* test_short_id.c - the beginning of a UUID in place of the whole id. */
#include <string.h>

#include "lib_contract.h"
#include "quern/inspector.h"

#define FIRST "01a20412-3122-7762-a853-c8cdf090d642"
#define SECOND "01a20412-3122-7763-a4f5-7e1ddb40faa9"
#define THIRD "01a20412-4000-7000-8000-000000000001"
#define FOURTH "01a20412-4000-7000-8000-000000000002"

static void assert_found(quern_inspector *inspector, const char *queue, const char *id,
                         const char *whole)
{
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_task_short(inspector, queue, id, &info, &err), err);
    assert_string_equal(quern_task_info_id(info), whole);
    quern_task_info_free(info);
}

static quern_error refuse(quern_inspector *inspector, const char *queue, const char *id,
                          quern_status status)
{
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_int_equal(quern_inspector_task_short(inspector, queue, id, &info, &err), status);
    assert_null(info);
    return err;
}

static void beginning_of_a_uuid_finds_its_task_in_every_state(struct contract *c)
{
    contract_put(c, "default", FIRST);
    contract_enqueue(c, &(quern_task){.type = "t", .id = SECOND, .delay_ms = 60000});
    contract_put(c, "other", THIRD);
    contract_finish(c, contract_take_id(c, "default", FIRST), QN_ARCHIVE);
    quern_inspector *inspector = contract_open_inspector(c);
    assert_found(inspector, NULL, "01a20412-3122-7762", FIRST);
    assert_found(inspector, NULL, "01a20412-3122-7763", SECOND);
    assert_found(inspector, NULL, "01a20412-4", THIRD);
    assert_found(inspector, "other", "01a20412", THIRD);
    assert_found(inspector, NULL, THIRD, THIRD);
    (void)refuse(inspector, "other", "01a20412-3", QUERN_E_NOT_FOUND);
    (void)refuse(inspector, NULL, "01a20413", QUERN_E_NOT_FOUND);
    quern_inspector_free(inspector);
}

static void beginning_of_several_is_refused_with_their_ids(struct contract *c)
{
    contract_put(c, "default", FIRST);
    contract_put(c, "default", SECOND);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = refuse(inspector, NULL, "01a20412-3122", QUERN_E_STATE);
    assert_non_null(strstr(err.text, FIRST));
    assert_non_null(strstr(err.text, SECOND));
    assert_null(strstr(err.text, "others"));
    contract_put(c, "default", THIRD);
    contract_put(c, "other", FOURTH);
    err = refuse(inspector, NULL, "01a20412", QUERN_E_STATE);
    assert_non_null(strstr(err.text, "others"));
    quern_inspector_free(inspector);
}

static void whole_id_wins_over_the_beginning_of_another(struct contract *c)
{
    contract_put(c, "default", "01a20412");
    contract_put(c, "default", FIRST);
    quern_inspector *inspector = contract_open_inspector(c);
    assert_found(inspector, NULL, "01a20412", "01a20412");
    assert_found(inspector, NULL, "01a20412-3", FIRST);
    contract_put(c, "other", FIRST);
    (void)refuse(inspector, NULL, "01a20412-3", QUERN_E_STATE); /* say which queue */
    assert_found(inspector, "other", "01a20412-3", FIRST);
    quern_inspector_free(inspector);
}

/* order-1 must not become order-10 when its task is done. */
static void only_uuids_are_completed(struct contract *c)
{
    contract_put(c, "default", "order-10000001");
    contract_put(c, "default", "01a20412-3122-7762-a853-c8cdf090d642-b");
    contract_put(c, "default", THIRD);
    quern_inspector *inspector = contract_open_inspector(c);
    static const char *const ids[] = {"order-1",  "order-1000000", "01a2041",       "01a2*",
                                      "01A20412", "01a204124",     "01a20412-3122", ""};
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        (void)refuse(inspector, NULL, ids[i], QUERN_E_NOT_FOUND);
    }
    quern_inspector_free(inspector);
}

/* More than one page of a server's walk; a queue named as if it were a pattern. */
static void one_of_many_is_found(struct contract *c)
{
    contract_put_many(c, "default", "t", 2500);
    contract_put(c, ":t:*[b]", FIRST);
    quern_inspector *inspector = contract_open_inspector(c);
    assert_found(inspector, NULL, "01a20412", FIRST);
    assert_found(inspector, ":t:*[b]", "01a20412", FIRST);
    quern_inspector_free(inspector);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(beginning_of_a_uuid_finds_its_task_in_every_state),
    CONTRACT_TEST(beginning_of_several_is_refused_with_their_ids),
    CONTRACT_TEST(whole_id_wins_over_the_beginning_of_another),
    CONTRACT_TEST(only_uuids_are_completed),
    CONTRACT_TEST(one_of_many_is_found),
};
CONTRACT_MAIN(tests)
