// Command go-envtest uses a server the way tests of controllers do: controller-runtime's envtest starts the kube-apiserver
// and etcd of a directory, installs a CustomResourceDefinition, a manager reconciles objects, and everything is stopped. It
// says how long each part took and exits with an error unless everything ended as it should.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	assets := flag.String("assets", "", "directory with kube-apiserver, etcd and kubectl")
	lamps := flag.Int("lamps", 10, "how many objects are reconciled")
	verbose := flag.Bool("verbose", false, "show what the servers print")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	if err := run(*assets, *lamps, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(assets string, lamps int, verbose bool) (err error) {
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		AttachControlPlaneOutput: verbose,
		CRDInstallOptions:        envtest.CRDInstallOptions{CRDs: definitions()},
	}
	begun := time.Now()
	config, err := environment.Start()
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	fmt.Printf("started in %d ms\n", time.Since(begun).Milliseconds())
	defer func() {
		begun := time.Now()
		if stopped := environment.Stop(); stopped != nil && err == nil {
			err = fmt.Errorf("stopping: %w", stopped)
		}
		fmt.Printf("stopped in %d ms\n", time.Since(begun).Milliseconds())
	}()
	if err := anotherUser(environment); err != nil {
		return err
	}
	return manage(config, lamps)
}

// anotherUser sees that users made by envtest get in with their certificates.
func anotherUser(environment *envtest.Environment) error {
	user, err := environment.AddUser(envtest.User{Name: "tester", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		return err
	}
	printed, complained, err := kubectl.Run("auth", "whoami", "--output=jsonpath={.status.userInfo.username}")
	if err != nil {
		text, _ := readAll(complained)
		return fmt.Errorf("kubectl: %w: %s", err, text)
	}
	if name, _ := readAll(printed); name != "tester" {
		return fmt.Errorf("kubectl is %q", name)
	}
	return nil
}

func manage(config *rest.Config, lamps int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		LeaderElection: true, LeaderElectionID: "lighter", LeaderElectionNamespace: "default",
	})
	if err != nil {
		return err
	}
	if err := (&lighter{Client: manager.GetClient()}).setUp(manager); err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	managing, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Start(managing) }()
	if err := lightAll(ctx, direct, lamps); err != nil {
		return err
	}
	stop()
	if err := <-stopped; err != nil {
		return fmt.Errorf("the manager: %w", err)
	}
	fmt.Printf("%d lamps lit\n", lamps)
	return nil
}
