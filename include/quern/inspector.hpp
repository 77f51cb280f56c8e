/* SPDX-License-Identifier: MIT */
/* quern/inspector.hpp - an inspector for C++. See quern/quern.hpp. */
#ifndef QUERN_INSPECTOR_HPP
#define QUERN_INSPECTOR_HPP

#include <cstddef>
#include <cstdint>

#include "quern/command.h"
#include "quern/inspector.h"
#include "quern/search.h"
#include "quern/task.hpp"

namespace quern
{

/* A list from the library: a range for `for`. It owns its elements. */
template <typename List, typename Item, auto Size, auto At, auto Free> class list
{
  public:
    class iterator
    {
      public:
        iterator(const List *list, std::size_t index) noexcept : list_(list), index_(index)
        {
        }
        Item operator*() const noexcept
        {
            return at(list_, index_);
        }
        iterator &operator++() noexcept
        {
            index_++;
            return *this;
        }
        bool operator!=(const iterator &other) const noexcept
        {
            return index_ != other.index_;
        }

      private:
        const List *list_;
        std::size_t index_;
    };

    explicit list(List *take_list = nullptr) noexcept : list_(take_list)
    {
    }
    std::size_t size() const noexcept
    {
        return list_ == nullptr ? 0 : Size(list_.get());
    }
    Item operator[](std::size_t index) const noexcept
    {
        return at(list_.get(), index);
    }
    const List *get() const noexcept
    {
        return list_.get();
    }
    iterator begin() const noexcept
    {
        return iterator(list_.get(), 0);
    }
    iterator end() const noexcept
    {
        return iterator(list_.get(), size());
    }

  private:
    static Item at(const List *list, std::size_t index) noexcept
    {
        if constexpr (std::is_reference_v<Item>) {
            return *At(list, index);
        } else {
            return Item(At(list, index));
        }
    }

    detail::handle<List, Free> list_;
};

using task_list = list<quern_task_list, task_info_view, quern_task_list_size, quern_task_list_at,
                       quern_task_list_free>;
using queue_list = list<quern_queue_list, const quern_queue_info &, quern_queue_list_size,
                        quern_queue_list_at, quern_queue_list_free>;
using worker_list = list<quern_worker_list, const quern_worker_info &, quern_worker_list_size,
                         quern_worker_list_at, quern_worker_list_free>;
using limit_list = list<quern_limit_list, const quern_limit &, quern_limit_list_size,
                        quern_limit_list_at, quern_limit_list_free>;
using entry_list = list<quern_entry_list, const quern_entry_info &, quern_entry_list_size,
                        quern_entry_list_at, quern_entry_list_free>;
using entry_history = list<quern_entry_history, const quern_entry_event &, quern_entry_history_size,
                           quern_entry_history_at, quern_entry_history_free>;

class inspector
{
  public:
    explicit inspector(const std::string &url, const quern_inspector_options &options = {})
    {
        detail::must([&](quern_error &err) { return open(url, options, *this, err); });
    }
    /* The form that does not throw: inspector mine(nullptr); inspector::open(..., mine, err). */
    explicit inspector(std::nullptr_t) noexcept
    {
    }
    static quern_status open(const std::string &url, const quern_inspector_options &options,
                             inspector &ret_inspector, quern_error &err) noexcept
    {
        quern_inspector *opened = nullptr;
        quern_status status = quern_inspector_open(url.c_str(), &options, &opened, &err);
        if (status == QUERN_OK) {
            ret_inspector.inspector_.reset(opened);
        }
        return status;
    }

    queue_list queues()
    {
        queue_list list;
        detail::must([&](quern_error &err) { return queues(list, err); });
        return list;
    }
    quern_status queues(queue_list &ret_list, quern_error &err) noexcept
    {
        quern_queue_list *list = nullptr;
        quern_status status = quern_inspector_queues(get(), &list, &err);
        return took(ret_list, list, status);
    }

