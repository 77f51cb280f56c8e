/* SPDX-License-Identifier: MIT */
/* quern/mux.hpp - handlers for C++. See quern/quern.hpp. */
#ifndef QUERN_MUX_HPP
#define QUERN_MUX_HPP

#include <functional>
#include <type_traits>

#include "quern/mux.h"
#include "quern/task.hpp"

namespace quern
{

/* The task that is passed to a handler; valid during the call. */
class task_view
{
  public:
    explicit task_view(const quern_task &task) noexcept : task_(&task)
    {
    }
    std::string_view type() const noexcept
    {
        return task_->type;
    }
    std::string_view payload() const noexcept
    {
        return detail::bytes(task_->payload, task_->payload_size);
    }
    std::string_view id() const noexcept
    {
        return task_->id;
    }
    std::string_view queue() const noexcept
    {
        return task_->queue;
    }
    /* "": there is no header of this name. */
    std::string_view header(std::string_view name) const noexcept
    {
        for (std::size_t i = 0; i < task_->header_count; i++) {
            if (name == task_->headers[i].name) {
                return task_->headers[i].value == nullptr ? "" : task_->headers[i].value;
            }
        }
        return "";
    }
    const quern_task *get() const noexcept
    {
        return task_;
    }

  private:
    const quern_task *task_;
};

/* The run of a handler; valid during the call. */
class run
{
  public:
    explicit run(quern_run *from) noexcept : run_(from)
    {
    }
    run(const run &) = delete;
    run &operator=(const run &) = delete;

    std::string_view task_id() const noexcept
    {
        return quern_run_task_id(run_);
    }
    std::string_view queue() const noexcept
    {
        return quern_run_queue(run_);
    }
    std::int64_t crash_count() const noexcept
    {
        return quern_run_crash_count(run_);
    }
    quern_cause cause() const noexcept
    {
        return quern_run_cause(run_);
    }
    /* For poll(); -1: none can be made. */
    int cancel_fd() noexcept
    {
        return quern_run_cancel_fd(run_);
    }
    std::int64_t retry_count() const noexcept
    {
        return quern_run_retry_count(run_);
    }
    std::string_view traceparent() const noexcept
    {
        return quern_run_traceparent(run_);
    }
    std::string_view tracestate() const noexcept
    {
        return quern_run_tracestate(run_);
    }
    std::uint64_t fence() const noexcept
    {
        return quern_run_fence(run_);
    }
    time_point deadline_at() const noexcept
    {
        return detail::moment(quern_run_deadline_at_ms(run_));
    }
    bool cancelled() const noexcept
    {
        return quern_run_cancelled(run_);
    }
    std::string_view cancel_reason() const noexcept
    {
        return quern_run_cancel_reason(run_);
    }
    void write_result(std::string_view data)
    {
        detail::must([&](quern_error &err) { return write_result(data, err); });
    }
    quern_status write_result(std::string_view data, quern_error &err) noexcept
    {
        return quern_run_write_result(run_, data.data(), data.size(), &err);
    }
    /* Does not throw, and its status may be ignored: progress is for display only. */
    quern_status write_progress(int percent, const char *note = nullptr) noexcept
    {
        return quern_run_write_progress(run_, percent, note, nullptr);
    }
    /* `return run.fail(outcome::archive, "no such user");` */
    outcome fail(outcome how, std::string_view why) noexcept
    {
        int size = why.size() < 4096 ? static_cast<int>(why.size()) : 4096;
        (void)quern_run_fail(run_, QUERN_RETRY, "%.*s", size, why.data());
        return how;
    }
    /* `run.set_error_class("http/503");` */
    void set_error_class(const std::string &error_class) noexcept
    {
        quern_run_set_error_class(run_, error_class.c_str());
    }
    /* `return run.again_in(5s);` */
    outcome again_in(milliseconds delay) noexcept
    {
        return static_cast<outcome>(quern_run_again_in(run_, delay.count()));
    }
    outcome again_at(time_point at) noexcept
    {
        return static_cast<outcome>(quern_run_again_at(run_, detail::ms_of(at)));
    }
    /* A checkpoint, for a run that ends with outcome::retry or outcome::snooze: see quern/run.h. */
    void change_payload(std::string_view data)
    {
        detail::must([&](quern_error &err) {
            return quern_run_change_payload(run_, data.data(), data.size(), &err);
        });
    }
    void change_queue(const std::string &queue)
    {
        detail::must(
            [&](quern_error &err) { return quern_run_change_queue(run_, queue.c_str(), &err); });
    }
    void change_retry_max(std::int64_t retry_max)
    {
        detail::must(
            [&](quern_error &err) { return quern_run_change_retry_max(run_, retry_max, &err); });
    }
    quern_run *get() const noexcept
    {
        return run_;
    }

