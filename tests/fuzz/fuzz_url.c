/* SPDX-License-Identifier: MIT */
/* fuzz_url.c - any text as broker URL: parsed or refused, redacted, and no password in an error;
 * and any bytes as the file that holds the password. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/secret.h"
#include "base/text/url.h"
#include "cli/cli.h"
#include "lib_fuzz.h"
#include "redis/endpoint.h"

/* Reads every piece, so that the sanitizer sees each byte of it. */
static size_t read_pieces(const struct qn_url *url)
{
    size_t sum = strlen(url->scheme) + strlen(url->user) + strlen(url->password) +
                 strlen(url->host) + strlen(url->port) + strlen(url->path);
    for (size_t i = 0; i < url->param_count; i++) {
        sum += strlen(url->params[i].name) + strlen(url->params[i].value);
        fuzz_require(qn_url_param(url, url->params[i].name) == url->params[i].value);
    }
    return sum;
}

/* The URL names no file: which one is read is not the input's to choose. The password has no part
 * in the address that logs show: another one gives the same. */
static void try_target(const struct qn_url *url)
{
    struct qn_endpoint endpoint = {0};
    struct qn_endpoint twin = {0};
    struct qn_url other = *url;
    char other_password[] = "another";
    quern_error err = {0};
    if (strncmp(url->scheme, "redis", 5) != 0 || qn_url_param(url, "password_file") != NULL) {
        return;
    }
    if (qn_endpoint_init(&endpoint, url, &err) != QUERN_OK) {
        fuzz_require(err.text[0] != '\0');
        return;
    }
    other.password = other_password;
    if (url->password[0] != '\0' && qn_endpoint_init(&twin, &other, &err) == QUERN_OK) {
        fuzz_require(strcmp(endpoint.peer.address, twin.peer.address) == 0);
        qn_endpoint_finish(&twin);
    }
    qn_endpoint_finish(&endpoint);
}

static void try_url(const char *text, size_t size)
{
    struct qn_url url;
    struct qn_cli cli = {.where = "stats"};
    quern_error err = {0};
    if (qn_url_parse(text, &url, &err) == QUERN_OK) {
        fuzz_require(read_pieces(&url) <= size);
        try_target(&url);
        qn_url_finish(&url);
    } else {
        fuzz_require(err.text[0] != '\0');
    }
    char shown[64];
    qn_url_redact(text, shown, 1 + size % sizeof shown);
    fuzz_require(strlen(shown) <= size % sizeof shown);
    char *given = NULL;
    if (qn_cli_url_with_password(&cli, text, &given) == QN_EXIT_OK) {
        fuzz_require(given != NULL);
        qn_secret_free(given);
    }
}

/* The first line is the password, or the file is refused. */
static void try_file(const uint8_t *data, size_t size)
{
    char path[128];
    char text[256];
    struct qn_url url;
    struct qn_endpoint endpoint = {0};
    quern_error err = {0};
    (void)snprintf(path, sizeof path, "%s/password", fuzz_dir());
    (void)snprintf(text, sizeof text, "redis://host?password_file=%s", path);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    fuzz_require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)close(fd);
    fuzz_require(qn_url_parse(text, &url, &err) == QUERN_OK);
    if (qn_endpoint_init(&endpoint, &url, &err) == QUERN_OK) {
        size_t length = strlen(endpoint.password);
        fuzz_require(length > 0 && length <= size && memcmp(endpoint.password, data, length) == 0);
        fuzz_require(strchr(endpoint.password, '\n') == NULL);
        qn_endpoint_finish(&endpoint);
    } else {
        fuzz_require(err.text[0] != '\0');
    }
    qn_url_finish(&url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    try_url(text, size);
    try_file(data, size);
    free(text);
    return 0;
}
