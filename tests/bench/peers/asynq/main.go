// SPDX-License-Identifier: MIT

// The driver of asynq; see ../README.md for its commands.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sys/unix"
)

// More goroutines than these made enqueueing no faster on two processors.
const (
	enqueuers    = 50
	payloadBytes = 100
)

func concurrency() int {
	if value, err := strconv.Atoi(os.Getenv("BENCH_CONCURRENCY")); err == nil {
		return value
	}
	return 50
}

func monotonicNs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

func redisOption() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: os.Getenv("BENCH_HOST") + ":" + os.Getenv("BENCH_PORT"), PoolSize: enqueuers}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func enqueue(count int, threads int) {
	client := asynq.NewClient(redisOption())
	defer client.Close()
	payload := bytes.Repeat([]byte("x"), payloadBytes)
	begin := time.Now()
	var wait sync.WaitGroup
	for i := 0; i < threads; i++ {
		wait.Add(1)
		go func(share int) {
			defer wait.Done()
			for ; share > 0; share-- {
				_, err := client.Enqueue(asynq.NewTask("bench", payload))
				must(err)
			}
		}(count / threads)
	}
	wait.Wait()
	fmt.Println(time.Since(begin).Seconds())
}

func serve(handler asynq.HandlerFunc) *asynq.Server {
	server := asynq.NewServer(redisOption(), asynq.Config{Concurrency: concurrency(), LogLevel: asynq.FatalLevel})
	must(server.Start(handler))
	return server
}

func work(count int64) {
	var done atomic.Int64
	finished := make(chan time.Time, 1)
	begin := time.Now()
	server := serve(func(context.Context, *asynq.Task) error {
		if done.Add(1) == count {
			finished <- time.Now()
		}
		return nil
	})
	end := <-finished
	fmt.Println(end.Sub(begin).Seconds())
	server.Shutdown()
}

func echo() {
	server := serve(func(_ context.Context, task *asynq.Task) error {
		now := monotonicNs()
		sent, err := strconv.ParseInt(strings.TrimRight(string(task.Payload()), " "), 10, 64)
		must(err)
		fmt.Println(now - sent)
		return nil
	})
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	server.Shutdown()
}

func send() {
	client := asynq.NewClient(redisOption())
	defer client.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		payload := fmt.Sprintf("%-*d", payloadBytes, monotonicNs())
		_, err := client.Enqueue(asynq.NewTask("bench", []byte(payload)))
		must(err)
	}
}

func version() {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/hibiken/asynq" {
			fmt.Printf("asynq %s, %s, several concurrencies, bulk by %d goroutines\n",
				module.Version, runtime.Version(), enqueuers)
		}
	}
}

func main() {
	count := 0
	if len(os.Args) > 2 {
		count, _ = strconv.Atoi(os.Args[2])
	}
	switch os.Args[1] {
	case "version":
		version()
	case "single":
		enqueue(count, 1)
	case "bulk":
		enqueue(count, enqueuers)
	case "work":
		work(int64(count))
	case "echo":
		echo()
	case "send":
		send()
	}
}