  private:
    quern_run *run_;
};

/* One call of an aggregator; valid during the call. */
class aggregation
{
  public:
    aggregation(quern_aggregation *from, const quern_task *const *members,
                std::size_t count) noexcept
        : aggregation_(from), members_(members), count_(count)
    {
    }
    aggregation(const aggregation &) = delete;
    aggregation &operator=(const aggregation &) = delete;

    std::string_view queue() const noexcept
    {
        return quern_aggregation_queue(aggregation_);
    }
    std::string_view group() const noexcept
    {
        return quern_aggregation_group(aggregation_);
    }
    std::size_t size() const noexcept
    {
        return count_;
    }
    /* The oldest is 0. */
    task_view operator[](std::size_t index) const noexcept
    {
        return task_view(*members_[index]);
    }
    bool cancelled() const noexcept
    {
        return quern_aggregation_cancelled(aggregation_);
    }
    /* For poll(); -1: none can be made. */
    int cancel_fd() noexcept
    {
        return quern_aggregation_cancel_fd(aggregation_);
    }
    void store(const task &one)
    {
        detail::must([&](quern_error &err) { return store(one, err); });
    }
    quern_status store(const task &one, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            std::vector<quern_header> headers;
            const quern_task in = one.view(headers);
            return quern_aggregation_store(aggregation_, &in, &err);
        });
    }
    /* `return aggregation.fail(outcome::retry, "no such customer");` */
    outcome fail(outcome how, std::string_view why) noexcept
    {
        int size = why.size() < 4096 ? static_cast<int>(why.size()) : 4096;
        (void)quern_aggregation_fail(aggregation_, QUERN_RETRY, "%.*s", size, why.data());
        return how;
    }
    quern_aggregation *get() const noexcept
    {
        return aggregation_;
    }

  private:
    quern_aggregation *aggregation_;
    const quern_task *const *members_;
    std::size_t count_;
};

using aggregator = std::function<outcome(aggregation &)>;
using handler = std::function<outcome(run &, const task_view &)>;
/* Calls the wrapped handler: `return next();` */
using next = std::function<outcome()>;
using middleware = std::function<outcome(run &, const task_view &, const next &)>;

class mux
{
  public:
    mux()
    {
        detail::must([&](quern_error &err) {
            quern_mux *made = nullptr;
            quern_status status = quern_mux_new(&made, &err);
            mux_.reset(made);
            return status;
        });
    }

