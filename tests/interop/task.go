// SPDX-License-Identifier: MIT

// Tasks and their infos, as JSON.

package main

import (
	"time"

	"github.com/hibiken/asynq"
)

// A task with its options. A pointer that is nil means: do not give this option.
type taskSpec struct {
	Type        string            `json:"type"`
	Payload     []byte            `json:"payload"`
	Headers     map[string]string `json:"headers,omitempty"`
	Queue       *string           `json:"queue,omitempty"`
	ID          *string           `json:"id,omitempty"`
	Retry       *int              `json:"retry,omitempty"`
	TimeoutMs   *int64            `json:"timeout_ms,omitempty"`
	DeadlineS   *int64            `json:"deadline_s,omitempty"`
	UniqueMs    *int64            `json:"unique_ms,omitempty"`
	ProcessAtS  *int64            `json:"process_at_s,omitempty"`
	ProcessInMs *int64            `json:"process_in_ms,omitempty"`
	RetentionMs *int64            `json:"retention_ms,omitempty"`
	Group       *string           `json:"group,omitempty"`
}

func milliseconds(value int64) time.Duration {
	return time.Duration(value) * time.Millisecond
}

func (s *taskSpec) task() *asynq.Task {
	if s.Headers == nil {
		return asynq.NewTask(s.Type, s.Payload)
	}
	return asynq.NewTaskWithHeaders(s.Type, s.Payload, s.Headers)
}

func (s *taskSpec) options() []asynq.Option {
	var options []asynq.Option
	if s.Queue != nil {
		options = append(options, asynq.Queue(*s.Queue))
	}
	if s.ID != nil {
		options = append(options, asynq.TaskID(*s.ID))
	}
	if s.Retry != nil {
		options = append(options, asynq.MaxRetry(*s.Retry))
	}
	if s.TimeoutMs != nil {
		options = append(options, asynq.Timeout(milliseconds(*s.TimeoutMs)))
	}
	if s.DeadlineS != nil {
		options = append(options, asynq.Deadline(time.Unix(*s.DeadlineS, 0)))
	}
	if s.UniqueMs != nil {
		options = append(options, asynq.Unique(milliseconds(*s.UniqueMs)))
	}
	if s.ProcessAtS != nil {
		options = append(options, asynq.ProcessAt(time.Unix(*s.ProcessAtS, 0)))
	}
	if s.ProcessInMs != nil {
		options = append(options, asynq.ProcessIn(milliseconds(*s.ProcessInMs)))
	}
	if s.RetentionMs != nil {
		options = append(options, asynq.Retention(milliseconds(*s.RetentionMs)))
	}
	if s.Group != nil {
		options = append(options, asynq.Group(*s.Group))
	}
	return options
}

// Every field of asynq.TaskInfo.
type taskInfo struct {
	ID              string            `json:"id"`
	Queue           string            `json:"queue"`
	Type            string            `json:"type"`
	Payload         []byte            `json:"payload"`
	Headers         map[string]string `json:"headers"`
	State           string            `json:"state"`
	MaxRetry        int               `json:"max_retry"`
	Retried         int               `json:"retried"`
	LastErr         string            `json:"last_err"`
	LastFailedAtNs  int64             `json:"last_failed_at_ns"`
	TimeoutMs       int64             `json:"timeout_ms"`
	DeadlineNs      int64             `json:"deadline_ns"`
	Group           string            `json:"group"`
	NextProcessAtNs int64             `json:"next_process_at_ns"`
	IsOrphaned      bool              `json:"is_orphaned"`
	RetentionMs     int64             `json:"retention_ms"`
	CompletedAtNs   int64             `json:"completed_at_ns"`
	Result          []byte            `json:"result"`
}

// Zero is "never", as in asynq.
func nanoseconds(moment time.Time) int64 {
	if moment.IsZero() {
		return 0
	}
	return moment.UnixNano()
}

func infoOf(info *asynq.TaskInfo) *taskInfo {
	return &taskInfo{
		ID: info.ID, Queue: info.Queue, Type: info.Type, Payload: info.Payload,
		Headers: info.Headers, State: info.State.String(), MaxRetry: info.MaxRetry,
		Retried: info.Retried, LastErr: info.LastErr,
		LastFailedAtNs: nanoseconds(info.LastFailedAt), TimeoutMs: info.Timeout.Milliseconds(),
		DeadlineNs: nanoseconds(info.Deadline), Group: info.Group,
		NextProcessAtNs: nanoseconds(info.NextProcessAt), IsOrphaned: info.IsOrphaned,
		RetentionMs: info.Retention.Milliseconds(), CompletedAtNs: nanoseconds(info.CompletedAt),
		Result: info.Result,
	}
}

func infosOf(infos []*asynq.TaskInfo) []*taskInfo {
	listed := []*taskInfo{}
	for _, info := range infos {
		listed = append(listed, infoOf(info))
	}
	return listed
}
