// SPDX-License-Identifier: MIT

// Handlers that hold a token of asynq's x/rate semaphore while they run.

package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redis/redis/v8"
	"github.com/hibiken/asynq"
	"github.com/hibiken/asynq/x/rate"
)

var errNoToken = errors.New("no token of the semaphore is free")

type semaphoreConfig struct {
	Name string `json:"name"`
	Max  int    `json:"max"`
}

// x/rate was released with the client before the one of asynq itself.
type olderClient struct {
	path string
}

func (o olderClient) MakeRedisClient() interface{} {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: o.path})
}

// A task that gets no token is tried again, without a failure, as the documentation of x/rate has it.
func withToken(semaphore *rate.Semaphore, next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		taken, err := semaphore.Acquire(ctx)
		if err != nil {
			return err
		}
		if !taken {
			return errNoToken
		}
		err = next.ProcessTask(ctx, task)
		if released := semaphore.Release(context.WithoutCancel(ctx)); released != nil {
			return released
		}
		return err
	})
}

func (c *semaphoreConfig) limit(path string, config *asynq.Config, handler asynq.Handler) asynq.Handler {
	config.IsFailure = func(err error) bool { return !errors.Is(err, errNoToken) }
	config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	return withToken(rate.NewSemaphore(olderClient{path}, c.Name, c.Max), handler)
}
