package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// The label whose value decides whether the observers with a selector see an object.
const (
	selectorLabel = "selected"
	selectorValue = "yes"
	selector      = selectorLabel + "=" + selectorValue
)

// namesPerKind is small, so that writers meet on the same object and names are created again and again.
const namesPerKind = 12

// churn writes until its context ends, and remembers what the server acknowledged.
type churn struct {
	kinds     []kind
	histories []*history
	clients   []kubernetes.Interface
	writes    atomic.Int64
}

// run writes with several goroutines on the same objects until stop is closed. The first error that a correct server
// cannot give ends it.
func (c *churn) run(ctx context.Context, workers int, seed uint64, stop <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for worker := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for n := 0; ctx.Err() == nil; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := c.step(ctx, random, worker*1_000_000+n); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			}
		}()
	}
	group.Wait()
	return context.Cause(ctx)
}

func (c *churn) step(ctx context.Context, random *rand.Rand, n int) error {
	index := random.IntN(len(c.kinds))
	kind, history := &c.kinds[index], c.histories[index]
	client := c.clients[random.IntN(len(c.clients))]
	name := fmt.Sprintf("object-%d", random.IntN(namesPerKind))
	label := "no"
	if random.IntN(3) > 0 {
		label = selectorValue
	}
	wanted := metav1.ObjectMeta{Name: name, Labels: map[string]string{selectorLabel: label}}

	var object metav1.Object
	var verb string
	var err error
	switch choice := random.IntN(100); {
	case choice < 20:
		verb = "create"
		object, err = kind.create(ctx, client, wanted, n)
	case choice < 45:
		verb = "update"
		if !kind.unconditional || random.IntN(2) == 0 {
			if object, err = kind.get(ctx, client, name); err != nil {
				break
			}
			wanted.ResourceVersion = object.GetResourceVersion()
		}
		object, err = kind.update(ctx, client, wanted, n)
	case choice < 60:
		verb = "merge patch"
		body := fmt.Sprintf(`{"metadata":{"labels":{"%s":"%s"}},%s}`, selectorLabel, label, kind.data(n))
		object, err = kind.patch(ctx, client, name, types.MergePatchType, body)
	case choice < 75:
		verb = "strategic merge patch"
		object, err = kind.patch(ctx, client, name, types.StrategicMergePatchType, "{"+kind.data(n)+"}")
	case choice < 85:
		verb = "JSON patch"
		body := fmt.Sprintf(`[{"op":"replace","path":"/metadata/labels/%s","value":"%s"}]`, selectorLabel, label)
		object, err = kind.patch(ctx, client, name, types.JSONPatchType, body)
	default:
		verb = "delete"
		uid := types.UID(history.latest(name))
		if uid == "" {
			return nil
		}
		err = kind.remove(ctx, client, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err == nil {
			history.delete(name, string(uid))
			c.writes.Add(1)
			return nil
		}
	}
	switch {
	case err == nil:
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return nil
	default:
		return fmt.Errorf("%s of %s %s: %w", verb, kind.name, name, err)
	}
	rv, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("%s of %s %s: resourceVersion: %w", verb, kind.name, name, err)
	}
	history.put(name, string(object.GetUID()), rv, object.GetLabels()[selectorLabel] == selectorValue)
	c.writes.Add(1)
	return nil
}
