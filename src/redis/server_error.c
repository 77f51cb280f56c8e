/* SPDX-License-Identifier: MIT */
/* server_error.c - maps errors of the server to a status and a text.
 *
 * An error starts with a code in capitals. Inside a script Redis 6.2 puts text of its own before
 * it; 7.0 puts the code first and the line of the script last. A refusal for lack of permission
 * inside a script has no code of its own in any of them, and does not name the command before 7.2:
 * there the line of the script identifies it.
 *
 * Codes that a user can act on become a sentence, followed by the code to search for. All others
 * keep the text of the server. */
#include "redis/server_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/str.h"

#define SCRIPT_MARK "@user_script:"
#define HIDDEN_MARK "ERR Error running script (call to "
#define COMMAND_SIZE 32
#define KEY_SIZE_MAX 200

static bool starts_with_code(const char *text, const char *code)
{
    size_t size = strlen(code);
    return strncmp(text, code, size) == 0 && (text[size] == ' ' || text[size] == '\0');
}

/* Behind the "@user_script:3: " or "@user_script: 3: " at its beginning; NULL: there is none. */
static const char *behind_mark(const char *text)
{
    if (!qn_str_starts_with(text, SCRIPT_MARK)) {
        return NULL;
    }
    text += strlen(SCRIPT_MARK);
    text += strspn(text, " 0123456789");
    return qn_str_starts_with(text, ": ") ? text + 2 : NULL;
}

/* From the code on. Redis 6.2 returns "ERR Error running script (call to f_...): @user_script:3: "
 * followed by the error of the command; for a command that it did not run, "@user_script: 3: -OOM
 * ..." follows. */
static const char *at_code(const char *text)
{
    const char *words = qn_str_starts_with(text, HIDDEN_MARK) ? strstr(text, "): ") : NULL;
    const char *at = words == NULL ? text : words + 3;
    for (const char *next = behind_mark(at); next != NULL; next = behind_mark(at)) {
        at = next;
    }
    return at[0] == '-' ? at + 1 : at;
}

/* Whether permission is lacking; then *words is left at the forbidden command. Inside scripts 6.2
 * puts no code before this text, 7.0 puts ERR, and later ones use another text. */
static bool is_prohibition(const char **words)
{
    if (qn_str_starts_with(*words, "NOPERM ")) {
        *words += strlen("NOPERM ");
        return true;
    }
    const char *at = *words + (qn_str_starts_with(*words, "ERR ") ? strlen("ERR ") : 0);
    if (qn_str_starts_with(at, "The user executing the script can't ") ||
        qn_str_starts_with(at, "ACL failure in script: ")) {
        *words = at;
        return true;
    }
    return false;
}

/* The status of a code of the server, its text for users, and what is done about it. */
struct meaning {
    const char *code;
    quern_status status;
    enum qn_reaction reaction;
    const char *words;
};

static const struct meaning meanings[] = {
    {"OOM", QUERN_E_FULL, QN_REACT_WAIT, "the server's memory is full"},
    {"MISCONF", QUERN_E_FULL, QN_REACT_WAIT,
     "the server cannot save its data and stores nothing until it can; see its log"},
    {"LOADING", QUERN_E_BUSY, QN_REACT_REDISCOVER, "the server is loading its data"},
    {"BUSY", QUERN_E_BUSY, QN_REACT_WAIT, "the server is busy with a script of another client"},
    {"MASTERDOWN", QUERN_E_BUSY, QN_REACT_REDISCOVER, "this is a replica that has lost its master"},
    {"READONLY", QUERN_E_BUSY, QN_REACT_REDISCOVER,
     "this is a replica, and nothing can be stored here"},
    {"NOREPLICAS", QUERN_E_BUSY, QN_REACT_WAIT,
     "the server has fewer replicas than it requires for writing"},
    {"ERR max number of clients reached", QUERN_E_BUSY, QN_REACT_WAIT,
     "the server accepts no more clients"},
    {"TRYAGAIN", QUERN_E_BUSY, QN_REACT_WAIT, "the server asks to try again"},
    {"CLUSTERDOWN", QUERN_E_BUSY, QN_REACT_WAIT, "the cluster is down"},
    {"ASK", QUERN_E_BUSY, QN_REACT_WAIT, "the slot of the queue is being moved to another node"},
    {"MOVED", QUERN_E_BUSY, QN_REACT_WAIT, "the slot of the queue is at another node"},
    {"ERR Script attempted to access a non local key", QUERN_E_BUSY, QN_REACT_WAIT,
     "the slot of the queue is being moved to another node"},
    {"WRONGTYPE", QUERN_E_CORRUPT, QN_REACT_NONE, "is not of the type that it should have"},
    {"WRONGPASS", QUERN_E_DENIED, QN_REACT_LOGIN, "login refused, user or password is wrong"},
    {"NOAUTH", QUERN_E_DENIED, QN_REACT_LOGIN, "login refused, the server requires a password"},
};

