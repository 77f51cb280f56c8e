/* SPDX-License-Identifier: MIT */
/* quern/task.hpp - errors, outcomes and tasks for C++. See quern/quern.hpp. */
#ifndef QUERN_TASK_HPP
#define QUERN_TASK_HPP

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/run.h"

namespace quern
{

using milliseconds = std::chrono::milliseconds;
using time_point = std::chrono::system_clock::time_point; /* time_point{}: not set */

inline constexpr milliseconds never{-1};                      /* task::timeout, and options */
inline constexpr std::int64_t retry_never{QUERN_RETRY_NEVER}; /* task::retry_max */

/* Why a call failed. */
class error : public std::runtime_error
{
  public:
    explicit error(const quern_error &from) : std::runtime_error(from.text), status_(from.code)
    {
    }
    quern_status status() const noexcept
    {
        return status_;
    }

  private:
    quern_status status_;
};

/* How a run ended. */
enum class outcome {
    done = QUERN_DONE,
    retry = QUERN_RETRY,
    archive = QUERN_ARCHIVE,
    drop = QUERN_DROP,
    snooze = QUERN_SNOOZE
};

namespace detail
{

template <auto Function> struct freer {
    template <typename Object> void operator()(Object *object) const noexcept
    {
        Function(object);
    }
};
template <typename Object, auto Function> using handle = std::unique_ptr<Object, freer<Function>>;

/* Runs `call`, which returns a quern_status; an exception becomes a status. */
template <typename Call> quern_status guard(quern_error &err, Call &&call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        err = quern_error{QUERN_E_NOMEM, "out of memory"};
    } catch (const std::exception &thrown) {
        err.code = QUERN_E_INVALID;
        (void)std::snprintf(err.text, sizeof err.text, "%s", thrown.what());
    }
    return err.code;
}

/* Runs `call(err)`, and throws the error that it reports. */
template <typename Call> void must(Call &&call)
{
    quern_error err{};
    if (call(err) != QUERN_OK) {
        throw error(err);
    }
}

inline const char *text_or_null(const std::string &text) noexcept
{
    return text.empty() ? nullptr : text.c_str();
}
inline std::int64_t ms_of(time_point at) noexcept
{
    return std::chrono::duration_cast<milliseconds>(at.time_since_epoch()).count();
}
inline time_point moment(std::int64_t at_ms) noexcept
{
    return time_point{std::chrono::duration_cast<time_point::duration>(milliseconds{at_ms})};
}
inline std::string_view bytes(const void *data, std::size_t size) noexcept
{
    return {size == 0 ? "" : static_cast<const char *>(data), size};
}

} /* namespace detail */

/* A task to enqueue; see quern_task. Names are copied, the payload is borrowed until the call
 * returns. */
struct task {
    std::string type;
    std::string_view payload{};
    std::string id{};
    std::string queue{};
    std::int64_t retry_max = 0;
    milliseconds delay{0};
    time_point process_at{};
    milliseconds timeout{0};
    time_point deadline_at{};
    milliseconds unique{0};
    std::string unique_key{};
    quern_unique_until unique_until = QUERN_UNIQUE_UNTIL_DONE;
    quern_on_duplicate on_duplicate = QUERN_ON_DUPLICATE_FAIL;
    milliseconds retention{0};
    std::string group{};
    std::vector<std::pair<std::string, std::string>> headers{};
    quern_retry_policy retry{};
    std::string limit_key{};
    milliseconds start_within{0};
    std::int32_t priority = 0;
    milliseconds kill_after{0};
    milliseconds cpu{0};
    std::int64_t memory_max = 0;
    std::string traceparent{};
    std::string tracestate{};

    /* The C struct, valid as long as this task and `space` live and do not change. */
    quern_task view(std::vector<quern_header> &space) const
    {
        space.clear();
        for (const auto &header : headers) {
            space.push_back({header.first.c_str(), header.second.c_str()});
        }
        quern_task out{};
        out.type = type.c_str();
        out.payload = payload.data();
        out.payload_size = payload.size();
        out.id = detail::text_or_null(id);
        out.queue = detail::text_or_null(queue);
        out.retry_max = retry_max;
        out.delay_ms = delay.count();
        out.process_at_ms = detail::ms_of(process_at);
        out.timeout_ms = timeout.count();
        out.deadline_at_ms = detail::ms_of(deadline_at);
        out.unique_ms = unique.count();
        out.unique_key = detail::text_or_null(unique_key);
        out.unique_until = unique_until;
        out.on_duplicate = on_duplicate;
        out.retention_ms = retention.count();
        out.group = detail::text_or_null(group);
        out.headers = space.data();
        out.header_count = space.size();
        out.retry = retry;
        out.limit_key = detail::text_or_null(limit_key);
        out.start_within_ms = start_within.count();
        out.priority = priority;
        out.kill_after_ms = kill_after.count();
        out.cpu_ms = cpu.count();
        out.memory_max = memory_max;
        out.traceparent = detail::text_or_null(traceparent);
        out.tracestate = detail::text_or_null(tracestate);
        return out;
    }
};

