package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	finalizer = "clients.bailiwick.dev/clear"
	// ledger is a ConfigMap in which every cleared garden leaves its name.
	ledger = "cleared-gardens"
	owner  = "clients.bailiwick.dev/garden"
)

// gardener keeps as many ConfigMaps for each garden as it wants plants.
type gardener struct {
	client.Client
}

func (g *gardener) setUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&Garden{}).Owns(&corev1.ConfigMap{}).Complete(g)
}

// Reconcile makes one garden as it should be.
func (g *gardener) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var garden Garden
	if err := g.Get(ctx, request.NamespacedName, &garden); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !garden.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, g.clear(ctx, &garden)
	}
	if controllerutil.AddFinalizer(&garden, finalizer) {
		if err := g.Update(ctx, &garden); err != nil {
			return retry(err)
		}
	}
	for i := range garden.Spec.Plants {
		plant := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", garden.Name, i), Namespace: garden.Namespace}}
		_, err := controllerutil.CreateOrUpdate(ctx, g.Client, plant, func() error {
			plant.Labels = map[string]string{owner: garden.Name}
			plant.Data = map[string]string{"soil": garden.Spec.Soil}
			return controllerutil.SetControllerReference(&garden, plant, g.Scheme())
		})
		if err != nil {
			return retry(err)
		}
	}
	var plants corev1.ConfigMapList
	if err := g.List(ctx, &plants, client.InNamespace(garden.Namespace), client.MatchingLabels{owner: garden.Name}); err != nil {
		return ctrl.Result{}, err
	}
	planted := 0
	for i := range plants.Items {
		plant := &plants.Items[i]
		var number int
		if _, err := fmt.Sscanf(plant.Name, garden.Name+"-%d", &number); err != nil || number >= garden.Spec.Plants {
			if err := g.Delete(ctx, plant); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
			continue
		}
		planted++
	}
	garden.Status.Planted = planted
	garden.Status.ObservedGeneration = garden.Generation
	status := metav1.ConditionFalse
	if planted == garden.Spec.Plants {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&garden.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: status, Reason: "Counted", ObservedGeneration: garden.Generation,
	})
	return retry(g.Status().Update(ctx, &garden))
}

// clear notes that the garden is gone and lets it go.
func (g *gardener) clear(ctx context.Context, garden *Garden) error {
	if !controllerutil.ContainsFinalizer(garden, finalizer) {
		return nil
	}
	note := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{%q:"cleared"}}`, garden.Name))
	book := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ledger, Namespace: garden.Namespace}}
	if err := g.Patch(ctx, book, note); err != nil {
		return err
	}
	before := garden.DeepCopyObject().(*Garden)
	controllerutil.RemoveFinalizer(garden, finalizer)
	return client.IgnoreNotFound(g.Patch(ctx, garden, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// retry treats a lost race as a reason to look again.
func retry(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{Requeue: true}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