    task_list tasks(const quern_task_filter &filter = {})
    {
        task_list list;
        detail::must([&](quern_error &err) { return tasks(filter, list, err); });
        return list;
    }
    quern_status tasks(const quern_task_filter &filter, task_list &ret_list,
                       quern_error &err) noexcept
    {
        quern_task_list *list = nullptr;
        quern_status status = quern_inspector_tasks(get(), &filter, &list, &err);
        return took(ret_list, list, status);
    }

    /* The search goes on from quern_task_list_cursor(list.get()). */
    task_list search(const quern_search &search)
    {
        task_list list;
        detail::must([&](quern_error &err) { return this->search(search, list, err); });
        return list;
    }
    quern_status search(const quern_search &search, task_list &ret_list, quern_error &err) noexcept
    {
        quern_task_list *list = nullptr;
        quern_status status = quern_inspector_search(get(), &search, &list, &err);
        return took(ret_list, list, status);
    }

    worker_list workers()
    {
        worker_list list;
        detail::must([&](quern_error &err) { return workers(list, err); });
        return list;
    }
    quern_status workers(worker_list &ret_list, quern_error &err) noexcept
    {
        quern_worker_list *list = nullptr;
        quern_status status = quern_inspector_workers(get(), &list, &err);
        return took(ret_list, list, status);
    }

    /* Sends a command to a worker and waits for its answer, see quern/command.h. */
    void command(const quern_worker_command &what)
    {
        detail::must([&](quern_error &err) { return command(what, err); });
    }
    quern_status command(const quern_worker_command &what, quern_error &err) noexcept
    {
        return quern_inspector_command(get(), &what, &err);
    }

    /* queue "": in any queue. */
    task_info task(const std::string &queue, const std::string &id)
    {
        task_info info(nullptr);
        detail::must([&](quern_error &err) { return task(queue, id, info, err); });
        return info;
    }
    quern_status task(const std::string &queue, const std::string &id, task_info &ret_info,
                      quern_error &err) noexcept
    {
        quern_task_info *info = nullptr;
        quern_status status =
            quern_inspector_task(get(), detail::text_or_null(queue), id.c_str(), &info, &err);
        if (status == QUERN_OK) {
            ret_info = task_info(info);
        }
        return status;
    }

    /* The same; id may be the beginning of a UUID, see quern_inspector_task_short. */
    task_info task_short(const std::string &queue, const std::string &id)
    {
        task_info info(nullptr);
        detail::must([&](quern_error &err) { return task_short(queue, id, info, err); });
        return info;
    }
    quern_status task_short(const std::string &queue, const std::string &id, task_info &ret_info,
                            quern_error &err) noexcept
    {
        quern_task_info *info = nullptr;
        quern_status status =
            quern_inspector_task_short(get(), detail::text_or_null(queue), id.c_str(), &info, &err);
        if (status == QUERN_OK) {
            ret_info = task_info(info);
        }
        return status;
    }

    void act(quern_action action, const std::string &queue, const std::string &id)
    {
        detail::must([&](quern_error &err) { return act(action, queue, id, err); });
    }
    quern_status act(quern_action action, const std::string &queue, const std::string &id,
                     quern_error &err) noexcept
    {
        return quern_inspector_act(get(), action, detail::text_or_null(queue), id.c_str(), &err);
    }

    /* Returns how many tasks it was applied to. */
    std::uint64_t act_all(quern_action action, const quern_task_filter &filter)
    {
        std::uint64_t count = 0;
        detail::must([&](quern_error &err) { return act_all(action, filter, count, err); });
        return count;
    }
    quern_status act_all(quern_action action, const quern_task_filter &filter,
                         std::uint64_t &ret_count, quern_error &err) noexcept
    {
        return quern_inspector_act_all(get(), action, &filter, &ret_count, &err);
    }

    /* See quern_client_reload_certificates. */
    void reload_certificates()
    {
        detail::must([&](quern_error &err) { return reload_certificates(err); });
    }
    quern_status reload_certificates(quern_error &err) noexcept
    {
        return quern_inspector_reload_certificates(get(), &err);
    }

