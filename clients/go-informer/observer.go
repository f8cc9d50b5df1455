package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// observer is one informer on one kind, and everything it was told.
type observer struct {
	title    string
	kind     *kind
	history  *history
	selected bool
	client   kubernetes.Interface
	informer cache.SharedIndexInformer

	mu       sync.Mutex
	events   map[string][]event
	count    int
	problems []string
	syncRV   uint64
}

// observe starts one informer per kind and waits until they are in sync. No resync period: every event is the server's.
func observe(ctx context.Context, title string, client kubernetes.Interface, namespace string, churn *churn, selected bool) ([]*observer, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			if selected {
				options.LabelSelector = selector
			}
		}))
	var observers []*observer
	for i := range churn.kinds {
		kind := &churn.kinds[i]
		o := &observer{
			title: title + " " + kind.name, kind: kind, history: churn.histories[i], selected: selected,
			client: client, informer: kind.informer(factory), events: map[string][]event{},
		}
		if _, err := o.informer.AddEventHandler(o); err != nil {
			return nil, err
		}
		observers = append(observers, o)
	}
	factory.Start(ctx.Done())
	for _, o := range observers {
		if !cache.WaitForCacheSync(ctx.Done(), o.informer.HasSynced) {
			return nil, fmt.Errorf("%s: not in sync: %w", o.title, context.Cause(ctx))
		}
		rv, err := strconv.ParseUint(o.informer.LastSyncResourceVersion(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: the list's resourceVersion: %w", o.title, err)
		}
		o.mu.Lock()
		o.syncRV = rv
		o.mu.Unlock()
	}
	return observers, nil
}

func (o *observer) OnAdd(object any, initial bool) { o.record(added, object, initial) }

func (o *observer) OnUpdate(before, after any) {
	old, new := before.(metav1.Object), after.(metav1.Object)
	if old.GetUID() != new.GetUID() {
		o.problem("%s: updated from uid %s to %s", new.GetName(), old.GetUID(), new.GetUID())
	}
	o.record(updated, after, false)
}

func (o *observer) OnDelete(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		o.problem("%s: deleted without an event: the informer had to list again", unknown.Key)
		return
	}
	o.record(deleted, object, false)
}

func (o *observer) record(kind eventType, object any, initial bool) {
	meta := object.(metav1.Object)
	rv, err := strconv.ParseUint(meta.GetResourceVersion(), 10, 64)
	if err != nil {
		o.problem("%s: resourceVersion: %v", meta.GetName(), err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events[meta.GetName()] = append(o.events[meta.GetName()], event{kind, rv, initial})
	o.count++
}

func (o *observer) problem(format string, arguments ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.problems = append(o.problems, fmt.Sprintf(format, arguments...))
}

// verify compares everything reported with everything acknowledged, and the cache with a fresh list.
func (o *observer) verify(ctx context.Context) []string {
	options := metav1.ListOptions{}
	if o.selected {
		options.LabelSelector = selector
	}
	fresh, err := o.kind.list(ctx, o.client, options)
	if err != nil {
		return []string{fmt.Sprintf("%s: list: %v", o.title, err)}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	problems := append([]string{}, o.problems...)
	for i := range namesPerKind {
		name := fmt.Sprintf("object-%d", i)
		if err := o.history.check(name, o.selected, o.events[name], o.syncRV); err != nil {
			problems = append(problems, err.Error())
		}
	}
	cached := map[string]string{}
	for _, object := range o.informer.GetStore().List() {
		cached[object.(metav1.Object).GetName()] = text(object)
	}
	for _, object := range fresh {
		name := object.GetName()
		if stored, ok := cached[name]; !ok {
			problems = append(problems, fmt.Sprintf("the cache lacks %s", text(object)))
		} else if stored != text(object) {
			problems = append(problems, fmt.Sprintf("the cache has %s instead of %s", stored, text(object)))
		}
		delete(cached, name)
	}
	for name := range cached {
		problems = append(problems, fmt.Sprintf("the cache has %s, which is not listed", name))
	}
	for i := range problems {
		problems[i] = o.title + ": " + problems[i]
	}
	return problems
}

func text(object any) string {
	bytes, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(bytes)
}
