/* SPDX-License-Identifier: MIT */
/* facts.c - collects the facts of a broker in their order; used by stats, db info and doctor. */
#include "cli/verbs/facts.h"

#include <string.h>

#include "cli/output/output.h"

static void add_fact(const char *name, const char *text, void *user)
{
    qn_json_set_bytes(user, name, text, strlen(text));
}

int qn_facts_read(const struct qn_cli *cli, quern_inspector *inspector, json_t **ret_facts)
{
    quern_error err;
    json_t *facts = qn_cli_must(json_object());
    if (quern_inspector_broker(inspector, add_fact, facts, &err) != QUERN_OK) {
        json_decref(facts);
        return qn_cli_fail(cli, &err);
    }
    *ret_facts = facts;
    return QN_EXIT_OK;
}

void qn_facts_print(json_t *facts)
{
    for (void *iterator = json_object_iter(facts); iterator != NULL;
         iterator = json_object_iter_next(facts, iterator)) {
        const char *text = json_string_value(json_object_iter_value(iterator));
        qn_field_text(json_object_iter_key(iterator), text == NULL ? "" : text);
    }
}
