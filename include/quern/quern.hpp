/* SPDX-License-Identifier: MIT */
/* quern/quern.hpp - the library for C++17 and later: inline code over the C headers only.
 *
 *   Objects     own what they open, and free it. They can be moved, not copied. get() returns the C
 *               object, for calls that have no C++ form (such as quern_client_enqueue_tx).
 *   Errors      A call throws quern::error, which has a status and a text. Each has a form that
 *               does not throw: it takes a quern_error & last and returns the quern_status.
 *   Handlers    are any callable objects, lambdas with captures too, that take (run &, const
 *               task_view &), one of the two, or nothing. They return an outcome, or nothing:
 *               done. An exception thrown by one becomes a retry with what() as its text; none
 *               ever passes through C.
 *   Times       are std::chrono's; zero is the default, as in C.
 *
 * Threads and lifetimes are as in the C headers. */
#ifndef QUERN_QUERN_HPP
#define QUERN_QUERN_HPP

#include "quern/client.hpp"
#include "quern/inspector.hpp"
#include "quern/metrics.hpp"
#include "quern/mux.hpp"
#include "quern/quern.h"
#include "quern/scheduler.hpp"
#include "quern/task.hpp"
#include "quern/worker.hpp"
#include "quern/zygote.hpp"

#endif
