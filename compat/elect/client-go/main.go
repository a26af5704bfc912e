// A candidate of client-go's leader election, for the benchmark of elections.
//
// usage: client-go SERVER CA_FILE TOKEN_FILE ELECTION LEASE_SECONDS ID
//
// It prints "leading" when it leads, and releases the Lease at SIGTERM. The deadline of renewals and the time between
// two attempts have the proportions of the defaults of Kubernetes' own components: 15 s, 10 s and 2 s.
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	if len(os.Args) != 7 {
		log.Fatal("usage: client-go SERVER CA_FILE TOKEN_FILE ELECTION LEASE_SECONDS ID")
	}
	server, ca, token, election, id := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[6]
	seconds, err := strconv.Atoi(os.Args[5])
	if err != nil {
		log.Fatal(err)
	}
	lease := time.Duration(seconds) * time.Second
	config := &rest.Config{Host: server, BearerTokenFile: token, TLSClientConfig: rest.TLSClientConfig{CAFile: ca}}
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	leaderelection.RunOrDie(terminated, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: election},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		LeaseDuration:   lease,
		RenewDeadline:   lease * 10 / 15,
		RetryPeriod:     lease * 2 / 15,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leading") },
			OnStoppedLeading: func() {},
		},
	})
}
