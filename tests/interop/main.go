// SPDX-License-Identifier: MIT

// The program asynq_peer is the other side of the interop tests: real Go asynq, unchanged, which
// enqueues, serves and inspects as a user's program would, at the word of a test.
//
//	asynq_peer rpc REDIS            requests and replies as lines of JSON (rpc.go)
//	asynq_peer server REDIS CONFIG  a worker, configured by JSON (server.go)
//	asynq_peer scheduler REDIS      a scheduler and a PeriodicTaskManager (scheduler.go)
//	asynq_peer record REDIS FOLDER  writes the golden traffic of tests/interop/golden (record.go)
//
// REDIS is host:port, the path of a Unix socket, or sentinel:MASTER/host:port,host:port. With
// ASYNQ_PEER_CA, a PEM file, it is spoken to by TLS. Times are Unix nanoseconds, durations
// milliseconds, bytes base64, and null is Go's nil.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

func network(address string) string {
	if strings.HasPrefix(address, "/") {
		return "unix"
	}
	return "tcp"
}

// Nil: a plain connection.
func tlsConfig() *tls.Config {
	path := os.Getenv("ASYNQ_PEER_CA")
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		fmt.Fprintln(os.Stderr, "asynq_peer: no certificate in", path)
		os.Exit(1)
	}
	return &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
}

// The parts of sentinel:MASTER/HOST:PORT,HOST:PORT.
func sentinels(address string) (string, []string, bool) {
	place, isSentinel := strings.CutPrefix(address, "sentinel:")
	master, hosts, _ := strings.Cut(place, "/")
	return master, strings.Split(hosts, ","), isSentinel
}

// An address may be cluster:HOST:PORT,HOST:PORT, where only clients and servers of asynq go.
func asynqOptions(address string) asynq.RedisConnOpt {
	if nodes, isCluster := strings.CutPrefix(address, "cluster:"); isCluster {
		return asynq.RedisClusterClientOpt{Addrs: strings.Split(nodes, ","), TLSConfig: tlsConfig()}
	}
	if master, hosts, isSentinel := sentinels(address); isSentinel {
		return asynq.RedisFailoverClientOpt{
			MasterName: master, SentinelAddrs: hosts, TLSConfig: tlsConfig()}
	}
	return asynq.RedisClientOpt{Network: network(address), Addr: address, TLSConfig: tlsConfig()}
}

func redisClient(address string) *redis.Client {
	if master, hosts, isSentinel := sentinels(address); isSentinel {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: master, SentinelAddrs: hosts, TLSConfig: tlsConfig()})
	}
	return redis.NewClient(&redis.Options{
		Network: network(address), Addr: address, TLSConfig: tlsConfig()})
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: asynq_peer rpc|server|scheduler|record REDIS [ARGUMENT]")
		os.Exit(2)
	}
	var argument string
	if len(os.Args) > 3 {
		argument = os.Args[3]
	}
	var err error
	switch os.Args[1] {
	case "rpc":
		err = serveRequests(os.Args[2], os.Stdin, os.Stdout)
	case "server":
		err = runServer(os.Args[2], argument)
	case "scheduler":
		err = runSchedulers(os.Args[2])
	case "record":
		err = record(os.Args[2], argument)
	default:
		err = fmt.Errorf("no command %q", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "asynq_peer:", err)
		os.Exit(1)
	}
}
