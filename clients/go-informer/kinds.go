package main

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// kind is what the churn does to one resource type.
type kind struct {
	name string
	// unconditional says whether the server takes updates that name no resourceVersion.
	unconditional bool
	create        func(context.Context, kubernetes.Interface, metav1.ObjectMeta, int) (metav1.Object, error)
	get           func(context.Context, kubernetes.Interface, string) (metav1.Object, error)
	update        func(context.Context, kubernetes.Interface, metav1.ObjectMeta, int) (metav1.Object, error)
	patch         func(context.Context, kubernetes.Interface, string, types.PatchType, string) (metav1.Object, error)
	remove        func(context.Context, kubernetes.Interface, string, metav1.DeleteOptions) error
	list          func(context.Context, kubernetes.Interface, metav1.ListOptions) ([]metav1.Object, error)
	informer      func(informers.SharedInformerFactory) cache.SharedIndexInformer
	// data is the JSON member that patches change.
	data func(int) string
}

// typedClient is the part of a generated client that the churn uses.
type typedClient[T metav1.Object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	List(context.Context, metav1.ListOptions) (L, error)
}

// withClient fills in the verbs through a typed client.
func withClient[T metav1.Object, L runtime.Object](
	kind kind,
	client func(kubernetes.Interface) typedClient[T, L],
	object func(metav1.ObjectMeta, int) T,
) kind {
	kind.create = func(ctx context.Context, c kubernetes.Interface, meta metav1.ObjectMeta, n int) (metav1.Object, error) {
		return client(c).Create(ctx, object(meta, n), metav1.CreateOptions{})
	}
	kind.get = func(ctx context.Context, c kubernetes.Interface, name string) (metav1.Object, error) {
		return client(c).Get(ctx, name, metav1.GetOptions{})
	}
	kind.update = func(ctx context.Context, c kubernetes.Interface, meta metav1.ObjectMeta, n int) (metav1.Object, error) {
		return client(c).Update(ctx, object(meta, n), metav1.UpdateOptions{})
	}
	kind.patch = func(ctx context.Context, c kubernetes.Interface, name string, form types.PatchType, body string) (metav1.Object, error) {
		return client(c).Patch(ctx, name, form, []byte(body), metav1.PatchOptions{})
	}
	kind.remove = func(ctx context.Context, c kubernetes.Interface, name string, options metav1.DeleteOptions) error {
		return client(c).Delete(ctx, name, options)
	}
	kind.list = func(ctx context.Context, c kubernetes.Interface, options metav1.ListOptions) ([]metav1.Object, error) {
		list, err := client(c).List(ctx, options)
		if err != nil {
			return nil, err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, err
		}
		objects := make([]metav1.Object, 0, len(items))
		for _, item := range items {
			object, err := meta.Accessor(item)
			if err != nil {
				return nil, err
			}
			objects = append(objects, object)
		}
		return objects, nil
	}
	return kind
}

func kinds(namespace string) []kind {
	return []kind{
		withClient(
			kind{
				name:          "configmaps",
				unconditional: true,
				informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
					return f.Core().V1().ConfigMaps().Informer()
				},
				data: func(n int) string { return fmt.Sprintf(`"data":{"n":"%d"}`, n) },
			},
			func(c kubernetes.Interface) typedClient[*corev1.ConfigMap, *corev1.ConfigMapList] {
				return c.CoreV1().ConfigMaps(namespace)
			},
			func(meta metav1.ObjectMeta, n int) *corev1.ConfigMap {
				data, binary := map[string]string{"n": fmt.Sprint(n)}, map[string][]byte{"b": {0, 255, byte(n)}}
				return &corev1.ConfigMap{ObjectMeta: meta, Data: data, BinaryData: binary}
			},
		),
		withClient(
			kind{
				name:          "secrets",
				unconditional: true,
				informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
					return f.Core().V1().Secrets().Informer()
				},
				data: func(n int) string { return fmt.Sprintf(`"stringData":{"n":"%d"}`, n) },
			},
			func(c kubernetes.Interface) typedClient[*corev1.Secret, *corev1.SecretList] {
				return c.CoreV1().Secrets(namespace)
			},
			func(meta metav1.ObjectMeta, n int) *corev1.Secret {
				return &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"n": fmt.Sprint(n)}}
			},
		),
		withClient(
			kind{
				name: "leases",
				informer: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
					return f.Coordination().V1().Leases().Informer()
				},
				data: func(n int) string { return fmt.Sprintf(`"spec":{"leaseTransitions":%d}`, n) },
			},
			func(c kubernetes.Interface) typedClient[*coordinationv1.Lease, *coordinationv1.LeaseList] {
				return c.CoordinationV1().Leases(namespace)
			},
			func(meta metav1.ObjectMeta, n int) *coordinationv1.Lease {
				holder, transitions, now := fmt.Sprint("holder-", n), int32(n), metav1.NowMicro()
				spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions, RenewTime: &now}
				return &coordinationv1.Lease{ObjectMeta: meta, Spec: spec}
			},
		),
	}
}
