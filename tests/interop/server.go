// SPDX-License-Identifier: MIT

// A worker of asynq whose handlers do what the type of a task says; the quern worker of the tests
// (worker.c) understands the same words. Each start and each end of a handler is a line of JSON in
// the journal, an O_APPEND file that survives every kill.
//
//	ok             done
//	result         done; the payload is the result
//	checkpoint:Q   done, as result, for quern's worker (worker.c) has left the payload
//	fail           fails, with the payload as text
//	fail:N         fails while it was retried less than N times
//	skip, revoke   asynq's SkipRetry and RevokeTask
//	panic          panics
//	rest:MS        done after so many milliseconds, or the context's error before
//	hold           done when the file JOURNAL.go.ID or JOURNAL.go.NAME.ID exists, or the context's error
//	               before

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

type serverConfig struct {
	Name         string         `json:"name"`
	Journal      string         `json:"journal"`
	Queues       map[string]int `json:"queues"`
	Strict       bool           `json:"strict"`
	Concurrency  int            `json:"concurrency"`
	RetryDelayMs *int64         `json:"retry_delay_ms"`        // nil: asynq's
	CheckMs      int64          `json:"check_ms"`              // how often it looks for tasks; 0: asynq's
	ForwardMs    int64          `json:"forward_ms"`            // and for due ones; 0: asynq's
	ShutdownMs   int64          `json:"shutdown_ms"`           // 0: asynq's
	JanitorMs    int64          `json:"janitor_ms"`            // and for what is kept too long; 0: asynq's
	GraceMs      int64          `json:"grace_ms"`              // of groups; 0: nothing is aggregated
	DelayMs      int64          `json:"delay_ms,omitempty"`    // and their longest wait
	Size         int            `json:"size,omitempty"`        // and the most of a set
	KeepMs       int64          `json:"keep_ms,omitempty"`     // of what is made of them
	DieInCall    int64          `json:"die_in_call,omitempty"` // the aggregator kills the server, before it returns

	Semaphore *semaphoreConfig `json:"semaphore"` // each handler holds a token of it; nil: of none
}

type journalLine struct {
	What    string `json:"what"` // "start" or "end"
	Worker  string `json:"worker"`
	PID     int    `json:"pid"`
	ID      string `json:"id"`
	Queue   string `json:"queue"`
	Retried int    `json:"retried"`
	AtNs    int64  `json:"at_ns"`
	Error   string `json:"error"`
}

type worker struct {
	config  serverConfig
	journal *os.File
}

func (w *worker) write(ctx context.Context, what string, failure error) {
	line := journalLine{What: what, Worker: w.config.Name, PID: os.Getpid(), AtNs: time.Now().UnixNano()}
	line.ID, _ = asynq.GetTaskID(ctx)
	line.Queue, _ = asynq.GetQueueName(ctx)
	line.Retried, _ = asynq.GetRetryCount(ctx)
	if failure != nil {
		line.Error = failure.Error()
	}
	text, _ := json.Marshal(line)
	_, err := w.journal.Write(append(text, '\n'))
	if err != nil {
		panic(err) // without a record of what happened a test proves nothing
	}
}

// Looks each 2 ms, and gives up with the context.
func waitFor(ctx context.Context, over func() bool) error {
	for !over() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (w *worker) run(ctx context.Context, task *asynq.Task) error {
	word, number, _ := strings.Cut(task.Type(), ":")
	value, _ := strconv.Atoi(number)
	retried, _ := asynq.GetRetryCount(ctx)
	id, _ := asynq.GetTaskID(ctx)
	switch word {
	case "ok":
		return nil
	case "result", "checkpoint":
		_, err := task.ResultWriter().Write(task.Payload())
		return err
	case "fail":
		if number != "" && retried >= value {
			return nil
		}
		return fmt.Errorf("%s", task.Payload())
	case "skip":
		return fmt.Errorf("%s: %w", task.Payload(), asynq.SkipRetry)
	case "revoke":
		return fmt.Errorf("not wanted: %w", asynq.RevokeTask)
	case "panic":
		panic("as asked")
	case "rest":
		began := time.Now()
		return waitFor(ctx, func() bool { return time.Since(began).Milliseconds() >= int64(value) })
	case "hold":
		return waitFor(ctx, func() bool {
			return exists(w.config.Journal+".go."+id) ||
				exists(w.config.Journal+".go."+w.config.Name+"."+id)
		})
	}
	return fmt.Errorf("no handler for %q", task.Type())
}

func (w *worker) ProcessTask(ctx context.Context, task *asynq.Task) error {
	w.write(ctx, "start", nil)
	err := w.run(ctx, task)
	w.write(ctx, "end", err)
	return err
}

func (c *serverConfig) asynq() asynq.Config {
	config := asynq.Config{
		Concurrency: c.Concurrency, Queues: c.Queues, StrictPriority: c.Strict,
		TaskCheckInterval:        time.Duration(c.CheckMs) * time.Millisecond,
		DelayedTaskCheckInterval: time.Duration(c.ForwardMs) * time.Millisecond,
		ShutdownTimeout:          time.Duration(c.ShutdownMs) * time.Millisecond,
		JanitorInterval:          time.Duration(c.JanitorMs) * time.Millisecond,
		LogLevel:                 asynq.WarnLevel,
	}
	if c.RetryDelayMs != nil {
		delay := milliseconds(*c.RetryDelayMs)
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return delay }
	}
	if c.GraceMs != 0 {
		config.GroupGracePeriod = milliseconds(c.GraceMs)
		config.GroupMaxDelay = milliseconds(c.DelayMs)
		config.GroupMaxSize = c.Size
		config.GroupAggregator = asynq.GroupAggregatorFunc(c.aggregator())
	}
	return config
}

// A task of the type "ok" with the payload GROUP=PAYLOAD+PAYLOAD...
func (c *serverConfig) aggregator() func(group string, tasks []*asynq.Task) *asynq.Task {
	var calls atomic.Int64
	var options []asynq.Option
	if c.KeepMs != 0 {
		options = append(options, asynq.Retention(milliseconds(c.KeepMs)))
	}
	return func(group string, tasks []*asynq.Task) *asynq.Task {
		if calls.Add(1) == c.DieInCall {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until it has taken effect
		}
		var payloads []string
		for _, task := range tasks {
			payloads = append(payloads, string(task.Payload()))
		}
		return asynq.NewTask("ok", []byte(group+"="+strings.Join(payloads, "+")), options...)
	}
}

// Starts the server; the function it returns shuts it down, as asynq does at SIGTERM.
func startServer(client redis.UniversalClient, config serverConfig) (func(), error) {
	journal, err := os.OpenFile(config.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	settings := config.asynq()
	var handler asynq.Handler = &worker{config: config, journal: journal}
	if config.Semaphore != nil {
		path := client.(*redis.Client).Options().Addr
		handler = config.Semaphore.limit(path, &settings, handler)
	}
	server := asynq.NewServerFromRedisClient(client, settings)
	if err := server.Start(handler); err != nil {
		return nil, err
	}
	var once sync.Once
	return func() { once.Do(server.Shutdown) }, nil
}

func runServer(address, text string) error {
	var config serverConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	stop, err := startServer(asynqOptions(address).MakeRedisClient().(redis.UniversalClient), config)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	<-ended
	stop()
	return nil
}
