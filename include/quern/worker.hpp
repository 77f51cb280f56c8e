/* SPDX-License-Identifier: MIT */
/* quern/worker.hpp - a worker for C++. See quern/quern.hpp. */
#ifndef QUERN_WORKER_HPP
#define QUERN_WORKER_HPP

#include <cstddef>
#include <memory>

#include "quern/mux.hpp"
#include "quern/worker.h"
#include "quern/zygote.hpp"

namespace quern
{

struct queue {
    std::string name;
    std::uint32_t weight = 1;
};

/* See quern_worker_options. The worker's threads call the callbacks, one at a time; exceptions they
 * throw are lost. */
struct worker_options {
    std::vector<queue> queues{}; /* none: "default" */
    std::uint32_t concurrency = 0;
    bool strict_priority = false;
    bool drain = false;
    bool no_wait = false;
    bool until_idle = false;
    milliseconds shutdown_timeout{0};
    milliseconds lease{0};
    milliseconds quarantine_after{0};
    milliseconds stuck_timeout{0};
    milliseconds soft_shutdown_timeout{0};
    milliseconds stall_timeout{0};
    int prefetch_max = 0;
    quern_retry_policy retry{};
    std::string host{};
    const quern_clock *clock = nullptr;
    std::shared_ptr<quern::zygote> zygote{}; /* given: handlers run in its children */
    std::uint32_t child_runs_max = 0;
    std::uint64_t child_rss_max = 0;
    std::string child_cgroup{};
    quern_ack ack = QUERN_ACK_DEFAULT; /* of handlers whose options say nothing */
    bool ack_on_failure = false;
    bool ack_on_timeout = false;
    std::function<void(quern_log_level, std::string_view)> on_log{};
    std::function<void(const quern_run_report &)> on_run{};
    std::function<void(const quern_link_failure &)> on_link_failure{};
    std::function<std::size_t(std::size_t count, std::size_t current)> choose_server{};
    std::function<void(const quern_worker_health &)> on_health{}; /* beside the others */
    milliseconds interval_start{0};
    milliseconds interval_step{0};
    milliseconds interval_max{0};
    std::uint32_t max_retries = 0;
    std::function<void(quern_log_level)> on_log_level{}; /* beside the others */
    quern_tracer *tracer = nullptr; /* see quern/trace.h; it must outlive the worker */
};

/* Runs the handlers of a mux, which it owns. */
class worker
{
  public:
    worker(const std::string &url, mux take_mux, worker_options options = {})
    {
        detail::must([&](quern_error &err) {
            return open(url, std::move(take_mux), std::move(options), *this, err);
        });
    }
    /* The form that does not throw: worker mine(nullptr); worker::open(..., mine, err). */
    explicit worker(std::nullptr_t) noexcept
    {
    }
    worker(worker &&) noexcept = default;
    worker &operator=(worker &&other) noexcept
    {
        if (this != &other) {
            close();
            parts_ = std::move(other.parts_);
            worker_ = std::move(other.worker_);
        }
        return *this;
    }
    ~worker()
    {
        close();
    }

