/* SPDX-License-Identifier: MIT */
/* quern/metrics.hpp - metrics as texts for C++. See quern/quern.hpp. */
#ifndef QUERN_METRICS_HPP
#define QUERN_METRICS_HPP

#include <cstddef>
#include <string>

#include "quern/inspector.hpp"
#include "quern/metrics.h"
#include "quern/worker.hpp"

namespace quern
{

namespace detail
{

/* Takes over what `make` has made. */
template <typename Make>
quern_status took_metrics(std::string &ret_text, quern_error &err, Make &&make) noexcept
{
    char *text = nullptr;
    std::size_t size = 0;
    quern_status status = make(&text, &size, &err);
    if (status != QUERN_OK) {
        return status;
    }
    try {
        ret_text.assign(text, size);
    } catch (...) {
        err.code = status = QUERN_E_NOMEM;
    }
    quern_metrics_free(text);
    return status;
}

} /* namespace detail */

/* See quern_metrics_worker. */
inline quern_status metrics(const worker &of, const quern_metrics_options &options,
                            std::string &ret_text, quern_error &err) noexcept
{
    return detail::took_metrics(
        ret_text, err, [&](char **text, std::size_t *size, quern_error *error) {
            return quern_metrics_worker(of.get(), &options, text, size, error);
        });
}
inline std::string metrics(const worker &of, const quern_metrics_options &options = {})
{
    std::string text;
    detail::must([&](quern_error &err) { return metrics(of, options, text, err); });
    return text;
}

/* See quern_metrics_inspector. */
inline quern_status metrics(const inspector &of, const quern_metrics_options &options,
                            std::string &ret_text, quern_error &err) noexcept
{
    return detail::took_metrics(
        ret_text, err, [&](char **text, std::size_t *size, quern_error *error) {
            return quern_metrics_inspector(of.get(), &options, text, size, error);
        });
}
inline std::string metrics(const inspector &of, const quern_metrics_options &options = {})
{
    std::string text;
    detail::must([&](quern_error &err) { return metrics(of, options, text, err); });
    return text;
}

} /* namespace quern */

#endif
