/* SPDX-License-Identifier: MIT */
/* tls_params.c - the parameters of a broker URL that are about TLS.
 *
 * Other libraries can be told not to check certificates. That has no place here, so such a value is
 * refused and never ignored. */
#include "redis/url/tls_params.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"

enum param { CA, CERT, KEY, SERVER_NAME, PATH_COUNT, REQUIREMENT = PATH_COUNT, CHECK, NONE };

static enum param param_of(const char *name)
{
    static const struct {
        const char *name;
        enum param param;
    } names[] = {
        {"ca", CA},
        {"ssl_ca_certs", CA},
        {"cert", CERT},
        {"ssl_certfile", CERT},
        {"key", KEY},
        {"ssl_keyfile", KEY},
        {"servername", SERVER_NAME},
        {"ssl_cert_reqs", REQUIREMENT},
        {"ssl_check_hostname", CHECK},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name) == 0) {
            return names[i].param;
        }
    }
    return NONE;
}

bool qn_tls_params_has(const char *name)
{
    return param_of(name) != NONE;
}

static bool is_one_of(const char *value, const char *const *values)
{
    while (*values != NULL && strcasecmp(value, *values) != 0) {
        values++;
    }
    return *values != NULL;
}

/* For a client Python's "optional" is the same as "required". */
static quern_status check_requirement(const char *value, quern_error *err)
{
    static const char *const required[] = {"required", "CERT_REQUIRED", "optional", "CERT_OPTIONAL",
                                           NULL};
    if (is_one_of(value, required)) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_INVALID,
                        "redis: ssl_cert_reqs=%.40s: the server's certificate is always checked; "
                        "name its CA with ca=FILE",
                        value);
}

static quern_status check_host_check(const char *value, quern_error *err)
{
    static const char *const checked[] = {"true", "yes", "1", NULL};
    if (is_one_of(value, checked)) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_INVALID,
                        "redis: ssl_check_hostname=%.40s: the name in the certificate is always "
                        "checked; servername=NAME if it is another than the host's",
                        value);
}

static quern_status take(const char **paths, enum param param, const char *value, quern_error *err)
{
    if (param == REQUIREMENT) {
        return check_requirement(value, err);
    }
    if (param == CHECK) {
        return check_host_check(value, err);
    }
    if (paths[param] != NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "redis: a parameter of TLS is given twice");
    }
    if (value[0] == '\0') {
        return qn_error_set(err, QUERN_E_INVALID, "redis: a parameter of TLS is empty");
    }
    paths[param] = value;
    return QUERN_OK;
}

quern_status qn_tls_params_read(const struct qn_url *url, bool is_tls, struct qn_tls **ret_tls,
                                quern_error *err)
{
    const char *paths[PATH_COUNT] = {NULL};
    for (size_t i = 0; i < url->param_count; i++) {
        enum param param = param_of(url->params[i].name);
        if (param == NONE) {
            continue;
        }
        if (!is_tls) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "redis: \"%.40s\" needs TLS: write rediss:// (with a second s)",
                                url->params[i].name);
        }
        quern_status status = take(paths, param, url->params[i].value, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
    if (!is_tls) {
        *ret_tls = NULL;
        return QUERN_OK;
    }
    const struct qn_tls_options options = {
        .ca = paths[CA], .cert = paths[CERT], .key = paths[KEY], .server_name = paths[SERVER_NAME]};
    return qn_tls_new(&options, ret_tls, err);
}
