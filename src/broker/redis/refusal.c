/* SPDX-License-Identifier: MIT */
/* refusal.c - what an error of the server means to us, and how it is told.
 *
 * An error starts with a code in capitals. Inside of a script Redis 6.2 hides it behind words of
 * its own; 7.0 puts it first and ends with the line of the script. A refusal for want of permission
 * inside of a script does not name the command in 7.0: there the line tells it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/talk.h"

#define SCRIPT_MARK "@user_script:"
#define COMMAND_SIZE 32

static bool starts_with_code(const char *text, const char *code)
{
    size_t size = strlen(code);
    return strncmp(text, code, size) == 0 && (text[size] == ' ' || text[size] == '\0');
}

/* From the code on: of "ERR Error running script (call to f_...): ...: -OOM command ..." too. */
static const char *at_code(const char *text)
{
    const char *dash = strstr(text, ": -");
    bool hidden = strncmp(text, "ERR Error running script", 24) == 0 && dash != NULL;
    return hidden ? dash + 3 : text;
}

static quern_status status_of(const char *text)
{
    static const struct {
        const char *code;
        quern_status status;
    } codes[] = {
        {"OOM", QUERN_E_FULL},      {"MISCONF", QUERN_E_FULL},     {"LOADING", QUERN_E_BUSY},
        {"BUSY", QUERN_E_BUSY},     {"MASTERDOWN", QUERN_E_BUSY},  {"READONLY", QUERN_E_BUSY},
        {"TRYAGAIN", QUERN_E_BUSY}, {"CLUSTERDOWN", QUERN_E_BUSY}, {"WRONGTYPE", QUERN_E_CORRUPT},
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (starts_with_code(text, codes[i].code)) {
            return codes[i].status;
        }
    }
    return QUERN_E_BROKER;
}

/* The number of the script's line that the error came from; 0: it does not say. */
static long script_line(const char *text)
{
    long line = 0;
    for (const char *mark = strstr(text, SCRIPT_MARK); mark != NULL;
         mark = strstr(mark + 1, SCRIPT_MARK)) {
        long number = strtol(mark + strlen(SCRIPT_MARK), NULL, 10);
        line = number > 0 ? number : line;
    }
    return line;
}

/* The first command that this line of the script calls; "" when there is none. */
static void command_of_line(const struct qn_script *script, long line, char out[COMMAND_SIZE])
{
    const char *at = script->text;
    out[0] = '\0';
    while (line > 1 && at != NULL) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
        line--;
    }
    const char *end = at == NULL ? NULL : strchr(at, '\n');
    const char *call = at == NULL ? NULL : strstr(at, "call('");
    if (call != NULL && (end == NULL || call < end)) {
        call += strlen("call('");
        (void)snprintf(out, COMMAND_SIZE, "%.*s", (int)strcspn(call, "'"), call);
    }
}

quern_status qn_reply_refusal(const struct qn_link *link, const struct qn_reply *reply,
                              const char *command, const struct qn_script *script, quern_error *err)
{
    const char *address = link->target->address;
    const char *text = at_code(reply->data);
    quern_status status = status_of(text);
    long line = script == NULL ? 0 : script_line(reply->data);
    char where[64];
    char called[COMMAND_SIZE] = "";
    if (line > 0) {
        (void)snprintf(where, sizeof where, "%s.lua:%ld", script->name, line);
        command_of_line(script, line, called);
    } else {
        (void)snprintf(where, sizeof where, "%s", script != NULL ? script->name : command);
    }
    /* What follows " script: " is its hash and the line once more. */
    const char *tail = line > 0 ? strstr(text, " script: ") : NULL;
    int size = (int)(tail == NULL ? strlen(text) : (size_t)(tail - text));
    bool forbidden =
        starts_with_code(text, "NOPERM") || strstr(text, "can't run this command") != NULL;
    if (!forbidden) {
        return qn_error_set(err, status, "%s: %s: %.*s", address, where, size, text);
    }
    return qn_error_set(err, status,
                        "%s: %s%s%s: %.*s; docs/protocol/redis.md has an ACL that works", address,
                        where, called[0] == '\0' ? "" : ": ", called, size, text);
}
