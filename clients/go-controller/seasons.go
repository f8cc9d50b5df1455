package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const namespace = "default"

// seasons lets gardens come, change and go, and checks after each step that the controller followed.
func seasons(ctx context.Context, c client.Client, count int) error {
	book := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ledger, Namespace: namespace}}
	if err := c.Create(ctx, book); err != nil {
		return err
	}
	for i := range count {
		garden := &Garden{ObjectMeta: metav1.ObjectMeta{Name: name(i), Namespace: namespace}, Spec: GardenSpec{Plants: i%4 + 1}}
		if err := c.Create(ctx, garden); err != nil {
			return err
		}
		if garden.Spec.Soil != "loam" || garden.Generation != 1 {
			return fmt.Errorf("%s was not defaulted: %+v", garden.Name, garden)
		}
	}
	if err := settled(ctx, c, count, func(i int) int { return i%4 + 1 }); err != nil {
		return err
	}
	// By server-side apply, as another manager: the controller's finalizer must survive.
	for i := range count {
		change := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"plants": int64(i%3 + 2)}}}
		change.SetGroupVersionKind(groupVersion.WithKind("Garden"))
		change.SetName(name(i))
		change.SetNamespace(namespace)
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(change), client.FieldOwner("seasons"), client.ForceOwnership); err != nil {
			return err
		}
	}
	if err := settled(ctx, c, count, func(i int) int { return i%3 + 2 }); err != nil {
		return err
	}
	invalid := &Garden{ObjectMeta: metav1.ObjectMeta{Name: "invalid", Namespace: namespace}, Spec: GardenSpec{Plants: -1}}
	if err := c.Create(ctx, invalid); !apierrors.IsInvalid(err) {
		return fmt.Errorf("a garden of -1 plants was not refused as invalid: %v", err)
	}
	if err := c.DeleteAllOf(ctx, &Garden{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	return eventually(ctx, "all gardens and plants to be gone", func() (string, error) {
		var gardens GardenList
		var plants corev1.ConfigMapList
		err := errors.Join(
			c.List(ctx, &gardens, client.InNamespace(namespace)),
			c.List(ctx, &plants, client.InNamespace(namespace), client.HasLabels{owner}),
			c.Get(ctx, client.ObjectKeyFromObject(book), book),
		)
		if len(gardens.Items)+len(plants.Items) > 0 {
			return fmt.Sprintf("%d gardens and %d plants are left", len(gardens.Items), len(plants.Items)), err
		}
		if len(book.Data) != count {
			return fmt.Sprintf("%d gardens were cleared", len(book.Data)), err
		}
		return "", err
	})
}

func name(i int) string { return fmt.Sprintf("garden-%02d", i) }

// settled waits until each garden has its plants, and says so in its status.
func settled(ctx context.Context, c client.Client, count int, wanted func(int) int) error {
	return eventually(ctx, "all gardens to be planted", func() (string, error) {
		for i := range count {
			var garden Garden
			if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name(i)}, &garden); err != nil {
				return "", err
			}
			var plants corev1.ConfigMapList
			if err := c.List(ctx, &plants, client.InNamespace(namespace), client.MatchingLabels{owner: name(i)}); err != nil {
				return "", err
			}
			ready := meta.IsStatusConditionTrue(garden.Status.Conditions, "Ready")
			if !ready || garden.Status.Planted != wanted(i) || len(plants.Items) != wanted(i) || garden.Status.ObservedGeneration != garden.Generation {
				return fmt.Sprintf("%s wants %d plants, has %d, and says %+v at generation %d",
					name(i), wanted(i), len(plants.Items), garden.Status, garden.Generation), nil
			}
			if len(garden.Finalizers) != 1 {
				return "", fmt.Errorf("%s has the finalizers %v", name(i), garden.Finalizers)
			}
		}
		return "", nil
	})
}

// eventually asks until there is nothing left to wait for.
func eventually(ctx context.Context, what string, ask func() (string, error)) error {
	missing := "nothing yet"
	for {
		answer, err := ask()
		if err == nil && answer == "" {
			return nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		missing = answer
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %s", what, missing)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
