/* SPDX-License-Identifier: MIT */
/* quern/zygote.hpp - handlers in processes of their own, for C++. See quern/zygote.h. */
#ifndef QUERN_ZYGOTE_HPP
#define QUERN_ZYGOTE_HPP

#include <cstddef>

#include "quern/mux.hpp"
#include "quern/zygote.h"

namespace quern
{

/* The process that forks all children, for worker_options::zygote:
 *     options.zygote = std::make_shared<quern::zygote>(handlers); */
class zygote
{
  public:
    /* For worker_options without one, and as the target of start() and exec(). */
    zygote(std::nullptr_t) noexcept
    {
    }
    /* First thing in main, when `handlers` is complete. on_child_start: see quern_zygote_options;
     * an exception ends the child. */
    explicit zygote(const quern::mux &handlers, const std::function<void()> &on_child_start = {})
    {
        detail::must([&](quern_error &err) { return start(handlers, on_child_start, *this, err); });
    }
    static quern_status start(const quern::mux &handlers,
                              const std::function<void()> &on_child_start, zygote &ret_zygote,
                              quern_error &err) noexcept
    {
        quern_zygote *made = nullptr;
        const quern_zygote_options options = view(on_child_start);
        quern_status status = quern_zygote_start(handlers.get(), &options, &made, &err);
        if (status == QUERN_OK) {
            ret_zygote = zygote(made, false);
        }
        return status;
    }

    /* Another program, for one that has threads; the worker's own mux stays empty. */
    static zygote exec(const std::string &path, const std::vector<std::string> &arguments = {},
                       milliseconds start_timeout = milliseconds{0})
    {
        zygote made(nullptr);
        detail::must(
            [&](quern_error &err) { return exec(path, arguments, start_timeout, made, err); });
        return made;
    }
    static quern_status exec(const std::string &path, const std::vector<std::string> &arguments,
                             milliseconds start_timeout, zygote &ret_zygote,
                             quern_error &err) noexcept
    {
        return detail::guard(err, [&] {
            std::vector<std::string> texts = arguments;
            texts.insert(texts.begin(), path);
            std::vector<char *> argv;
            for (std::string &text : texts) {
                argv.push_back(text.data());
            }
            argv.push_back(nullptr);
            quern_zygote_options options{};
            options.start_timeout_ms = start_timeout.count();
            quern_zygote *made = nullptr;
            quern_status status =
                quern_zygote_exec(path.c_str(), argv.data(), &options, &made, &err);
            if (status == QUERN_OK) {
                ret_zygote = zygote(made, true);
            }
            return status;
        });
    }

    /* In the program that was executed: until the worker is gone. */
    static void serve(const quern::mux &handlers, const std::function<void()> &on_child_start = {})
    {
        detail::must([&](quern_error &err) { return serve(handlers, on_child_start, err); });
    }
    static quern_status serve(const quern::mux &handlers,
                              const std::function<void()> &on_child_start,
                              quern_error &err) noexcept
    {
        const quern_zygote_options options = view(on_child_start);
        return quern_zygote_serve(handlers.get(), &options, &err);
    }

    /* Beside the handlers of an executed zygote the worker runs this command; until it has the
     * zygote. Errors: as mux::exec; QUERN_E_INVALID for one that was not executed. */
    zygote &add_command(const std::string &pattern, const std::string &command,
                        const quern_exec_options &options = {})
    {
        detail::must([&](quern_error &err) { return add_command(pattern, command, options, err); });
        return *this;
    }
    quern_status add_command(const std::string &pattern, const std::string &command,
                             const quern_exec_options &options, quern_error &err) noexcept
    {
        return quern_mux_exec(mux(), pattern.c_str(), command.c_str(), &options, &err);
    }
    /* quern_zygote_mux; nullptr: it was not executed. */
    quern_mux *mux() const noexcept
    {
        return quern_zygote_mux(zygote_.get());
    }

    /* Ends it now; one that was forked ends with its worker. */
    void close() noexcept
    {
        zygote_.reset();
    }
    bool is_program() const noexcept
    {
        return is_program_;
    }
    quern_zygote *get() const noexcept
    {
        return zygote_.get();
    }

  private:
    struct deleter {
        void operator()(quern_zygote *zygote) const noexcept
        {
            quern_zygote_free(zygote);
        }
    };
    zygote(quern_zygote *take_zygote, bool is_program) noexcept
        : zygote_(take_zygote), is_program_(is_program)
    {
    }
    /* Children have a copy of it from the fork on. */
    static quern_zygote_options view(const std::function<void()> &on_child_start) noexcept
    {
        quern_zygote_options options{};
        if (on_child_start) {
            options.on_child_start = call_start;
            options.user = const_cast<std::function<void()> *>(&on_child_start);
        }
        return options;
    }
    static void call_start(void *user) noexcept
    {
        (*static_cast<const std::function<void()> *>(user))();
    }

    std::unique_ptr<quern_zygote, deleter> zygote_;
    bool is_program_ = false;
};

} /* namespace quern */

#endif
