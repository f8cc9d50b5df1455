// Command go-informer holds client-go informers to what writers were told. Several goroutines create, update, patch and
// delete the same few objects; informers that speak JSON and protobuf, with and without a label selector, started before
// and in the middle of the churn, must report every acknowledged write exactly once and in order, and at the end their
// caches must equal a fresh list. Connections of the informers are cut on the way, so that watches have to resume.
//
// Whether informers use WatchList is client-go's own switch: KUBE_FEATURE_WatchListClient=true|false.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/features"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	// catchUp is how long informers may lag after the last write: client-go waits up to 30 s before it watches again
	// after a cut connection.
	catchUp = 90 * time.Second
	// cuts is how often connections are cut in a run that is long enough.
	cuts = 6
	// shortestCutInterval leaves client-go the time to watch again.
	shortestCutInterval = 2500 * time.Millisecond
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the server to talk to")
	duration := flag.Duration("duration", 10*time.Second, "how long to write")
	workers := flag.Int("workers", 8, "concurrent writers")
	seed := flag.Uint64("seed", rand.Uint64(), "of the choices that writers make")
	flag.Parse()
	fmt.Printf("seed %d, WatchList %v\n", *seed, features.FeatureGates().Enabled(features.WatchListClient))
	if err := run(*kubeconfig, *duration, *workers, *seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string, duration time.Duration, workers int, seed uint64) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	dialer := &cuttingDialer{}
	json, proto := rest.CopyConfig(config), rest.CopyConfig(config)
	proto.ContentConfig = rest.ContentConfig{ContentType: protobuf, AcceptContentTypes: protobuf}
	writers, err := clients(json, proto)
	if err != nil {
		return err
	}
	json, proto = rest.CopyConfig(json), rest.CopyConfig(proto)
	json.Dial, proto.Dial = dialer.dial, dialer.dial
	readers, err := clients(json, proto)
	if err != nil {
		return err
	}

	namespace, err := writers[0].CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "informer-"}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	churn := &churn{kinds: kinds(namespace.Name), clients: writers}
	for range churn.kinds {
		churn.histories = append(churn.histories, newHistory())
	}

	stop := make(chan struct{})
	written := make(chan error, 1)
	go func() { written <- churn.run(ctx, workers, seed, stop) }()

	// Some informers begin with the writing and some after a third of the time.
	var observers []*observer
	ended := time.After(duration)
	for _, when := range []string{"early", "late"} {
		for i, form := range []string{"JSON", "protobuf"} {
			for _, selected := range []bool{false, true} {
				title := fmt.Sprintf("%s %s informer, selector %v:", when, form, selected)
				started, err := observe(ctx, title, readers[i], namespace.Name, churn, selected)
				if err != nil {
					return err
				}
				observers = append(observers, started...)
			}
		}
		if when == "early" {
			select {
			case err := <-written:
				return err
			case <-time.After(duration / 3):
			}
		}
	}
	// Only now: when a watch is cut in its first second and has seen nothing, client-go does not resume it but lists again.
	cut := time.NewTicker(max(duration/cuts, shortestCutInterval))
	defer cut.Stop()
	for churning := true; churning; {
		select {
		case err := <-written:
			return err
		case <-cut.C:
			fmt.Printf("cut %d connections\n", dialer.cut())
		case <-ended:
			churning = false
		}
	}
	close(stop)
	if err := <-written; err != nil && ctx.Err() == nil {
		return err
	}
	return settle(ctx, churn, observers)
}

// settle waits until every informer has caught up, and fails with what still differs when they do not.
func settle(ctx context.Context, churn *churn, observers []*observer) error {
	deadline := time.Now().Add(catchUp)
	for {
		var problems []string
		events := 0
		for _, o := range observers {
			problems = append(problems, o.verify(ctx)...)
			events += o.count
		}
		if len(problems) == 0 {
			fmt.Printf("%d writes, %d events seen by %d informers, no difference\n", churn.writes.Load(), events, len(observers))
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d problems after %d writes:\n%s", len(problems), churn.writes.Load(), strings.Join(problems[:min(len(problems), 20)], "\n"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func clients(configs ...*rest.Config) ([]kubernetes.Interface, error) {
	var all []kubernetes.Interface
	for _, config := range configs {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		all = append(all, client)
	}
	return all, nil
}

// cuttingDialer remembers connections, so that they can be cut under the feet of their users.
type cuttingDialer struct {
	mu          sync.Mutex
	connections []net.Conn
}

func (d *cuttingDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		d.mu.Lock()
		d.connections = append(d.connections, connection)
		d.mu.Unlock()
	}
	return connection, err
}

func (d *cuttingDialer) cut() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, connection := range d.connections {
		// Already closed ones report an error that does not matter.
		_ = connection.Close()
	}
	count := len(d.connections)
	d.connections = nil
	return count
}
