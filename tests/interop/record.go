// SPDX-License-Identifier: MIT

// The recorder: drives asynq through one scenario after the other on a Redis server of its own
// (which it empties!) and writes down what is then in the server: every key, every field, every
// byte. The tests of golden/ hold quern against these files on machines without Go.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

type scenario struct {
	Name     string          `json:"name"`
	Server   *serverConfig   `json:"server,omitempty"`
	Tasks    []taskSpec      `json:"tasks"`
	Replies  []reply         `json:"replies"`
	BeforeNs int64           `json:"before_ns"`
	AfterNs  int64           `json:"after_ns"`
	Commands []string        `json:"commands,omitempty"` // what the client sent
	Keys     map[string]kept `json:"keys"`
}

// A file of golden/.
type recording struct {
	Asynq     string     `json:"asynq"`
	Scripts   []string   `json:"scripts"` // SHA-1 of every script that was called
	Scenarios []scenario `json:"scenarios"`
}

type recorder struct {
	address   string
	redis     *redis.Client // looks at the keys
	asynq     *redis.Client // speaks for asynq; what it says is noted
	client    *asynq.Client
	inspector *asynq.Inspector
	folder    string // for journals

	mutex    sync.Mutex // guards what follows
	commands []string
	scripts  map[string]bool
}

// --- What asynq says to the server ---------------------------------------------------------

func (r *recorder) note(command redis.Cmder) {
	args := command.Args()
	words := []string{strings.ToUpper(fmt.Sprint(args[0]))}
	switch words[0] {
	case "EVAL": // the same once more, because the server did not know the script yet
		return
	case "HELLO", "CLIENT": // a new connection
		return
	}
	keys := args[1:min(2, len(args))]
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if words[0] == "EVALSHA" {
		r.scripts[fmt.Sprint(args[1])] = true
		keys = args[1 : 3+args[2].(int)]
	}
	for _, key := range keys {
		words = append(words, fmt.Sprint(key))
	}
	r.commands = append(r.commands, strings.Join(words, " "))
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		r.note(command)
		return next(ctx, command)
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next // only the handshake of a connection comes this way
}

// --- Doing ----------------------------------------------------------------------------------

var ctx = context.Background()

// Enqueues the tasks of the scenario; ids that are not given become golden-1, golden-2, ...
func (r *recorder) enqueue(s *scenario) {
	for index := range s.Tasks {
		task := &s.Tasks[index]
		if task.ID == nil {
			id := fmt.Sprintf("golden-%d", index+1)
			task.ID = &id
		}
		info, err := r.client.Enqueue(task.task(), task.options()...)
		if err != nil {
			s.Replies = append(s.Replies, reply{Error: err.Error()})
		} else {
			s.Replies = append(s.Replies, reply{OK: infoOf(info)})
		}
	}
}

func until(what string, condition func() bool) error {
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); {
		if condition() {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("waited in vain for: %s", what)
}

// The state of a task, or "gone".
func (r *recorder) state(task *taskSpec) string {
	queue := "default"
	if task.Queue != nil {
		queue = *task.Queue
	}
	info, err := r.inspector.GetTaskInfo(queue, *task.ID)
	if err != nil {
		return "gone"
	}
	return info.State.String()
}

func (r *recorder) untilState(task *taskSpec, state string) error {
	return until(*task.ID+" "+state, func() bool { return r.state(task) == state })
}

// Begins with an empty server, does it, and writes down what is there.
func (r *recorder) scenario(s scenario, do func(s *scenario) error) (scenario, error) {
	if err := r.redis.FlushAll(ctx).Err(); err != nil {
		return s, err
	}
	// A client remembers the queues that it has announced, so every scenario has a new one.
	r.client = asynq.NewClientFromRedisClient(r.asynq)
	r.mutex.Lock()
	r.commands = nil
	r.mutex.Unlock()
	s.BeforeNs = time.Now().UnixNano()
	err := do(&s)
	s.AfterNs = time.Now().UnixNano()
	if err == nil && s.Keys == nil {
		s.Keys, err = dump(r.redis)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", s.Name, err)
	}
	return s, nil
}

func (r *recorder) write(folder, name string, scenarios []scenario) error {
	file := recording{Asynq: asynqVersion(), Scenarios: scenarios}
	r.mutex.Lock()
	for sha1 := range r.scripts {
		file.Scripts = append(file.Scripts, sha1)
	}
	r.scripts = map[string]bool{}
	r.mutex.Unlock()
	slices.Sort(file.Scripts)
	text, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644)
}

func asynqVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/hibiken/asynq" {
			return module.Version + " " + module.Sum
		}
	}
	return "unknown"
}

func record(address, folder string) error {
	if folder == "" {
		return errors.New("record REDIS FOLDER")
	}
	journals, err := os.MkdirTemp("", "asynq-peer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(journals)
	r := &recorder{address: address, redis: redisClient(address), asynq: redisClient(address),
		folder: journals, scripts: map[string]bool{}}
	r.asynq.AddHook(r)
	r.inspector = asynq.NewInspector(asynqOptions(address))
	defer r.inspector.Close()
	if size, err := r.redis.DBSize(ctx).Result(); err != nil || size != 0 {
		return fmt.Errorf("the server at %s must be there and empty (%d keys, %v)", address, size, err)
	}
	for name, make := range map[string]func() ([]scenario, error){
		"enqueue": r.enqueues, "server": r.servers, "scheduler": r.schedulers,
		"inspector": r.inspectors,
	} {
		scenarios, err := make()
		if err != nil {
			return err
		}
		if err := r.write(folder, name, scenarios); err != nil {
			return err
		}
		r.mutex.Lock()
		clear(r.scripts)
		r.mutex.Unlock()
	}
	return nil
}