static const struct meaning *meaning_of(const char *text)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        if (starts_with_code(text, meanings[i].code)) {
            return &meanings[i];
        }
    }
    return NULL;
}

enum qn_reaction qn_server_error_reaction(const struct qn_reply *reply)
{
    const struct meaning *meaning = meaning_of(at_code(reply->data));
    return meaning == NULL ? QN_REACT_NONE : meaning->reaction;
}

/* The number of the script's line that the error came from; 0: not in the text. */
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

/* Without the end that 7.0 adds: " script: ", its hash and the line once more. */
static size_t size_of_words(const char *text)
{
    const char *mark = strstr(text, ", on " SCRIPT_MARK);
    size_t size = mark == NULL ? 0 : (size_t)(mark - text);
    while (size > 0 && !qn_str_starts_with(text + size, " script: ")) {
        size--;
    }
    return size > 0 ? size : strlen(text);
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

static quern_status report_wrong_type(const char *address, const struct qn_server_call *call,
                                      const struct meaning *meaning, quern_error *err)
{
    if (call->script != NULL || call->key.size == 0) {
        return qn_error_set(err, meaning->status, "%s: %s: a key %s (%s)", address,
                            call->script != NULL ? call->script->name : call->command,
                            meaning->words, meaning->code);
    }
    int size = call->key.size < KEY_SIZE_MAX ? (int)call->key.size : KEY_SIZE_MAX;
    return qn_error_set(err, meaning->status, "%s: %s: %.*s %s (%s)", address, call->command, size,
                        call->key.data, meaning->words, meaning->code);
}

quern_status qn_server_error(const char *address, const struct qn_reply *reply,
                             const struct qn_server_call *call, quern_error *err)
{
    const struct qn_script *script = call->script;
    const char *words = at_code(reply->data);
    const char *where = script != NULL ? script->name : call->command;
    const struct meaning *meaning = meaning_of(words);
    if (meaning != NULL && meaning->status == QUERN_E_CORRUPT) {
        return report_wrong_type(address, call, meaning, err);
    }
    if (meaning != NULL) { /* it is about the server, regardless of the command */
        return qn_error_set(err, meaning->status, "%s: %s (%s)", address, meaning->words,
                            meaning->code);
    }
    long line = script == NULL ? 0 : script_line(reply->data);
    char called[COMMAND_SIZE] = "";
    if (line > 0) {
        command_of_line(script, line, called);
    }
    bool prohibited = is_prohibition(&words);
    int size = (int)(line > 0 ? size_of_words(words) : strlen(words));
    if (prohibited) {
        return qn_error_set(err, QUERN_E_BROKER,
                            "%s: %s%s%s: NOPERM %.*s; docs/protocol/redis.md has an ACL that works",
                            address, where, called[0] == '\0' ? "" : ": ", called, size, words);
    }
    if (line > 0) { /* a fault of the script, which only its author can find */
        return qn_error_set(err, QUERN_E_BROKER, "%s: %s: %.*s (its line %ld)", address, where,
                            size, words, line);
    }
    return qn_error_set(err, QUERN_E_BROKER, "%s: %s: %.*s", address, where, size, words);
}
