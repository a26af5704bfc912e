// A candidate of etcd's own election (client/v3/concurrency), for the benchmark of elections.
//
// usage: etcd ENDPOINT ELECTION LEASE_SECONDS ID
//
// It prints "leading" when it leads, and resigns at SIGTERM.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: etcd ENDPOINT ELECTION LEASE_SECONDS ID")
	}
	endpoint, election, id := os.Args[1], os.Args[2], os.Args[4]
	lease, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	if err := campaign(endpoint, election, lease, id); err != nil {
		log.Fatal(err)
	}
}

func campaign(endpoint, election string, lease int, id string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(lease))
	if err != nil {
		return err
	}
	defer session.Close()
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	candidate := concurrency.NewElection(session, election)
	if err := candidate.Campaign(terminated, id); err != nil {
		return err
	}
	fmt.Println("leading")
	select {
	case <-session.Done():
		return fmt.Errorf("%s has lost its lease", id)
	case <-terminated.Done():
		return candidate.Resign(context.Background())
	}
}
