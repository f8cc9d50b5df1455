package main

import (
	"reflect"
	"sort"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	rbac "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type root struct {
	goType reflect.Type
	gvks   []schema.GroupVersionKind
}

// kinds we serve, by group and version; an empty list means every kind of the group version.
var served = []struct {
	gv    schema.GroupVersion
	add   func(*runtime.Scheme) error
	kinds []string
}{
	{core.SchemeGroupVersion, core.AddToScheme, []string{"Namespace", "NamespaceList", "ConfigMap", "ConfigMapList", "Secret", "SecretList",
		"ServiceAccount", "ServiceAccountList", "Event", "EventList", "ResourceQuota", "ResourceQuotaList"}},
	{admissionregistration.SchemeGroupVersion, admissionregistration.AddToScheme, nil},
	{apidiscovery.SchemeGroupVersion, apidiscovery.AddToScheme, nil},
	{apiextensions.SchemeGroupVersion, apiextensions.AddToScheme, []string{"CustomResourceDefinition", "CustomResourceDefinitionList"}},
	{apiregistration.SchemeGroupVersion, apiregistration.AddToScheme, nil},
	{authentication.SchemeGroupVersion, authentication.AddToScheme, nil},
	{authorization.SchemeGroupVersion, authorization.AddToScheme, nil},
	{autoscaling.SchemeGroupVersion, autoscaling.AddToScheme, []string{"Scale"}},
	{certificates.SchemeGroupVersion, certificates.AddToScheme, []string{"CertificateSigningRequest", "CertificateSigningRequestList"}},
	{coordination.SchemeGroupVersion, coordination.AddToScheme, nil},
	{events.SchemeGroupVersion, events.AddToScheme, nil},
	{flowcontrol.SchemeGroupVersion, flowcontrol.AddToScheme, nil},
	{rbac.SchemeGroupVersion, rbac.AddToScheme, nil},
}

// kinds every group version registers; they belong to meta/v1 and are listed by hand below.
var shared = map[string]bool{"WatchEvent": true, "ListOptions": true, "GetOptions": true, "DeleteOptions": true,
	"CreateOptions": true, "UpdateOptions": true, "PatchOptions": true}

func roots() []root {
	var all []root
	for _, s := range served {
		scheme := runtime.NewScheme()
		if err := s.add(scheme); err != nil {
			panic(err)
		}
		known := scheme.KnownTypes(s.gv)
		kinds := s.kinds
		if kinds == nil {
			for kind := range known {
				if !shared[kind] {
					kinds = append(kinds, kind)
				}
			}
			sort.Strings(kinds)
		}
		for _, kind := range kinds {
			all = append(all, root{known[kind], []schema.GroupVersionKind{s.gv.WithKind(kind)}})
		}
	}
	v1 := schema.GroupVersion{Version: "v1"}
	metaV1 := schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}
	for _, object := range []any{meta.Status{}, meta.APIVersions{}, meta.APIGroup{}, meta.APIGroupList{}, meta.APIResourceList{},
		meta.WatchEvent{}, meta.DeleteOptions{}, meta.CreateOptions{}, meta.UpdateOptions{}, meta.PatchOptions{}, meta.GetOptions{}, meta.ListOptions{}} {
		t := reflect.TypeOf(object)
		all = append(all, root{t, []schema.GroupVersionKind{v1.WithKind(t.Name())}})
	}
	for _, object := range []any{meta.Table{}, meta.TableOptions{}, meta.PartialObjectMetadata{}, meta.PartialObjectMetadataList{}} {
		t := reflect.TypeOf(object)
		all = append(all, root{t, []schema.GroupVersionKind{metaV1.WithKind(t.Name())}})
	}
	for _, object := range []any{meta.ObjectMeta{}, meta.ListMeta{}, meta.LabelSelector{}, meta.Condition{}, meta.TypeMeta{}} {
		all = append(all, root{reflect.TypeOf(object), nil})
	}
	return all
}