/* A stored task that another object owns, for example a list. */
class task_info_view
{
  public:
    explicit task_info_view(const quern_task_info *info) noexcept : info_(info)
    {
    }
    std::string_view id() const noexcept
    {
        return quern_task_info_id(info_);
    }
    std::string_view queue() const noexcept
    {
        return quern_task_info_queue(info_);
    }
    std::string_view type() const noexcept
    {
        return quern_task_info_type(info_);
    }
    quern_task_state state() const noexcept
    {
        return quern_task_info_state(info_);
    }
    std::string_view payload() const noexcept
    {
        std::size_t size = 0;
        const void *data = quern_task_info_payload(info_, &size);
        return detail::bytes(data, size);
    }
    std::string_view result() const noexcept
    {
        std::size_t size = 0;
        const void *data = quern_task_info_result(info_, &size);
        return detail::bytes(data, size);
    }
    /* Names and values; copies, as a task to enqueue has them. */
    std::vector<std::pair<std::string, std::string>> headers() const
    {
        const quern_header *first = quern_task_info_headers(info_);
        const std::size_t count = quern_task_info_header_count(info_);
        std::vector<std::pair<std::string, std::string>> out;
        out.reserve(count);
        for (std::size_t i = 0; i < count; i++) {
            out.emplace_back(first[i].name, first[i].value == nullptr ? "" : first[i].value);
        }
        return out;
    }
    std::string_view error() const noexcept
    {
        return quern_task_info_error(info_);
    }
    std::int64_t retry_count() const noexcept
    {
        return quern_task_info_retry_count(info_);
    }
    std::string_view group() const noexcept
    {
        return quern_task_info_group(info_);
    }
    std::string_view limit_key() const noexcept
    {
        return quern_task_info_limit_key(info_);
    }
    std::string_view worker() const noexcept
    {
        return quern_task_info_worker(info_);
    }
    std::string_view progress_note() const noexcept
    {
        return quern_task_info_progress_note(info_);
    }
    std::int32_t progress() const noexcept
    {
        return quern_task_info_progress(info_);
    }
    std::int64_t retry_max() const noexcept
    {
        return quern_task_info_retry_max(info_);
    }
    std::int32_t priority() const noexcept
    {
        return quern_task_info_priority(info_);
    }
    quern_retry_policy retry() const noexcept
    {
        return quern_task_info_retry(info_);
    }
    std::int64_t crash_count() const noexcept
    {
        return quern_task_info_crash_count(info_);
    }
    quern_cause cause() const noexcept
    {
        return quern_task_info_cause(info_);
    }
    std::int64_t timeout_ms() const noexcept
    {
        return quern_task_info_timeout_ms(info_);
    }
    std::int64_t retention_ms() const noexcept
    {
        return quern_task_info_retention_ms(info_);
    }
    std::uint64_t fence() const noexcept
    {
        return quern_task_info_fence(info_);
    }
    bool orphaned() const noexcept
    {
        return quern_task_info_orphaned(info_);
    }
    bool existing() const noexcept
    {
        return quern_task_info_existing(info_);
    }
    std::int64_t due_at_ms() const noexcept
    {
        return quern_task_info_due_at_ms(info_);
    }
    std::int64_t deadline_at_ms() const noexcept
    {
        return quern_task_info_deadline_at_ms(info_);
    }
    std::int64_t kill_after_ms() const noexcept
    {
        return quern_task_info_kill_after_ms(info_);
    }
    std::int64_t cpu_ms() const noexcept
    {
        return quern_task_info_cpu_ms(info_);
    }
    std::int64_t memory_max() const noexcept
    {
        return quern_task_info_memory_max(info_);
    }
    std::int64_t start_by_at_ms() const noexcept
    {
        return quern_task_info_start_by_at_ms(info_);
    }
    std::int64_t enqueued_at_ms() const noexcept
    {
        return quern_task_info_enqueued_at_ms(info_);
    }
    std::int64_t started_at_ms() const noexcept
    {
        return quern_task_info_started_at_ms(info_);
    }
    std::int64_t failed_at_ms() const noexcept
    {
        return quern_task_info_failed_at_ms(info_);
    }
    std::int64_t completed_at_ms() const noexcept
    {
        return quern_task_info_completed_at_ms(info_);
    }
    std::int64_t archived_at_ms() const noexcept
    {
        return quern_task_info_archived_at_ms(info_);
    }
    std::int64_t expires_at_ms() const noexcept
    {
        return quern_task_info_expires_at_ms(info_);
    }
    std::int64_t grouped_at_ms() const noexcept
    {
        return quern_task_info_grouped_at_ms(info_);
    }
    std::int64_t deleted_at_ms() const noexcept
    {
        return quern_task_info_deleted_at_ms(info_);
    }
    const quern_task_info *get() const noexcept
    {
        return info_;
    }

  protected:
    const quern_task_info *info_;
};

/* A stored task that this object owns. */
class task_info : public task_info_view
{
  public:
    explicit task_info(quern_task_info *take_info) noexcept
        : task_info_view(take_info), owned_(take_info)
    {
    }

  private:
    detail::handle<quern_task_info, quern_task_info_free> owned_;
};

} /* namespace quern */

#endif
