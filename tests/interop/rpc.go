// SPDX-License-Identifier: MIT

// One request a line, one reply a line, in order: asynq's client and its Inspector for a test that
// is written in another language. A reply has either "ok" or "error".

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/hibiken/asynq"
)

type request struct {
	Do    string   `json:"do"`
	Task  taskSpec `json:"task"`
	Queue string   `json:"queue"`
	ID    string   `json:"id"`
	State string   `json:"state"`
	Group string   `json:"group"`
	Days  int      `json:"days"`
	Page  int      `json:"page"`
	Size  int      `json:"size"`
	Force bool     `json:"force"`
	Bytes []byte   `json:"bytes"`
}

type reply struct {
	OK    any    `json:"ok"`
	Error string `json:"error,omitempty"`
}

type peer struct {
	address   string
	client    *asynq.Client
	inspector *asynq.Inspector
}

type verb func(p *peer, r *request) (any, error)

// The words for a state, as they stand in the names of the Inspector's methods.
type listing func(i *asynq.Inspector, r *request, o ...asynq.ListOption) ([]*asynq.TaskInfo, error)
type counting func(i *asynq.Inspector, r *request) (int, error)

var lists = map[string]listing{
	"pending": func(i *asynq.Inspector, r *request, o ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return i.ListPendingTasks(r.Queue, o...)
	},
	"active": func(i *asynq.Inspector, r *request, o ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return i.ListActiveTasks(r.Queue, o...)
	},
	"scheduled": func(i *asynq.Inspector, r *request, o ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return i.ListScheduledTasks(r.Queue, o...)
	},
	"retry": func(i *asynq.Inspector, r *request, o ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return i.ListRetryTasks(r.Queue, o...)
	},
	"archived": func(i *asynq.Inspector, r *request, o ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return i.ListArchivedTasks(r.Queue, o...)
	},
	"completed": func(i *asynq.Inspector, r *request, o ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return i.ListCompletedTasks(r.Queue, o...)
	},
	"aggregating": func(i *asynq.Inspector, r *request, o ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
		return i.ListAggregatingTasks(r.Queue, r.Group, o...)
	},
}

var runAll = map[string]counting{
	"scheduled": func(i *asynq.Inspector, r *request) (int, error) { return i.RunAllScheduledTasks(r.Queue) },
	"retry":     func(i *asynq.Inspector, r *request) (int, error) { return i.RunAllRetryTasks(r.Queue) },
	"archived":  func(i *asynq.Inspector, r *request) (int, error) { return i.RunAllArchivedTasks(r.Queue) },
	"aggregating": func(i *asynq.Inspector, r *request) (int, error) {
		return i.RunAllAggregatingTasks(r.Queue, r.Group)
	},
}

var archiveAll = map[string]counting{
	"pending":   func(i *asynq.Inspector, r *request) (int, error) { return i.ArchiveAllPendingTasks(r.Queue) },
	"scheduled": func(i *asynq.Inspector, r *request) (int, error) { return i.ArchiveAllScheduledTasks(r.Queue) },
	"retry":     func(i *asynq.Inspector, r *request) (int, error) { return i.ArchiveAllRetryTasks(r.Queue) },
	"aggregating": func(i *asynq.Inspector, r *request) (int, error) {
		return i.ArchiveAllAggregatingTasks(r.Queue, r.Group)
	},
}

var deleteAll = map[string]counting{
	"pending":   func(i *asynq.Inspector, r *request) (int, error) { return i.DeleteAllPendingTasks(r.Queue) },
	"scheduled": func(i *asynq.Inspector, r *request) (int, error) { return i.DeleteAllScheduledTasks(r.Queue) },
	"retry":     func(i *asynq.Inspector, r *request) (int, error) { return i.DeleteAllRetryTasks(r.Queue) },
	"archived":  func(i *asynq.Inspector, r *request) (int, error) { return i.DeleteAllArchivedTasks(r.Queue) },
	"completed": func(i *asynq.Inspector, r *request) (int, error) { return i.DeleteAllCompletedTasks(r.Queue) },
	"aggregating": func(i *asynq.Inspector, r *request) (int, error) {
		return i.DeleteAllAggregatingTasks(r.Queue, r.Group)
	},
}

func byState(table map[string]counting) verb {
	return func(p *peer, r *request) (any, error) {
		act, found := table[r.State]
		if !found {
			return nil, fmt.Errorf("asynq has no such method for %q", r.State)
		}
		return act(p.inspector, r)
	}
}