    quern_matching act_matching(quern_action action, const quern_search &search)
    {
        quern_matching matching = {};
        detail::must([&](quern_error &err) { return act_matching(action, search, matching, err); });
        return matching;
    }
    quern_status act_matching(quern_action action, const quern_search &search,
                              quern_matching &ret_matching, quern_error &err) noexcept
    {
        return quern_inspector_act_matching(get(), action, &search, &ret_matching, &err);
    }
    quern_matching count_matching(quern_action action, const quern_search &search)
    {
        quern_matching matching = {};
        detail::must([&](quern_error &err) {
            return quern_inspector_count_matching(get(), action, &search, &matching, &err);
        });
        return matching;
    }
    quern_matching edit_matching(const quern_task_edit &edit, const quern_search &search)
    {
        quern_matching matching = {};
        detail::must([&](quern_error &err) { return edit_matching(edit, search, matching, err); });
        return matching;
    }
    quern_status edit_matching(const quern_task_edit &edit, const quern_search &search,
                               quern_matching &ret_matching, quern_error &err) noexcept
    {
        return quern_inspector_edit_matching(get(), &edit, &search, &ret_matching, &err);
    }
    quern_matching move_matching(const std::string &to_queue, const quern_search &search)
    {
        quern_matching matching = {};
        detail::must(
            [&](quern_error &err) { return move_matching(to_queue, search, matching, err); });
        return matching;
    }
    quern_status move_matching(const std::string &to_queue, const quern_search &search,
                               quern_matching &ret_matching, quern_error &err) noexcept
    {
        return quern_inspector_move_matching(get(), to_queue.c_str(), &search, &ret_matching, &err);
    }
    /* An empty queue: any. */
    void move(const std::string &queue, const std::string &id, const std::string &to_queue)
    {
        detail::must([&](quern_error &err) { return move(queue, id, to_queue, err); });
    }
    quern_status move(const std::string &queue, const std::string &id, const std::string &to_queue,
                      quern_error &err) noexcept
    {
        return quern_inspector_task_move(get(), queue.empty() ? nullptr : queue.c_str(), id.c_str(),
                                         to_queue.c_str(), &err);
    }
    void edit(const std::string &queue, const std::string &id, const quern_task_edit &edit)
    {
        detail::must([&](quern_error &err) { return this->edit(queue, id, edit, err); });
    }
    quern_status edit(const std::string &queue, const std::string &id, const quern_task_edit &edit,
                      quern_error &err) noexcept
    {
        return quern_inspector_task_edit(get(), queue.empty() ? nullptr : queue.c_str(), id.c_str(),
                                         &edit, &err);
    }

    void backup(const std::string &path)
    {
        detail::must([&](quern_error &err) { return backup(path, err); });
    }
    quern_status backup(const std::string &path, quern_error &err) noexcept
    {
        return quern_inspector_backup(get(), path.c_str(), &err);
    }

    void pause(const std::string &queue)
    {
        detail::must([&](quern_error &err) { return pause(queue, err); });
    }
    quern_status pause(const std::string &queue, quern_error &err) noexcept
    {
        return quern_inspector_pause(get(), queue.c_str(), &err);
    }
    void set_queue(const std::string &queue, const quern_queue_settings &settings)
    {
        detail::must([&](quern_error &err) { return set_queue(queue, settings, err); });
    }
    quern_status set_queue(const std::string &queue, const quern_queue_settings &settings,
                           quern_error &err) noexcept
    {
        return quern_inspector_set_queue(get(), queue.c_str(), &settings, &err);
    }
    void resume(const std::string &queue)
    {
        detail::must([&](quern_error &err) { return resume(queue, err); });
    }
    quern_status resume(const std::string &queue, quern_error &err) noexcept
    {
        return quern_inspector_resume(get(), queue.c_str(), &err);
    }

