// SPDX-License-Identifier: MIT

// Go's schedulers: one with a registered entry, and a PeriodicTaskManager; both every second.

package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
)

type periodic struct{}

func (periodic) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	return []*asynq.PeriodicTaskConfig{
		{Cronspec: "@every 1s", Task: asynq.NewTask("ok", []byte("managed"))},
	}, nil
}

func runSchedulers(address string) error {
	// Whole seconds: asynq writes the time to live as a float otherwise, which Redis refuses.
	options := &asynq.SchedulerOpts{HeartbeatInterval: time.Second, LogLevel: asynq.WarnLevel}
	scheduler := asynq.NewScheduler(asynqOptions(address), options)
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("ok", []byte("registered"))); err != nil {
		return err
	}
	manager, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		RedisConnOpt: asynqOptions(address), SchedulerOpts: options,
		PeriodicTaskConfigProvider: periodic{},
	})
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	if err := scheduler.Start(); err != nil {
		return err
	}
	if err := manager.Start(); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ended
	manager.Shutdown()
	scheduler.Shutdown()
	return nil
}