    /* call(run &, const task_view &), call(const task_view &), call(run &) or call(), returning an
     * outcome or nothing. It may be an object that can only be moved. Several threads call it. */
    template <typename Call>
    mux &handle(const std::string &pattern, Call call, const quern_handler_options &options = {})
    {
        detail::must(
            [&](quern_error &err) { return handle(pattern, std::move(call), options, err); });
        return *this;
    }
    template <typename Call>
    quern_status handle(const std::string &pattern, Call call, const quern_handler_options &options,
                        quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            auto own = std::make_unique<handler>(adapt(std::move(call)));
            handlers_.reserve(handlers_.size() + 1);
            quern_status status = quern_mux_handle(mux_.get(), pattern.c_str(), call_handler,
                                                   own.get(), &options, &err);
            if (status == QUERN_OK) {
                handlers_.push_back(std::move(own));
            }
            return status;
        });
    }

    mux &exec(const std::string &pattern, const std::string &command,
              const quern_exec_options &options = {})
    {
        detail::must([&](quern_error &err) { return exec(pattern, command, options, err); });
        return *this;
    }
    quern_status exec(const std::string &pattern, const std::string &command,
                      const quern_exec_options &options, quern_error &err) noexcept
    {
        return quern_mux_exec(mux_.get(), pattern.c_str(), command.c_str(), &options, &err);
    }

    mux &configure(const std::string &pattern, const quern_handler_options &options)
    {
        detail::must([&](quern_error &err) { return configure(pattern, options, err); });
        return *this;
    }
    quern_status configure(const std::string &pattern, const quern_handler_options &options,
                           quern_error &err) noexcept
    {
        return quern_mux_configure(mux_.get(), pattern.c_str(), &options, &err);
    }

    /* call(aggregation &), returning an outcome. One thread of each worker calls it. */
    template <typename Call>
    mux &aggregate(const std::string &pattern, Call call, const quern_group_options &options = {})
    {
        detail::must(
            [&](quern_error &err) { return aggregate(pattern, std::move(call), options, err); });
        return *this;
    }
    template <typename Call>
    quern_status aggregate(const std::string &pattern, Call call,
                           const quern_group_options &options, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            auto shared = std::make_shared<Call>(std::move(call));
            auto own = std::make_unique<aggregator>(
                [shared](aggregation &aggregation) { return (*shared)(aggregation); });
            aggregators_.reserve(aggregators_.size() + 1);
            quern_status status = quern_mux_aggregate(mux_.get(), pattern.c_str(), call_aggregator,
                                                      own.get(), &options, &err);
            if (status == QUERN_OK) {
                aggregators_.push_back(std::move(own));
            }
            return status;
        });
    }

    /* call(run &, const task_view &, const next &), returning an outcome. */
    template <typename Call> mux &use(Call call)
    {
        detail::must([&](quern_error &err) { return use(std::move(call), err); });
        return *this;
    }
    template <typename Call> quern_status use(Call call, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            auto shared = std::make_shared<Call>(std::move(call));
            auto own = std::make_unique<middleware>(
                [shared](run &run, const task_view &task, const next &inner) {
                    return (*shared)(run, task, inner);
                });
            middlewares_.reserve(middlewares_.size() + 1);
            quern_status status = quern_mux_use(mux_.get(), call_middleware, own.get(), &err);
            if (status == QUERN_OK) {
                middlewares_.push_back(std::move(own));
            }
            return status;
        });
    }

    mux &not_found(outcome how)
    {
        detail::must([&](quern_error &err) { return not_found(how, err); });
        return *this;
    }
    quern_status not_found(outcome how, quern_error &err) noexcept
    {
        return quern_mux_not_found(mux_.get(), static_cast<quern_outcome>(how), &err);
    }
    quern_mux *get() const noexcept
    {
        return mux_.get();
    }

  private:
    /* std::function copies what it holds, and a call that can only be moved is shared instead. */
    template <typename Call> static handler adapt(Call call)
    {
        auto own = std::make_shared<Call>(std::move(call));
        if constexpr (std::is_invocable_v<Call &, run &, const task_view &>) {
            return [own](run &run, const task_view &task) {
                return outcome_of([&] { return (*own)(run, task); });
            };
        } else if constexpr (std::is_invocable_v<Call &, const task_view &>) {
            return [own](quern::run &, const task_view &task) {
                return outcome_of([&] { return (*own)(task); });
            };
        } else if constexpr (std::is_invocable_v<Call &, run &>) {
            return [own](quern::run &run, const task_view &) {
                return outcome_of([&] { return (*own)(run); });
            };
        } else {
            return [own](quern::run &, const task_view &) {
                return outcome_of([&] { return (*own)(); });
            };
        }
    }
    template <typename Call> static outcome outcome_of(Call call)
    {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
            return outcome::done;
        } else {
            static_assert(std::is_same_v<decltype(call()), outcome>,
                          "a handler returns quern::outcome or nothing");
            return call();
        }
    }

    /* The boundary between C and C++: no exception passes it. */
    template <typename Call> static quern_outcome caught(quern_run *run, Call call) noexcept
    {
        try {
            return static_cast<quern_outcome>(call());
        } catch (const std::exception &thrown) {
            return quern_run_fail(run, QUERN_RETRY, "%s", thrown.what());
        } catch (...) {
            return quern_run_fail(run, QUERN_RETRY, "an exception that is no std::exception");
        }
    }
    static quern_outcome call_handler(quern_run *run, const quern_task *task, void *user) noexcept
    {
        return caught(run, [&] {
            quern::run ours(run);
            return (*static_cast<handler *>(user))(ours, task_view(*task));
        });
    }
    static quern_outcome call_middleware(quern_run *run, const quern_task *task,
                                         quern_handler inner, void *next_user, void *user) noexcept
    {
        return caught(run, [&] {
            quern::run ours(run);
            return (*static_cast<middleware *>(user))(ours, task_view(*task), [&] {
                return static_cast<outcome>(inner(run, task, next_user));
            });
        });
    }

    static quern_outcome call_aggregator(quern_aggregation *aggregation,
                                         const quern_task *const *members, std::size_t count,
                                         void *user) noexcept
    {
        try {
            quern::aggregation ours(aggregation, members, count);
            return static_cast<quern_outcome>((*static_cast<aggregator *>(user))(ours));
        } catch (const std::exception &thrown) {
            return quern_aggregation_fail(aggregation, QUERN_RETRY, "%s", thrown.what());
        } catch (...) {
            return quern_aggregation_fail(aggregation, QUERN_RETRY,
                                          "an exception that is no std::exception");
        }
    }

    std::vector<std::unique_ptr<aggregator>> aggregators_;
    std::vector<std::unique_ptr<handler>> handlers_; /* mux_ points to them: freed after it */
    std::vector<std::unique_ptr<middleware>> middlewares_;
    detail::handle<quern_mux, quern_mux_free> mux_;
};

} /* namespace quern */

#endif
