/* SPDX-License-Identifier: MIT */
/* broker_secret.c - reads the password of a broker, and hides it from other users.
 *
 * A URL on the command line can be read by all users with ps: it is copied, and the password in it
 * is overwritten with stars at once. Better is a file (?password_file=, read by the library) or a
 * variable of the environment (?password_env=NAME), which is read here, as the library reads none:
 * its value is put into the URL where a password belongs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "broker/url/url_spelling.h"
#include "cli/cli.h"
#include "cli/memory.h"

#define URL_SIZE_MAX 65536
#define PARAM "password_env="

/* The first such parameter of the URL; NULL: there is none, or it is not for Redis. */
static const char *find_param(const char *url)
{
    if (!qn_url_spelling_is_server(url)) {
        return NULL;
    }
    for (const char *at = strchr(url, '?'); at != NULL; at = strchr(at, '&')) {
        at++;
        if (qn_str_starts_with(at, PARAM)) {
            return at;
        }
    }
    return NULL;
}

static char *put_bytes(char *out, const char *data, size_t size)
{
    memcpy(out, data, size);
    return out + size;
}

static char *put_encoded(char *out, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        *out++ = '%';
        *out++ = hex[c >> 4];
        *out++ = hex[c & 15];
    }
    return out;
}

/* The URL with `password`, without the parameter; wants a URL with "://" and no password. Written
 * in one piece of memory, so that no copy is left behind. */
static char *insert_password(const char *url, const char *param, const char *password)
{
    char *made = qn_memory_must(qn_secret_alloc(strlen(url) + 3 * strlen(password) + 3));
    const char *authority = strstr(url, "://") + 3;
    const char *rest = authority + strcspn(authority, "/?@");
    const char *host = *rest == '@' ? rest + 1 : authority;
    const char *behind = param + strcspn(param, "&");
    char *out = put_bytes(made, url, (size_t)((*rest == '@' ? rest : authority) - url));
    out = put_bytes(out, ":", 1);
    out = put_encoded(out, password);
    out = put_bytes(out, "@", 1);
    out = put_bytes(out, host, (size_t)(param - host));
    (void)put_bytes(out, behind, strlen(behind) + 1);
    return made;
}

int qn_cli_url_with_password(const struct qn_cli *cli, const char *url, char **ret_url)
{
    const char *param = find_param(url);
    const char *authority = strstr(url, "://");
    if (param == NULL || authority == NULL || param < authority || strlen(url) > URL_SIZE_MAX) {
        *ret_url = qn_memory_must(qn_secret_strdup(url)); /* the library reports its faults */
        return QN_EXIT_OK;
    }
    authority += 3;
    const char *sign = memchr(authority, '@', (size_t)(param - authority));
    if (sign != NULL && memchr(authority, ':', (size_t)(sign - authority)) != NULL) {
        qn_cli_message(cli, "the broker URL has a password and a password_env");
        return QN_EXIT_CONFIG;
    }
    const char *value = param + strlen(PARAM);
    char *name = qn_memory_must(qn_str_dup(value));
    name[strcspn(name, "&")] = '\0';
    const char *password = getenv(name);
    int exit_code = QN_EXIT_OK;
    if (password == NULL || password[0] == '\0') {
        qn_cli_message(cli, "password_env: there is no %s in the environment", name);
        exit_code = QN_EXIT_CONFIG;
    } else {
        *ret_url = insert_password(url, param, password);
    }
    qn_free(name);
    return exit_code;
}

/* As qn_url_redact: from the first colon of the authority to the last @. */
static void star_out(char *url)
{
    char *authority = strstr(url, "://");
    char *sign = authority == NULL ? NULL : strrchr(authority, '@');
    char *colon = sign == NULL ? NULL : memchr(authority + 3, ':', (size_t)(sign - authority - 3));
    if (colon != NULL) {
        memset(colon + 1, '*', (size_t)(sign - colon - 1));
    }
}

int qn_cli_take_broker_option(struct qn_cli *cli)
{
    const char *given = cli->args.globals[QN_GLOBAL_BROKER].text;
    if (given == NULL) {
        return QN_EXIT_OK;
    }
    int exit_code = qn_cli_url_with_password(cli, given, &cli->given_url);
    if (exit_code == QN_EXIT_OK) {
        cli->given_word = given;
        cli->given_text = qn_memory_must(qn_secret_strdup(given));
        star_out((char *)(uintptr_t)given); /* a part of argv, which is ours to write */
        cli->args.globals[QN_GLOBAL_BROKER].text = cli->given_url;
    }
    return exit_code;
}
