/* SPDX-License-Identifier: MIT */
/* unsent.c - the block of the commands that are to be sent, and scripts with their texts. */
#include "redis/cluster/unsent.h"

#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "redis/encode.h"

#define EVAL_SIZE 4

void qn_unsent_put_text(struct qn_pipeline *pipeline, const struct qn_pipeline_command *command)
{
    pipeline->args[command->first_arg] = "EVAL";
    pipeline->arg_sizes[command->first_arg] = EVAL_SIZE;
    const char *text = QN_BUG_SCRIPT(pipeline->arena, command->script->text);
    QN_ASSERT(text != NULL);
    pipeline->args[command->first_arg + 1] = text;
    pipeline->arg_sizes[command->first_arg + 1] = strlen(text);
}

bool qn_unsent_lacks_script(struct qn_pipeline *pipeline, struct qn_pipeline_command *command)
{
    bool was_eval = command->script != NULL && pipeline->arg_sizes[command->first_arg] == EVAL_SIZE;
    if (command->script == NULL || was_eval || command->reply->type != QN_REPLY_ERROR ||
        strncmp(command->reply->data, "NOSCRIPT", 8) != 0) {
        return false;
    }
    qn_unsent_put_text(pipeline, command);
    command->reply = NULL;
    return true;
}

static bool is_wanted(const struct qn_pipeline_command *command)
{
    return command->reply == NULL;
}

/* Whether it is to be written to this node; -1: the one server. */
static bool is_for(const struct qn_pipeline_command *command, int node)
{
    return is_wanted(command) && (node < 0 || (command->at < 0 && command->goes_to == node));
}

bool qn_unsent_waits(const struct qn_pipeline *pipeline, size_t first, int node)
{
    bool any = false;
    for (size_t i = first; i < pipeline->command_count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[i];
        if (any && is_wanted(command) && command->at == node) {
            return true;
        }
        any = any || is_for(command, node);
    }
    return false;
}

char *qn_unsent_format(struct qn_pipeline *pipeline, size_t first, int node, size_t *ret_size)
{
    size_t size_max = 0;
    for (size_t i = first; i < pipeline->command_count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[i];
        size_max +=
            is_for(command, node)
                ? qn_encode_size_max(pipeline->arg_sizes + command->first_arg, command->arg_count)
                : 0;
    }
    char *data = qn_arena_alloc(pipeline->arena, size_max);
    char *at = data;
    for (size_t i = first; data != NULL && i < pipeline->command_count; i++) {
        const struct qn_pipeline_command *command = &pipeline->commands[i];
        if (is_for(command, node)) {
            qn_encode(&at, pipeline->args + command->first_arg,
                      pipeline->arg_sizes + command->first_arg, command->arg_count);
        }
    }
    *ret_size = data == NULL ? 0 : (size_t)(at - data);
    return data;
}