    static quern_status open(const std::string &url, mux take_mux, worker_options options,
                             worker &ret_worker, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            auto parts = std::make_unique<struct parts>(std::move(take_mux), std::move(options));
            std::vector<quern_queue> queues;
            const quern_worker_options c_options = parts->view(queues);
            quern_worker *opened = nullptr;
            quern_status status =
                quern_worker_new(url.c_str(), parts->c_mux(), &c_options, &opened, &err);
            if (status == QUERN_OK) {
                ret_worker.close();
                ret_worker.parts_ = std::move(parts);
                ret_worker.worker_.reset(opened);
            }
            return status;
        });
    }

    /* Blocks until stop() or, with drain, until the queues are empty; see quern_worker_run. */
    void run()
    {
        detail::must([&](quern_error &err) { return run(err); });
    }
    /* After QUERN_E_TIMEOUT handlers still run: then the worker and everything it owns is never
     * freed, and the process should end. */
    quern_status run(quern_error &err) noexcept
    {
        quern_status status = quern_worker_run(worker_.get(), &err);
        if (status == QUERN_E_TIMEOUT) {
            parts_->is_in_use = true;
        }
        return status;
    }

    /* The same until SIGINT or SIGTERM, see quern_worker_run_until_signal. */
    void run_until_signal()
    {
        detail::must([&](quern_error &err) { return run_until_signal(err); });
    }
    quern_status run_until_signal(quern_error &err) noexcept
    {
        quern_status status = quern_worker_run_until_signal(worker_.get(), &err);
        if (status == QUERN_E_TIMEOUT) {
            parts_->is_in_use = true;
        }
        return status;
    }

    /* Any thread; async-signal-safe. */
    void stop() noexcept
    {
        quern_worker_stop(worker_.get());
    }
    void quiet() noexcept
    {
        quern_worker_quiet(worker_.get());
    }
    void resume() noexcept
    {
        quern_worker_resume(worker_.get());
    }
    /* Up to so many runs at a time, see quern_worker_resize. */
    void resize(std::uint32_t concurrency)
    {
        detail::must([&](quern_error &err) { return resize(concurrency, err); });
    }
    quern_status resize(std::uint32_t concurrency, quern_error &err) noexcept
    {
        return quern_worker_resize(worker_.get(), concurrency, &err);
    }
    void log_runs() noexcept
    {
        quern_worker_log_runs(worker_.get());
    }
    /* New children come from this executed zygote, see quern_worker_reload. It may end afterwards.
     * Any thread. */
    void reload(const quern::zygote &successor)
    {
        detail::must([&](quern_error &err) { return reload(successor, err); });
    }
    quern_status reload(const quern::zygote &successor, quern_error &err) noexcept
    {
        return quern_worker_reload(worker_.get(), successor.get(), &err);
    }
    /* See quern_worker_reload_certificates. Any thread. */
    void reload_certificates()
    {
        detail::must([&](quern_error &err) { return reload_certificates(err); });
    }
    quern_status reload_certificates(quern_error &err) noexcept
    {
        return quern_worker_reload_certificates(worker_.get(), &err);
    }
    /* See quern_worker_set_weights. Any thread. */
    void set_weights(const std::vector<quern_queue> &queues)
    {
        detail::must([&](quern_error &err) { return set_weights(queues, err); });
    }
    quern_status set_weights(const std::vector<quern_queue> &queues, quern_error &err) noexcept
    {
        return quern_worker_set_weights(worker_.get(), queues.data(), queues.size(), &err);
    }
    quern_worker_stats stats() const noexcept
    {
        quern_worker_stats stats{};
        quern_worker_get_stats(worker_.get(), &stats);
        return stats;
    }
    quern_worker_health health() const noexcept
    {
        quern_worker_health health{};
        quern_worker_get_health(worker_.get(), &health);
        return health;
    }
    quern_worker *get() const noexcept
    {
        return worker_.get();
    }

  private:
    /* The C object points to this: its address stays the same when the worker is moved. */
    struct parts {
        parts(quern::mux &&take_mux, worker_options &&take_options)
            : mux(std::move(take_mux)), options(std::move(take_options))
        {
        }
        parts(const parts &) = delete;
        parts &operator=(const parts &) = delete;
        /* A zygote that was forked refers to the mux that ends here. */
        ~parts()
        {
            if (options.zygote && !options.zygote->is_program()) {
                options.zygote->close();
            }
        }
        quern::mux mux;
        worker_options options;
        bool is_in_use = false; /* by handlers that did not end */

        const quern_mux *c_mux() const noexcept
        {
            return options.zygote && options.zygote->is_program() ? nullptr : mux.get();
        }

        quern_worker_options view(std::vector<quern_queue> &queues)
        {
            for (const queue &one : options.queues) {
                queues.push_back(quern_queue{one.name.c_str(), one.weight, 0});
            }
            quern_worker_options out{};
            out.queues = queues.empty() ? nullptr : queues.data();
            out.queue_count = queues.size();
            out.concurrency = options.concurrency;
            out.strict_priority = options.strict_priority;
            out.drain = options.drain;
            out.no_wait = options.no_wait;
            out.tracer = options.tracer;
            out.until_idle = options.until_idle;
            out.shutdown_timeout_ms = options.shutdown_timeout.count();
            out.lease_ms = options.lease.count();
            out.quarantine_after_ms = options.quarantine_after.count();
            out.stuck_timeout_ms = options.stuck_timeout.count();
            out.soft_shutdown_timeout_ms = options.soft_shutdown_timeout.count();
            out.stall_timeout_ms = options.stall_timeout.count();
            out.prefetch_max = options.prefetch_max;
            out.retry = options.retry;
            out.clock = options.clock;
            out.pool = options.zygote ? QUERN_POOL_PREFORK : QUERN_POOL_THREADS;
            out.zygote = options.zygote ? options.zygote->get() : nullptr;
            out.child_runs_max = options.child_runs_max;
            out.child_rss_max = options.child_rss_max;
            out.ack = options.ack;
            out.ack_on_failure = options.ack_on_failure;
            out.ack_on_timeout = options.ack_on_timeout;
            out.child_cgroup = detail::text_or_null(options.child_cgroup);
            out.host = detail::text_or_null(options.host);
            out.on_log = options.on_log ? call_log : nullptr;
            out.on_run = options.on_run ? call_run : nullptr;
            out.on_link_failure = options.on_link_failure ? call_link_failure : nullptr;
            out.choose_server = options.choose_server ? call_choose_server : nullptr;
            out.on_health = options.on_health ? call_health : nullptr;
            out.on_log_level = options.on_log_level ? call_log_level : nullptr;
            out.interval_start_ms = options.interval_start.count();
            out.interval_step_ms = options.interval_step.count();
            out.interval_max_ms = options.interval_max.count();
            out.max_retries = options.max_retries;
            out.user = this;
            return out;
        }
    };

    static void call_log(quern_log_level level, const char *line, void *user) noexcept
    {
        try {
            static_cast<parts *>(user)->options.on_log(level, line);
        } catch (...) { /* it cannot be reported */
        }
    }
    static void call_run(const quern_run_report *report, void *user) noexcept
    {
        try {
            static_cast<parts *>(user)->options.on_run(*report);
        } catch (...) { /* it cannot be reported */
        }
    }
    static void call_link_failure(const quern_link_failure *failure, void *user) noexcept
    {
        try {
            static_cast<parts *>(user)->options.on_link_failure(*failure);
        } catch (...) { /* it cannot be reported */
        }
    }
    static std::size_t call_choose_server(std::size_t count, std::size_t current,
                                          void *user) noexcept
    {
        try {
            return static_cast<parts *>(user)->options.choose_server(count, current);
        } catch (...) { /* the next one */
            return (current + 1) % count;
        }
    }
    static void call_health(const quern_worker_health *health, void *user) noexcept
    {
        try {
            static_cast<parts *>(user)->options.on_health(*health);
        } catch (...) { /* it cannot be reported */
        }
    }
    static void call_log_level(quern_log_level level, void *user) noexcept
    {
        try {
            static_cast<parts *>(user)->options.on_log_level(level);
        } catch (...) { /* it cannot be reported */
        }
    }
    void close() noexcept
    {
        if (parts_ != nullptr && parts_->is_in_use) {
            (void)worker_.release();
            (void)parts_.release();
        }
        worker_.reset();
        parts_.reset();
    }

    std::unique_ptr<parts> parts_;
    detail::handle<quern_worker, quern_worker_free> worker_;
};

} /* namespace quern */

#endif
