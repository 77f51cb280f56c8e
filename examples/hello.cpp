/* SPDX-License-Identifier: MIT */
/* hello.cpp - the headers from C++: one task, enqueued and run by the same program.
 *
 * The handles fit std::unique_ptr, and a handler can be any function of C linkage or a lambda that
 * captures nothing; what it needs comes through `user`. Usage: hello_cpp [BROKER]. */
#include <quern/quern.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace
{

struct Freer {
    void operator()(quern_client *client) const
    {
        quern_client_free(client);
    }
    void operator()(quern_mux *mux) const
    {
        quern_mux_free(mux);
    }
    void operator()(quern_worker *worker) const
    {
        quern_worker_free(worker);
    }
};
template <typename T> using Handle = std::unique_ptr<T, Freer>;

void check(quern_status status, const quern_error &err)
{
    if (status != QUERN_OK) {
        throw std::runtime_error(err.text);
    }
}

void enqueue(const char *url, const std::string &name)
{
    quern_error err{};
    quern_client *raw = nullptr;
    check(quern_client_open(url, nullptr, &raw, &err), err);
    Handle<quern_client> client(raw);

    quern_task task{};
    task.type = "hello";
    task.payload = name.data();
    task.payload_size = name.size();
    check(quern_client_enqueue(client.get(), &task, nullptr, &err), err);
}

void work(const char *url, std::string *greeting)
{
    quern_error err{};
    quern_mux *raw_mux = nullptr;
    check(quern_mux_new(&raw_mux, &err), err);
    Handle<quern_mux> mux(raw_mux);
    auto hello = [](quern_run *, const quern_task *task, void *user) {
        auto text = static_cast<const char *>(task->payload);
        *static_cast<std::string *>(user) = "hello, " + std::string(text, task->payload_size);
        return QUERN_DONE;
    };
    check(quern_mux_handle(mux.get(), "hello", hello, greeting, nullptr, &err), err);

    quern_worker_options options{};
    options.drain = true; /* stop when the queue is empty */
    quern_worker *raw_worker = nullptr;
    check(quern_worker_new(url, mux.get(), &options, &raw_worker, &err), err);
    Handle<quern_worker> worker(raw_worker);
    check(quern_worker_run(worker.get(), &err), err);
}

} /* namespace */

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "hello_cpp.db";
    try {
        std::string greeting;
        enqueue(url, "C++");
        work(url, &greeting);
        std::printf("%s\n", greeting.c_str());
    } catch (const std::exception &error) {
        std::fprintf(stderr, "hello_cpp: %s\n", error.what());
        return 1;
    }
    return 0;
}
