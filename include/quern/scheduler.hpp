/* SPDX-License-Identifier: MIT */
/* quern/scheduler.hpp - a scheduler for C++. See quern/quern.hpp. */
#ifndef QUERN_SCHEDULER_HPP
#define QUERN_SCHEDULER_HPP

#include <cstddef>
#include <exception>
#include <functional>

#include "quern/scheduler.h"
#include "quern/task.hpp"

namespace quern
{

/* See quern_entry. */
struct entry {
    std::string name;
    std::string cron;
    std::string zone{};
    std::string misfire{}; /* "skip", "once", "all N" */
    milliseconds late{0};
    milliseconds jitter{0};

    /* The C struct, valid as long as this entry lives and does not change. */
    quern_entry view() const noexcept
    {
        quern_entry out{};
        out.name = name.c_str();
        out.cron = cron.c_str();
        out.zone = detail::text_or_null(zone);
        out.misfire = detail::text_or_null(misfire);
        out.late_ms = late.count();
        out.jitter_ms = jitter.count();
        return out;
    }
};

/* The set that on_entries fills. */
class entry_set
{
  public:
    explicit entry_set(quern_entry_set *set) noexcept : set_(set)
    {
    }
    void add(const entry &entry, const task &task)
    {
        detail::must([&](quern_error &err) { return add(entry, task, err); });
    }
    quern_status add(const entry &entry, const task &task, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            std::vector<quern_header> headers;
            const quern_entry in = entry.view();
            const quern_task in_task = task.view(headers);
            return quern_entry_set_add(set_, &in, &in_task, &err);
        });
    }

  private:
    quern_entry_set *set_;
};

/* See quern_scheduler_options. The thread of run() calls the callbacks. An exception that
 * on_entries throws leaves the stored entries as they are; one of `before` refuses nothing, and
 * others are lost. */
struct scheduler_options {
    std::string program{};
    std::string zone{};
    std::vector<std::string> files{};
    milliseconds sync{0};
    bool no_wait = false;
    bool allow_empty = false;
    const quern_clock *clock = nullptr;
    std::function<void(quern_log_level, std::string_view)> on_log{};
    std::function<void(entry_set &)> on_entries{};
    std::function<bool(const quern_tick &, quern_task &)> before{};
    std::function<void(const quern_tick &)> after{};
};

/* Enqueues by the clock. */
class scheduler
{
  public:
    explicit scheduler(const std::string &url, scheduler_options options = {})
    {
        detail::must([&](quern_error &err) { return open(url, std::move(options), *this, err); });
    }
    /* The form that does not throw: scheduler mine(nullptr); scheduler::open(..., mine, err). */
    explicit scheduler(std::nullptr_t) noexcept
    {
    }

