// SPDX-License-Identifier: MIT

// The scenarios of the recorder.

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

func of[T any](value T) *T {
	return &value
}

const (
	longAfter = 4102444800 // 2100-01-01, so that nothing becomes due
	nul       = "a\x00b\x00\xff"
)

// --- Enqueue: every option alone, and what goes together ------------------------------------

func enqueueScenarios() []scenario {
	body := []byte(`{"to":1}`)
	one := func(name string, task taskSpec) scenario {
		if task.Type == "" {
			task.Type = "email:send"
		}
		if task.Payload == nil {
			task.Payload = body
		}
		return scenario{Name: name, Tasks: []taskSpec{task}}
	}
	bare := func(name string, payload []byte) scenario {
		return scenario{Name: name, Tasks: []taskSpec{{Type: "t", Payload: payload, UniqueMs: of(int64(60000))}}}
	}
	hour := of(int64(3600000))
	return []scenario{
		one("plain", taskSpec{}),
		one("queue", taskSpec{Queue: of("low priority")}),
		one("utf8", taskSpec{Type: "größe:ändern", Queue: of("schlange-ß"), ID: of("nº 1")}),
		one("id", taskSpec{ID: of("invoice-17")}),
		one("retry_none", taskSpec{Retry: of(0)}),
		one("retry_seven", taskSpec{Retry: of(7)}),
		one("timeout", taskSpec{TimeoutMs: of(int64(90000))}),
		one("timeout_short", taskSpec{TimeoutMs: of(int64(500))}),
		one("timeout_none", taskSpec{TimeoutMs: of(int64(0))}),
		one("deadline", taskSpec{DeadlineS: of(int64(longAfter))}),
		one("timeout_and_deadline", taskSpec{TimeoutMs: of(int64(90000)), DeadlineS: of(int64(longAfter))}),
		one("unique", taskSpec{UniqueMs: hour}),
		one("process_at", taskSpec{ProcessAtS: of(int64(longAfter))}),
		one("process_at_past", taskSpec{ProcessAtS: of(int64(1000000000))}),
		one("process_in", taskSpec{ProcessInMs: hour}),
		one("process_in_unique", taskSpec{ProcessInMs: hour, UniqueMs: hour}),
		one("retention", taskSpec{RetentionMs: hour}),
		one("group", taskSpec{Group: of("digest")}),
		one("group_unique", taskSpec{Group: of("digest"), UniqueMs: hour}),
		one("group_delayed", taskSpec{Group: of("digest"), ProcessInMs: hour}),
		one("header", taskSpec{Headers: map[string]string{"trace": "0af7"}}),
		one("headers", taskSpec{Headers: map[string]string{"a": "1", "b": "", "ü": "ß"}}),
		one("everything", taskSpec{ID: of("all"), Queue: of("mail"), Retry: of(3),
			TimeoutMs: of(int64(60000)), DeadlineS: of(int64(longAfter)), UniqueMs: hour,
			ProcessAtS: of(int64(longAfter - 1000)), RetentionMs: hour,
			Headers: map[string]string{"k": "v"}}),
		bare("payload_nil", nil),
		bare("payload_empty", []byte{}),
		bare("payload_nul", []byte(nul)),
		bare("payload_long", []byte(strings.Repeat("0123456789abcdef", 100))),
		{Name: "two", Tasks: []taskSpec{{Type: "a", Payload: body}, {Type: "b", Payload: body}}},
		{Name: "duplicate", Tasks: []taskSpec{{Type: "a", Payload: body, UniqueMs: hour},
			{Type: "a", Payload: body, UniqueMs: hour}}},
		{Name: "conflict", Tasks: []taskSpec{{Type: "a", Payload: body, ID: of("x")},
			{Type: "b", Payload: body, ID: of("x")}}},
	}
}

func (r *recorder) enqueues() ([]scenario, error) {
	var done []scenario
	for _, s := range enqueueScenarios() {
		s, err := r.scenario(s, func(s *scenario) error {
			r.enqueue(s)
			r.mutex.Lock()
			s.Commands = r.commands
			r.mutex.Unlock()
			return nil
		})
		if err != nil {
			return nil, err
		}
		done = append(done, s)
	}
	return done, nil
}

