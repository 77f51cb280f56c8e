// SPDX-License-Identifier: MIT

// All that a Redis server holds, as JSON.

package main

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// One key. Values are texts; bytes that are no plain ASCII are written as "hex:" and their digits.
type kept struct {
	Type   string            `json:"type"`
	TTL    int64             `json:"ttl_ms,omitempty"` // 0: for ever
	Text   *string           `json:"text,omitempty"`
	Fields map[string]string `json:"fields,omitempty"`
	Items  []string          `json:"items,omitempty"`  // from the left
	Scores map[string]string `json:"scores,omitempty"` // member to score
}

func spell(value string) string {
	for _, char := range []byte(value) {
		if char < ' ' || char > '~' {
			return "hex:" + hex.EncodeToString([]byte(value))
		}
	}
	if strings.HasPrefix(value, "hex:") {
		return "hex:" + hex.EncodeToString([]byte(value))
	}
	return value
}

func dump(client *redis.Client) (map[string]kept, error) {
	all := map[string]kept{}
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		one, err := dumpKey(client, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		all[spell(key)] = one
	}
	return all, nil
}

func dumpKey(client *redis.Client, key string) (kept, error) {
	var one kept
	kind, err := client.Type(ctx, key).Result()
	if err != nil {
		return one, err
	}
	one.Type = kind
	ttl, err := client.PTTL(ctx, key).Result()
	if err != nil {
		return one, err
	}
	one.TTL = max(0, ttl.Milliseconds())
	switch kind {
	case "string":
		text, err := client.Get(ctx, key).Result()
		text = spell(text)
		one.Text = &text
		return one, err
	case "hash":
		fields, err := client.HGetAll(ctx, key).Result()
		one.Fields = map[string]string{}
		for name, value := range fields {
			one.Fields[spell(name)] = spell(value)
		}
		return one, err
	case "list":
		items, err := client.LRange(ctx, key, 0, -1).Result()
		for _, item := range items {
			one.Items = append(one.Items, spell(item))
		}
		return one, err
	case "set":
		items, err := client.SMembers(ctx, key).Result()
		for _, item := range items {
			one.Items = append(one.Items, spell(item))
		}
		return one, err
	case "zset":
		members, err := client.ZRangeWithScores(ctx, key, 0, -1).Result()
		one.Scores = map[string]string{}
		for _, member := range members {
			one.Scores[spell(member.Member.(string))] = fmt.Sprintf("%.0f", member.Score)
		}
		return one, err
	}
	return one, fmt.Errorf("a %s", kind)
}
