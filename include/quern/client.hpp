/* SPDX-License-Identifier: MIT */
/* quern/client.hpp - a client for C++. See quern/quern.hpp. */
#ifndef QUERN_CLIENT_HPP
#define QUERN_CLIENT_HPP

#include <cstddef>

#include "quern/client.h"
#include "quern/task.hpp"

namespace quern
{

class client
{
  public:
    explicit client(const std::string &url, const quern_client_options &options = {})
    {
        detail::must([&](quern_error &err) { return open(url, options, *this, err); });
    }
    /* The form that does not throw: client mine(nullptr); client::open(url, {}, mine, err). */
    explicit client(std::nullptr_t) noexcept
    {
    }
    static quern_status open(const std::string &url, const quern_client_options &options,
                             client &ret_client, quern_error &err) noexcept
    {
        quern_client *opened = nullptr;
        quern_status status = quern_client_open(url.c_str(), &options, &opened, &err);
        if (status == QUERN_OK) {
            ret_client.client_.reset(opened);
        }
        return status;
    }

    task_info enqueue(const task &task)
    {
        task_info stored(nullptr);
        detail::must([&](quern_error &err) { return enqueue(task, &stored, err); });
        return stored;
    }
    /* ret_info may be nullptr. A duplicate and a conflict give it the task that is there. */
    quern_status enqueue(const task &task, task_info *ret_info, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            std::vector<quern_header> headers;
            const quern_task in = task.view(headers);
            quern_task_info *info = nullptr;
            quern_status status = quern_client_enqueue(client_.get(), &in,
                                                       ret_info == nullptr ? nullptr : &info, &err);
            if (info != nullptr && ret_info != nullptr) {
                *ret_info = task_info(info);
            }
            return status;
        });
    }

    /* Stores all of them and returns the id of each. Throws the first failure: to know which were
     * stored, call the other form. */
    std::vector<quern_enqueue_result> enqueue(const std::vector<task> &tasks)
    {
        std::vector<quern_enqueue_result> results;
        detail::must([&](quern_error &err) { return enqueue(tasks, results, err); });
        return results;
    }
    /* ret_results has an entry for each task, also after a failure. */
    quern_status enqueue(const std::vector<task> &tasks,
                         std::vector<quern_enqueue_result> &ret_results, quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            std::vector<std::vector<quern_header>> headers(tasks.size());
            std::vector<quern_task> in;
            for (std::size_t i = 0; i < tasks.size(); i++) {
                in.push_back(tasks[i].view(headers[i]));
            }
            ret_results.assign(tasks.size(), quern_enqueue_result{});
            return quern_client_enqueue_batch(client_.get(), in.data(), in.size(),
                                              ret_results.data(), &err);
        });
    }

    /* queue "": in whichever it is. */
    quern_status find(const std::string &queue, const std::string &id, task_info &ret_info,
                      quern_error &err) noexcept
    {
        quern_task_info *info = nullptr;
        quern_status status =
            quern_client_find(get(), detail::text_or_null(queue), id.c_str(), &info, &err);
        if (status == QUERN_OK) {
            ret_info = task_info(info);
        }
        return status;
    }
    task_info find(const std::string &queue, const std::string &id)
    {
        task_info info(nullptr);
        detail::must([&](quern_error &err) { return find(queue, id, info, err); });
        return info;
    }

    /* Until the task is completed or archived; `never`: as long as it takes. */
    quern_status wait(const std::string &id, milliseconds timeout, task_info &ret_info,
                      quern_error &err) noexcept
    {
        quern_task_info *info = nullptr;
        quern_status status = quern_client_wait(get(), id.c_str(), timeout.count(), &info, &err);
        if (status == QUERN_OK) {
            ret_info = task_info(info);
        }
        return status;
    }
    task_info wait(const std::string &id, milliseconds timeout)
    {
        task_info info(nullptr);
        detail::must([&](quern_error &err) { return wait(id, timeout, info, err); });
        return info;
    }

    /* See quern_client_reload_certificates. */
    void reload_certificates()
    {
        detail::must([&](quern_error &err) { return reload_certificates(err); });
    }
    quern_status reload_certificates(quern_error &err) noexcept
    {
        return quern_client_reload_certificates(client_.get(), &err);
    }

    void wake() noexcept
    {
        quern_client_wake(client_.get());
    }
    quern_client *get() const noexcept
    {
        return client_.get();
    }

  private:
    detail::handle<quern_client, quern_client_free> client_;
};

} /* namespace quern */

#endif