// --- Servers: every way that a run can end ---------------------------------------------------

type serverCase struct {
	name  string
	task  taskSpec
	state string                                            // what to wait for
	then  func(r *recorder, s *scenario, stop func()) error // nil: stop the server
}

func (r *recorder) servers() ([]scenario, error) {
	second, hour := of(int64(1000)), of(int64(3600000))
	payload := []byte("why not")
	cases := []serverCase{
		{name: "done", task: taskSpec{Type: "ok"}, state: "gone"},
		{name: "done_unique", task: taskSpec{Type: "ok", UniqueMs: hour}, state: "gone"},
		{name: "completed", task: taskSpec{Type: "result", RetentionMs: hour}, state: "completed"},
		{name: "completed_unique", task: taskSpec{Type: "ok", RetentionMs: hour, UniqueMs: hour},
			state: "completed"},
		{name: "retry", task: taskSpec{Type: "fail"}, state: "retry"},
		{name: "retry_unique", task: taskSpec{Type: "fail", UniqueMs: hour,
			Headers: map[string]string{"k": "v"}}, state: "retry"},
		{name: "retries_used_up", task: taskSpec{Type: "fail", Retry: of(0)}, state: "archived"},
		{name: "skip_retry", task: taskSpec{Type: "skip", UniqueMs: hour}, state: "archived"},
		{name: "revoked", task: taskSpec{Type: "revoke", RetentionMs: hour}, state: "gone"},
		{name: "panic", task: taskSpec{Type: "panic"}, state: "retry"},
		{name: "timeout", task: taskSpec{Type: "hold", TimeoutMs: second}, state: "retry"},
		{name: "deadline_over", task: taskSpec{Type: "ok", DeadlineS: of(time.Now().Unix() - 10)},
			state: "retry"},
		{name: "cancelled", task: taskSpec{Type: "hold"}, state: "active",
			then: func(r *recorder, s *scenario, stop func()) error {
				defer stop()
				return until("the task is cancelled", func() bool {
					_ = r.inspector.CancelProcessing(*s.Tasks[0].ID)
					return r.state(&s.Tasks[0]) == "retry"
				})
			}},
		{name: "given_back", task: taskSpec{Type: "hold"}, state: "active"},
		{name: "active", task: taskSpec{Type: "hold", Queue: of("mail"), DeadlineS: of(int64(longAfter))},
			state: "active",
			then: func(r *recorder, s *scenario, stop func()) error {
				defer stop()
				err := until("a heartbeat tells the run", func() bool {
					servers, err := r.inspector.Servers()
					return err == nil && len(servers) == 1 && len(servers[0].ActiveWorkers) == 1
				})
				if err != nil {
					return err
				}
				s.Keys, err = dump(r.redis)
				return err
			}},
	}
	var done []scenario
	for _, c := range cases {
		c.task.Payload = payload
		config := serverConfig{Name: "recorder", Journal: r.folder + "/journal",
			Queues: map[string]int{"default": 1, "mail": 3}, Concurrency: 3, CheckMs: 10,
			ForwardMs: 3600000, ShutdownMs: 200}
		s, err := r.scenario(scenario{Name: c.name, Tasks: []taskSpec{c.task}},
			func(s *scenario) error { return r.serve(s, config, &c) })
		if err != nil {
			return nil, err
		}
		config.Journal = ""
		s.Server = &config
		done = append(done, s)
	}
	aggregated, err := r.aggregated()
	return append(done, aggregated), err
}

func (r *recorder) serve(s *scenario, config serverConfig, c *serverCase) error {
	r.enqueue(s)
	stop, err := startServer(r.asynq, config)
	if err != nil {
		return err
	}
	if err := r.untilState(&s.Tasks[0], c.state); err != nil {
		stop()
		return err
	}
	if c.then != nil {
		return c.then(r, s, stop)
	}
	stop()
	return nil
}

