/* SPDX-License-Identifier: MIT */
/* server_info.c - collects what the broker reports about itself, in its order; used by stats, db
 * info and doctor. */
#include "cli/verbs/server_info.h"

#include <string.h>

#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"

static void add_item(const char *name, const char *text, void *user)
{
    qn_json_set_bytes(user, name, text, strlen(text));
}

int qn_server_info_read(const struct qn_cli *cli, quern_inspector *inspector, json_t **ret_info)
{
    quern_error err;
    json_t *server_info = qn_memory_must(json_object());
    if (quern_inspector_broker(inspector, add_item, server_info, &err) != QUERN_OK) {
        json_decref(server_info);
        return qn_cli_fail(cli, &err);
    }
    *ret_info = server_info;
    return QN_EXIT_OK;
}

void qn_server_info_print(json_t *server_info)
{
    for (void *iterator = json_object_iter(server_info); iterator != NULL;
         iterator = json_object_iter_next(server_info, iterator)) {
        const char *text = json_string_value(json_object_iter_value(iterator));
        qn_field_text(json_object_iter_key(iterator), text == NULL ? "" : text);
    }
}
