/* SPDX-License-Identifier: MIT */
/* url_advice.c - refuses broker URLs that are almost certainly mistakes.
 *
 * A text without a scheme is the path of a file, so "localhost:6379" or ":memory:" would make a
 * file of that name: a client would store its tasks there, and no worker would ever look. Such a
 * text is refused, and the error shows the right spelling; a file that really has such a name is
 * written ./NAME. Parameters behind a path would be part of the name, too, and make a second, empty
 * database. */
#include "broker/url/url_advice.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/str.h"
#include "broker/sqlite/store/memory.h"

#define SHOWN_SIZE 128

/* "?name=value" at the end, and all of that from here on. */
static bool is_parameter(const char *text)
{
    size_t name = text[0] == '?' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
    return name > 0 && text[1 + name] == '=' && strchr(text, '/') == NULL;
}

/* "host:6379", "user:password@host:6379", with or without "/0" and "?db=0" behind it. */
static bool is_host_and_port(const char *text)
{
    size_t size = strcspn(text, "?");
    const char *colon = memrchr(text, ':', size);
    const char *slash = memchr(text, '/', size);
    if (colon == NULL || colon == text || (slash != NULL && slash < colon)) {
        return false;
    }
    size_t digits = strspn(colon + 1, "0123456789");
    const char *rest = colon + 1 + digits;
    rest += rest[0] == '/' ? 1 + strspn(rest + 1, "0123456789") : 0;
    return digits > 0 && digits <= 5 && (rest[0] == '\0' || is_parameter(rest));
}

/* "localhost", "10.0.0.7": unlikely names of a file. */
static bool is_host(const char *text)
{
    unsigned char address[sizeof(struct in6_addr)];
    return strcmp(text, "localhost") == 0 || inet_pton(AF_INET, text, address) == 1;
}

/* "user:password@host": such a name would be shown with the password in it. */
static bool is_login(const char *text)
{
    const char *at = strchr(text, '@');
    const char *colon = strchr(text, ':');
    const char *slash = strchr(text, '/');
    return at != NULL && colon != NULL && colon < at && (slash == NULL || at < slash);
}

/* "tasks.db?sync=full", unless there is such a file. */
static bool has_parameters(const char *path)
{
    const char *mark = strrchr(path, '?');
    return mark != NULL && is_parameter(mark) && access(path, F_OK) != 0;
}

static quern_status refuse_memory(quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID,
                        "broker \":memory:\": a database in memory is lost when the command ends: "
                        "name a file (tests within one program use memory:)");
}

static quern_status check_path(const char *text, quern_error *err)
{
    static const char *const schemes[] = {"redis", "rediss", "redis-socket", "sqlite"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const char *rest = text + strlen(schemes[i]);
        bool starts = qn_str_starts_with(text, schemes[i]);
        if (starts && (rest[0] == ':' || qn_str_starts_with(rest, "//"))) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "the broker URL lacks %s behind its scheme (a file of such a name "
                                "is written ./NAME)",
                                rest[0] == ':' ? "//" : ":");
        }
    }
    if (strcmp(text, ":memory:") == 0) {
        return refuse_memory(err);
    }
    if (qn_str_starts_with(text, "file:")) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "broker \"file:\": write the path alone or sqlite:///path/file.db");
    }
    char shown[SHOWN_SIZE];
    if (is_host_and_port(text) || ((is_host(text) || is_login(text)) && access(text, F_OK) != 0)) {
        qn_url_redact(text, shown, sizeof shown);
        return qn_error_set(err, QUERN_E_INVALID,
                            "broker \"%s\" is the path of a file here; a server is written "
                            "redis://%s, a file of such a name ./%s",
                            shown, shown, shown);
    }
    if (has_parameters(text)) {
        qn_url_redact(text, shown, sizeof shown);
        return qn_error_set(err, QUERN_E_INVALID,
                            "a path takes no parameters; with them the broker is written "
                            "sqlite://%s%s",
                            text[0] == '/' ? "" : "/DIRECTORY/", shown);
    }
    return QUERN_OK;
}

quern_status qn_url_advice(const struct qn_url *url, quern_error *err)
{
    static const struct {
        const char *scheme;
        quern_status status;
        const char *advice;
    } schemes[] = {
        {"redis+sentinel", QUERN_E_INVALID, "write redis-sentinel://host,host/0?master=NAME"},
        {"rediss+sentinel", QUERN_E_INVALID, "write rediss-sentinel://host,host/0?master=NAME"},
        {"redis+cluster", QUERN_E_INVALID, "write redis-cluster://host:port,host:port"},
        {"sentinel", QUERN_E_INVALID, "write redis-sentinel://host,host/0?master=NAME"},
        {"file", QUERN_E_INVALID, "write the path alone or sqlite:///path/file.db"},
        {"memory", QUERN_E_INVALID, "write memory: or memory:NAME"},
        {"sqlite3", QUERN_E_INVALID, "write sqlite:///path/file.db"},
    };
    if (url->scheme[0] == '\0' && qn_memory_is_url(url->path)) {
        return QUERN_OK;
    }
    if (url->scheme[0] == '\0') {
        return check_path(url->path, err);
    }
    if (strcmp(url->scheme, "sqlite") == 0 && strcmp(url->path, "/:memory:") == 0) {
        return refuse_memory(err); /* as some libraries spell it */
    }
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strcmp(url->scheme, schemes[i].scheme) == 0) {
            return qn_error_set(err, schemes[i].status, "broker %s://: %s", url->scheme,
                                schemes[i].advice);
        }
    }
    return QUERN_OK;
}
