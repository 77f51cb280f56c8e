/* SPDX-License-Identifier: MIT */
/* url_params.c - reads the parameters that are about the broker as a whole. */
#include "redis/failover/url_params.h"

#include <string.h>

#include "base/error.h"

enum param {
    FAILOVER,
    WAIT,
    WAIT_MS,
    INTERVAL_START_MS,
    INTERVAL_STEP_MS,
    INTERVAL_MAX_MS,
    MAX_RETRIES,
    MASTER,
    SENTINEL_USER,
    SENTINEL_PASSWORD_FILE,
    PARAM_COUNT
};

static const char *const names[PARAM_COUNT] = {
    [FAILOVER] = "failover",
    [WAIT] = "wait",
    [WAIT_MS] = "wait_ms",
    [INTERVAL_START_MS] = "interval_start_ms",
    [INTERVAL_STEP_MS] = "interval_step_ms",
    [INTERVAL_MAX_MS] = "interval_max_ms",
    [MAX_RETRIES] = "max_retries",
    [MASTER] = "master",
    [SENTINEL_USER] = "sentinel_user",
    [SENTINEL_PASSWORD_FILE] = "sentinel_password_file",
};

bool qn_url_params_has(const char *name)
{
    size_t i = 0;
    while (i < PARAM_COUNT && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < PARAM_COUNT;
}

static quern_status read_number(const char *name, const char *text, int64_t max, int64_t *ret_value,
                                quern_error *err)
{
    int64_t value = 0;
    bool valid = text[0] != '\0';
    for (const char *at = text; *at != '\0' && valid; at++) {
        valid = *at >= '0' && *at <= '9' && value <= max;
        value = valid ? value * 10 + (*at - '0') : value;
    }
    if (!valid || value < 1 || value > max) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "redis: %s is a number from 1 to %lld, not \"%.40s\"", name,
                            (long long)max, text);
    }
    *ret_value = value;
    return QUERN_OK;
}

static quern_status read_param(struct qn_url_params *params, enum param param, const char *value,
                               quern_error *err)
{
    int64_t number = 0;
    quern_status status = QUERN_OK;
    switch (param) {
    case FAILOVER:
        if (strcmp(value, "round-robin") != 0 && strcmp(value, "shuffle") != 0) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "redis: failover is round-robin or shuffle, not \"%.40s\"", value);
        }
        params->strategy = value[0] == 's' ? QN_FAILOVER_SHUFFLE : QN_FAILOVER_ROUND_ROBIN;
        break;
    case WAIT:
        status = read_number(names[param], value, QN_WAIT_COUNT_MAX, &number, err);
        params->wait_count = (uint32_t)number;
        break;
    case WAIT_MS:
        status = read_number(names[param], value, QN_WAIT_MS_MAX, &params->wait_ms, err);
        break;
    case INTERVAL_START_MS:
        status = read_number(names[param], value, QN_PACE_MS_MAX, &params->pace.start_ms, err);
        break;
    case INTERVAL_STEP_MS:
        status = read_number(names[param], value, QN_PACE_MS_MAX, &params->pace.step_ms, err);
        break;
    case INTERVAL_MAX_MS:
        status = read_number(names[param], value, QN_PACE_MS_MAX, &params->pace.max_ms, err);
        break;
    case MAX_RETRIES:
        status = read_number(names[param], value, QN_PACE_RETRIES_MAX, &number, err);
        params->pace.retries_max = (uint32_t)number;
        break;
    case MASTER:
        params->master = value;
        break;
    case SENTINEL_USER:
        params->sentinel_user = value;
        break;
    case SENTINEL_PASSWORD_FILE:
        params->sentinel_password_file = value;
        break;
    case PARAM_COUNT:
        break;
    }
    return status;
}

quern_status qn_url_params_read(const struct qn_url *urls, size_t count,
                                struct qn_url_params *ret_params, quern_error *err)
{
    struct qn_url_params params = {.wait_ms = QN_WAIT_MS_DEFAULT};
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < PARAM_COUNT; i++) {
        const char *value = qn_url_param(&urls[0], names[i]);
        for (size_t k = 1; k < count; k++) {
            if (qn_url_param(&urls[k], names[i]) != NULL) {
                return qn_error_set(err, QUERN_E_INVALID,
                                    "redis: %s belongs into the first URL of a list", names[i]);
            }
        }
        if (value != NULL) {
            status = read_param(&params, (enum param)i, value, err);
        }
    }
    if (status == QUERN_OK && qn_url_param(&urls[0], names[WAIT_MS]) != NULL &&
        params.wait_count == 0) {
        status = qn_error_set(err, QUERN_E_INVALID,
                              "redis: wait_ms needs wait, the number of replicas to wait for");
    }
    if (status == QUERN_OK && count == 1 && qn_url_param(&urls[0], names[FAILOVER]) != NULL) {
        status = qn_error_set(err, QUERN_E_INVALID,
                              "redis: failover is for a list of servers, and there is one URL");
    }
    if (status == QUERN_OK) {
        status = qn_pace_check(&params.pace, err);
        if (status != QUERN_OK) {
            qn_error_prefix(err, "redis");
        }
    }
    if (status == QUERN_OK) {
        *ret_params = params;
    }
    return status;
}