    static quern_status open(const std::string &url, scheduler_options options,
                             scheduler &ret_scheduler, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            auto parts = std::make_unique<scheduler_options>(std::move(options));
            std::vector<const char *> files;
            const quern_scheduler_options c_options = view(*parts, files);
            quern_scheduler *opened = nullptr;
            quern_status status = quern_scheduler_new(url.c_str(), &c_options, &opened, &err);
            if (status == QUERN_OK) {
                ret_scheduler.scheduler_.reset(opened);
                ret_scheduler.options_ = std::move(parts);
            }
            return status;
        });
    }

    void add(const entry &entry, const task &task)
    {
        detail::must([&](quern_error &err) { return add(entry, task, err); });
    }
    quern_status add(const entry &entry, const task &task, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            std::vector<quern_header> headers;
            const quern_entry in = entry.view();
            const quern_task in_task = task.view(headers);
            return quern_scheduler_register(scheduler_.get(), &in, &in_task, &err);
        });
    }
    /* queue: "" is "default". */
    void remove(const std::string &queue, const std::string &name)
    {
        detail::must([&](quern_error &err) { return remove(queue, name, err); });
    }
    quern_status remove(const std::string &queue, const std::string &name,
                        quern_error &err) noexcept
    {
        return quern_scheduler_unregister(scheduler_.get(), detail::text_or_null(queue),
                                          name.c_str(), &err);
    }

    /* Blocks until stop(); see quern_scheduler_run. */
    void run()
    {
        detail::must([&](quern_error &err) { return run(err); });
    }
    quern_status run(quern_error &err) noexcept
    {
        return quern_scheduler_run(scheduler_.get(), &err);
    }
    /* The same until SIGINT or SIGTERM. */
    void run_until_signal()
    {
        detail::must([&](quern_error &err) { return run_until_signal(err); });
    }
    quern_status run_until_signal(quern_error &err) noexcept
    {
        return quern_scheduler_run_until_signal(scheduler_.get(), &err);
    }

    /* See quern_scheduler_list. What on_entry throws ends the list and is thrown. */
    void list(const std::function<bool(const quern_entry_info &)> &on_entry)
    {
        listing state{&on_entry, nullptr};
        detail::must([&](quern_error &err) {
            return quern_scheduler_list(scheduler_.get(), call_entry, &state, &err);
        });
        if (state.thrown != nullptr) {
            std::rethrow_exception(state.thrown);
        }
    }
    quern_status list(const std::function<bool(const quern_entry_info &)> &on_entry,
                      quern_error &err) noexcept
    {
        listing state{&on_entry, nullptr};
        quern_status status = quern_scheduler_list(scheduler_.get(), call_entry, &state, &err);
        return state.thrown == nullptr ? status : detail::guard(err, [&]() -> quern_status {
            std::rethrow_exception(state.thrown);
        });
    }

    /* Any thread; async-signal-safe. */
    void stop() noexcept
    {
        quern_scheduler_stop(scheduler_.get());
    }
    void reload() noexcept
    {
        quern_scheduler_reload(scheduler_.get());
    }
    bool is_live() const noexcept
    {
        return quern_scheduler_is_live(scheduler_.get());
    }
    bool is_ready() const noexcept
    {
        return quern_scheduler_is_ready(scheduler_.get());
    }
    quern_scheduler *get() const noexcept
    {
        return scheduler_.get();
    }

  private:
    static void call_log(quern_log_level level, const char *line, void *user) noexcept
    {
        try {
            static_cast<scheduler_options *>(user)->on_log(level, line);
        } catch (...) {
        }
    }
    static quern_status call_entries(quern_entry_set *set, void *user) noexcept
    {
        quern_error err{};
        return detail::guard(err, [&] {
            entry_set entries(set);
            static_cast<scheduler_options *>(user)->on_entries(entries);
            return QUERN_OK;
        });
    }
    static bool call_before(const quern_tick *tick, quern_task *task, void *user) noexcept
    {
        try {
            return static_cast<scheduler_options *>(user)->before(*tick, *task);
        } catch (...) {
            return true;
        }
    }
    struct listing {
        const std::function<bool(const quern_entry_info &)> *on_entry;
        std::exception_ptr thrown;
    };
    static bool call_entry(const quern_entry_info *info, void *user) noexcept
    {
        auto *state = static_cast<listing *>(user);
        try {
            return (*state->on_entry)(*info);
        } catch (...) {
            state->thrown = std::current_exception();
            return false;
        }
    }
    static void call_after(const quern_tick *tick, void *user) noexcept
    {
        try {
            static_cast<scheduler_options *>(user)->after(*tick);
        } catch (...) {
        }
    }
    static quern_scheduler_options view(scheduler_options &options,
                                        std::vector<const char *> &files)
    {
        for (const std::string &file : options.files) {
            files.push_back(file.c_str());
        }
        quern_scheduler_options out{};
        out.program = detail::text_or_null(options.program);
        out.zone = detail::text_or_null(options.zone);
        out.files = files.empty() ? nullptr : files.data();
        out.file_count = files.size();
        out.sync_ms = options.sync.count();
        out.no_wait = options.no_wait;
        out.allow_empty = options.allow_empty;
        out.clock = options.clock;
        out.on_log = options.on_log ? call_log : nullptr;
        out.on_entries = options.on_entries ? call_entries : nullptr;
        out.before = options.before ? call_before : nullptr;
        out.after = options.after ? call_after : nullptr;
        out.user = &options;
        return out;
    }

    std::unique_ptr<scheduler_options> options_; /* outlives the scheduler, declared below it */
    detail::handle<quern_scheduler, quern_scheduler_free> scheduler_;
};

} /* namespace quern */

#endif
