package main

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

var lampKind = schema.GroupVersionKind{Group: "rooms.example.com", Version: "v1", Kind: "Lamp"}

func definitions() []*apiextensions.CustomResourceDefinition {
	text := apiextensions.JSONSchemaProps{Type: "string"}
	object := func(properties map[string]apiextensions.JSONSchemaProps) apiextensions.JSONSchemaProps {
		return apiextensions.JSONSchemaProps{Type: "object", Properties: properties}
	}
	whole := object(map[string]apiextensions.JSONSchemaProps{
		"spec":   object(map[string]apiextensions.JSONSchemaProps{"room": text}),
		"status": object(map[string]apiextensions.JSONSchemaProps{"light": text}),
	})
	return []*apiextensions.CustomResourceDefinition{{
		ObjectMeta: metav1.ObjectMeta{Name: "lamps.rooms.example.com"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: lampKind.Group,
			Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "lamps", Singular: "lamp", Kind: lampKind.Kind},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: lampKind.Version, Served: true, Storage: true,
				Schema:       &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &whole},
				Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
			}},
		},
	}}
}

func newLamp() *unstructured.Unstructured {
	lamp := &unstructured.Unstructured{}
	lamp.SetGroupVersionKind(lampKind)
	return lamp
}

// lighter gives every lamp a ConfigMap that it owns, and a light.
type lighter struct {
	client.Client
}

func (l *lighter) setUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named("lighter").For(newLamp()).Owns(&corev1.ConfigMap{}).Complete(l)
}

func (l *lighter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	lamp := newLamp()
	if err := l.Get(ctx, request.NamespacedName, lamp); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	bulb := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lamp.GetName() + "-bulb", Namespace: lamp.GetNamespace()}}
	_, err := controllerutil.CreateOrUpdate(ctx, l.Client, bulb, func() error {
		bulb.Data = map[string]string{"watts": "5"}
		return controllerutil.SetControllerReference(lamp, bulb, l.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if light, _, _ := unstructured.NestedString(lamp.Object, "status", "light"); light == "on" {
		return ctrl.Result{}, nil
	}
	if err := unstructured.SetNestedField(lamp.Object, "on", "status", "light"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, l.Status().Update(ctx, lamp)
}

// lightAll makes lamps and waits until all are on and have their bulbs.
func lightAll(ctx context.Context, direct client.Client, count int) error {
	for i := range count {
		lamp := newLamp()
		lamp.SetName(fmt.Sprintf("lamp-%d", i))
		lamp.SetNamespace("default")
		lamp.Object["spec"] = map[string]any{"room": "hall"}
		if err := direct.Create(ctx, lamp); err != nil {
			return err
		}
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		lamps := &unstructured.UnstructuredList{}
		lamps.SetGroupVersionKind(lampKind)
		if err := direct.List(ctx, lamps, client.InNamespace("default")); err != nil {
			return false, err
		}
		lit := 0
		for _, lamp := range lamps.Items {
			bulb := &corev1.ConfigMap{}
			key := client.ObjectKey{Namespace: "default", Name: lamp.GetName() + "-bulb"}
			light, _, _ := unstructured.NestedString(lamp.Object, "status", "light")
			if light == "on" && direct.Get(ctx, key, bulb) == nil {
				lit++
			}
		}
		return lit == count, nil
	})
}

func readAll(reader io.Reader) (string, error) {
	text, err := io.ReadAll(reader)
	return string(text), err
}
