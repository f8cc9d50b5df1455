// Command go-controller holds a server to what controller-runtime expects: it defines a custom resource, runs a
// controller for it with finalizers, owner references, status updates and server-side apply, lets many objects live and
// die, and exits with an error unless everything ended as it should.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	gardens := flag.Int("gardens", 20, "how many objects live and die")
	timeout := flag.Duration("timeout", 2*time.Minute, "far more than it takes; only a bug runs into it")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	if err := run(*gardens, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(gardens int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	// The library has a --kubeconfig flag of its own.
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := define(ctx, direct); err != nil {
		return fmt.Errorf("defining gardens: %w", err)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		LeaderElection: true, LeaderElectionID: "gardener", LeaderElectionNamespace: "default",
	})
	if err != nil {
		return err
	}
	if err := (&gardener{Client: manager.GetClient()}).setUp(manager); err != nil {
		return err
	}
	stopped := make(chan error, 1)
	managing, stop := context.WithCancel(ctx)
	defer stop()
	go func() { stopped <- manager.Start(managing) }()
	if err := seasons(ctx, direct, gardens); err != nil {
		return err
	}
	stop()
	if err := <-stopped; err != nil {
		return fmt.Errorf("the manager: %w", err)
	}
	fmt.Printf("%d gardens planted, changed and cleared\n", gardens)
	return nil
}