func list(p *peer, r *request) (any, error) {
	look, found := lists[r.State]
	if !found {
		return nil, fmt.Errorf("no state %q", r.State)
	}
	var options []asynq.ListOption
	if r.Page != 0 {
		options = append(options, asynq.Page(r.Page))
	}
	if r.Size != 0 {
		options = append(options, asynq.PageSize(r.Size))
	}
	infos, err := look(p.inspector, r, options...)
	return infosOf(infos), err
}

func schedulerEntries(p *peer, _ *request) (any, error) {
	type row struct {
		ID, Spec, Type string
		Payload        []byte
		Opts           []string
		NextS, PrevS   int64
	}
	entries, err := p.inspector.SchedulerEntries()
	var rows []row
	for _, e := range entries {
		r := row{ID: e.ID, Spec: e.Spec, Type: e.Task.Type(), Payload: e.Task.Payload(),
			NextS: e.Next.Unix(), PrevS: e.Prev.Unix()}
		for _, o := range e.Opts {
			r.Opts = append(r.Opts, o.String())
		}
		rows = append(rows, r)
	}
	return rows, err
}

func schedulerEvents(p *peer, r *request) (any, error) {
	type row struct {
		TaskID string
		AtS    int64
	}
	events, err := p.inspector.ListSchedulerEnqueueEvents(r.ID)
	var rows []row
	for _, e := range events {
		rows = append(rows, row{TaskID: e.TaskID, AtS: e.EnqueuedAt.Unix()})
	}
	return rows, err
}

var verbs = map[string]verb{
	// A client remembers the queues that it has announced: after FLUSHALL a new one is wanted.
	"fresh": func(p *peer, _ *request) (any, error) {
		_ = p.client.Close()
		p.client = asynq.NewClient(asynqOptions(p.address))
		return nil, nil
	},
	"enqueue": func(p *peer, r *request) (any, error) {
		info, err := p.client.Enqueue(r.Task.task(), r.Task.options()...)
		if err != nil {
			return nil, err
		}
		return infoOf(info), nil
	},
	"task": func(p *peer, r *request) (any, error) {
		info, err := p.inspector.GetTaskInfo(r.Queue, r.ID)
		if err != nil {
			return nil, err
		}
		return infoOf(info), nil
	},
	"list":        list,
	"queues":      func(p *peer, _ *request) (any, error) { return p.inspector.Queues() },
	"queue":       func(p *peer, r *request) (any, error) { return p.inspector.GetQueueInfo(r.Queue) },
	"groups":      func(p *peer, r *request) (any, error) { return p.inspector.Groups(r.Queue) },
	"metrics":     func(p *peer, _ *request) (any, error) { return collectMetrics(p.inspector) },
	"history":     func(p *peer, r *request) (any, error) { return p.inspector.History(r.Queue, r.Days) },
	"servers":     func(p *peer, _ *request) (any, error) { return p.inspector.Servers() },
	"run":         func(p *peer, r *request) (any, error) { return nil, p.inspector.RunTask(r.Queue, r.ID) },
	"archive":     func(p *peer, r *request) (any, error) { return nil, p.inspector.ArchiveTask(r.Queue, r.ID) },
	"delete":      func(p *peer, r *request) (any, error) { return nil, p.inspector.DeleteTask(r.Queue, r.ID) },
	"run_all":     byState(runAll),
	"archive_all": byState(archiveAll),
	"delete_all":  byState(deleteAll),
	"update": func(p *peer, r *request) (any, error) {
		return nil, p.inspector.UpdateTaskPayload(r.Queue, r.ID, r.Bytes)
	},
	"scheduler_entries": schedulerEntries,
	"scheduler_events":  schedulerEvents,
	"pause":             func(p *peer, r *request) (any, error) { return nil, p.inspector.PauseQueue(r.Queue) },
	"unpause":           func(p *peer, r *request) (any, error) { return nil, p.inspector.UnpauseQueue(r.Queue) },
	"cancel":            func(p *peer, r *request) (any, error) { return nil, p.inspector.CancelProcessing(r.ID) },
	"remove": func(p *peer, r *request) (any, error) {
		return nil, p.inspector.DeleteQueue(r.Queue, r.Force)
	},
}

func serveRequests(address string, in io.Reader, out io.Writer) error {
	p := &peer{
		address:   address,
		client:    asynq.NewClient(asynqOptions(address)),
		inspector: asynq.NewInspector(asynqOptions(address)),
	}
	defer func() { _ = p.client.Close() }()
	defer p.inspector.Close()
	decoder := json.NewDecoder(bufio.NewReader(in))
	encoder := json.NewEncoder(out)
	for {
		var r request
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var answer reply
		if do, found := verbs[r.Do]; !found {
			answer.Error = fmt.Sprintf("no verb %q", r.Do)
		} else if result, err := do(p, &r); err != nil {
			answer.Error = err.Error()
		} else {
			answer.OK = result
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
}