// What the aggregator makes of a group, before anybody runs it: the queue is paused.
func (r *recorder) aggregated() (scenario, error) {
	second := int64(1000)
	config := serverConfig{Name: "recorder", Journal: r.folder + "/journal",
		Queues: map[string]int{"default": 1}, Concurrency: 1, CheckMs: 10, GraceMs: second}
	tasks := []taskSpec{{Type: "a", Payload: []byte("1"), Group: of("g")},
		{Type: "a", Payload: []byte("2"), Group: of("g")}}
	return r.scenario(scenario{Name: "aggregated", Tasks: tasks}, func(s *scenario) error {
		if err := r.inspector.PauseQueue("default"); err != nil {
			return err
		}
		r.enqueue(s)
		stop, err := startServer(r.asynq, config)
		if err != nil {
			return err
		}
		defer stop()
		return until("one task of two", func() bool {
			info, err := r.inspector.GetQueueInfo("default")
			return err == nil && info.Pending == 1 && info.Aggregating == 0
		})
	})
}

// --- Schedulers and operators ----------------------------------------------------------------

func (r *recorder) schedulers() ([]scenario, error) {
	s, err := r.scenario(scenario{Name: "entries"}, func(s *scenario) error {
		scheduler := asynq.NewSchedulerFromRedisClient(r.asynq,
			&asynq.SchedulerOpts{HeartbeatInterval: time.Second})
		_, err := scheduler.Register("@every 1s", asynq.NewTask("tick", []byte(nul)),
			asynq.Queue("low"), asynq.MaxRetry(3), asynq.Timeout(90*time.Second),
			asynq.Retention(time.Hour), asynq.Unique(2*time.Second), asynq.Group("g"))
		if err != nil {
			return err
		}
		if _, err := scheduler.Register("30 4 1 1 *", asynq.NewTask("yearly", nil)); err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		defer scheduler.Shutdown()
		err = until("entries and an event", func() bool {
			entries, err := r.inspector.SchedulerEntries()
			if err != nil || len(entries) != 2 {
				return false
			}
			for _, entry := range entries {
				events, err := r.inspector.ListSchedulerEnqueueEvents(entry.ID)
				if err == nil && len(events) > 0 && !entry.Prev.IsZero() {
					return true
				}
			}
			return false
		})
		if err != nil {
			return err
		}
		s.Keys, err = dump(r.redis)
		return err
	})
	return []scenario{s}, err
}

func (r *recorder) inspectors() ([]scenario, error) {
	hour := of(int64(3600000))
	act := func(name string, task taskSpec, do func(queue, id string) error) (scenario, error) {
		return r.scenario(scenario{Name: name, Tasks: []taskSpec{task}}, func(s *scenario) error {
			r.enqueue(s)
			return do("default", *s.Tasks[0].ID)
		})
	}
	var done []scenario
	for _, c := range []struct {
		name string
		task taskSpec
		do   func(queue, id string) error
	}{
		{"run", taskSpec{Type: "t", ProcessInMs: hour}, r.inspector.RunTask},
		{"run_aggregating", taskSpec{Type: "t", Group: of("g")}, r.inspector.RunTask},
		{"archive_pending", taskSpec{Type: "t"}, r.inspector.ArchiveTask},
		{"archive_unique", taskSpec{Type: "t", ProcessInMs: hour, UniqueMs: hour},
			r.inspector.ArchiveTask},
		{"archive_aggregating", taskSpec{Type: "t", Group: of("g")}, r.inspector.ArchiveTask},
		{"delete_unique", taskSpec{Type: "t", UniqueMs: hour}, r.inspector.DeleteTask},
		{"update", taskSpec{Type: "t", Payload: []byte("old"), ProcessInMs: hour},
			func(queue, id string) error {
				return r.inspector.UpdateTaskPayload(queue, id, []byte("new"))
			}},
		{"pause", taskSpec{Type: "t"}, func(queue, _ string) error {
			return r.inspector.PauseQueue(queue)
		}},
		{"archive_all", taskSpec{Type: "t"}, func(queue, _ string) error {
			count, err := r.inspector.ArchiveAllPendingTasks(queue)
			if count != 1 {
				return fmt.Errorf("archived %d: %w", count, err)
			}
			return err
		}},
	} {
		s, err := act(c.name, c.task, c.do)
		if err != nil {
			return nil, err
		}
		done = append(done, s)
	}
	return done, nil
}