    void set_limit(const quern_limit &limit)
    {
        detail::must([&](quern_error &err) { return set_limit(limit, err); });
    }
    quern_status set_limit(const quern_limit &limit, quern_error &err) noexcept
    {
        return quern_inspector_set_limit(get(), &limit, &err);
    }
    /* name: of a queue "". */
    void remove_limit(const std::string &queue, quern_limit_scope scope, const std::string &name)
    {
        detail::must([&](quern_error &err) { return remove_limit(queue, scope, name, err); });
    }
    quern_status remove_limit(const std::string &queue, quern_limit_scope scope,
                              const std::string &name, quern_error &err) noexcept
    {
        return quern_inspector_remove_limit(get(), queue.c_str(), scope, name.c_str(), &err);
    }
    /* queue: "": all. */
    limit_list limits(const std::string &queue = {})
    {
        limit_list list;
        detail::must([&](quern_error &err) { return limits(queue, list, err); });
        return list;
    }
    quern_status limits(const std::string &queue, limit_list &ret_list, quern_error &err) noexcept
    {
        quern_limit_list *list = nullptr;
        quern_status status =
            quern_inspector_limits(get(), detail::text_or_null(queue), &list, &err);
        return took(ret_list, list, status);
    }

    /* queue and name: "": all. */
    entry_list entries(const std::string &queue = {}, const std::string &name = {})
    {
        entry_list list;
        detail::must([&](quern_error &err) { return entries(queue, name, list, err); });
        return list;
    }
    quern_status entries(const std::string &queue, const std::string &name, entry_list &ret_list,
                         quern_error &err) noexcept
    {
        quern_entry_list *list = nullptr;
        quern_status status = quern_inspector_entries(get(), detail::text_or_null(queue),
                                                      detail::text_or_null(name), &list, &err);
        return took(ret_list, list, status);
    }
    void put_entry(const quern_entry &entry, const quern_task &task,
                   quern_entry_put what = QUERN_ENTRY_ADD)
    {
        detail::must([&](quern_error &err) { return put_entry(entry, task, what, err); });
    }
    quern_status put_entry(const quern_entry &entry, const quern_task &task, quern_entry_put what,
                           quern_error &err) noexcept
    {
        return quern_inspector_put_entry(get(), &entry, &task, what, &err);
    }
    /* In the next four, queue may be "" if only one queue has an entry of this name. */
    void pause_entry(const std::string &queue, const std::string &name, quern_entry_pause what)
    {
        detail::must([&](quern_error &err) { return pause_entry(queue, name, what, err); });
    }
    quern_status pause_entry(const std::string &queue, const std::string &name,
                             quern_entry_pause what, quern_error &err) noexcept
    {
        return quern_inspector_pause_entry(get(), detail::text_or_null(queue), name.c_str(), what,
                                           &err);
    }
    void remove_entry(const std::string &queue, const std::string &name, bool force = false)
    {
        detail::must([&](quern_error &err) { return remove_entry(queue, name, force, err); });
    }
    quern_status remove_entry(const std::string &queue, const std::string &name, bool force,
                              quern_error &err) noexcept
    {
        return quern_inspector_remove_entry(get(), detail::text_or_null(queue), name.c_str(), force,
                                            &err);
    }
    void trigger_entry(const std::string &queue, const std::string &name)
    {
        detail::must([&](quern_error &err) { return trigger_entry(queue, name, err); });
    }
    quern_status trigger_entry(const std::string &queue, const std::string &name,
                               quern_error &err) noexcept
    {
        return quern_inspector_trigger_entry(get(), detail::text_or_null(queue), name.c_str(),
                                             nullptr, &err);
    }
    entry_history history_of_entry(const std::string &queue, const std::string &name)
    {
        entry_history history;
        detail::must([&](quern_error &err) { return history_of_entry(queue, name, history, err); });
        return history;
    }
    quern_status history_of_entry(const std::string &queue, const std::string &name,
                                  entry_history &ret_history, quern_error &err) noexcept
    {
        quern_entry_history *history = nullptr;
        quern_status status = quern_inspector_entry_history(get(), detail::text_or_null(queue),
                                                            name.c_str(), &history, &err);
        return took(ret_history, history, status);
    }

    quern_inspector *get() const noexcept
    {
        return inspector_.get();
    }

  private:
    template <typename Ours, typename Theirs>
    static quern_status took(Ours &ret_list, Theirs *list, quern_status status) noexcept
    {
        if (status == QUERN_OK) {
            ret_list = Ours(list);
        }
        return status;
    }

    detail::handle<quern_inspector, quern_inspector_free> inspector_;
};

} /* namespace quern */

#endif
