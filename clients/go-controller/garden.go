package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var groupVersion = schema.GroupVersion{Group: "clients.bailiwick.dev", Version: "v1"}

// Garden is a custom resource whose controller keeps as many plants as it says.
type Garden struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GardenSpec   `json:"spec,omitempty"`
	Status            GardenStatus `json:"status,omitempty"`
}

// GardenSpec says what is wanted.
type GardenSpec struct {
	Plants int    `json:"plants"`
	Soil   string `json:"soil,omitempty"`
}

// GardenStatus says what there is.
type GardenStatus struct {
	Planted            int                `json:"planted"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// GardenList is a list of gardens.
type GardenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Garden `json:"items"`
}

// DeepCopyObject copies a garden.
func (g *Garden) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), g.Status.Conditions...)
	return &out
}

// DeepCopyObject copies a list of gardens.
func (l *GardenList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Garden, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Garden)
	}
	return &out
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, apiextensionsv1.AddToScheme, func(s *runtime.Scheme) error {
		s.AddKnownTypes(groupVersion, &Garden{}, &GardenList{})
		metav1.AddToGroupVersion(s, groupVersion)
		return nil
	})
	return scheme, builder.AddToScheme(scheme)
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	type props = map[string]apiextensionsv1.JSONSchemaProps
	integer := apiextensionsv1.JSONSchemaProps{Type: "integer", Minimum: ptr.To(0.0)}
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	condition := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props{
		"type": text, "status": text, "reason": text, "message": text,
		"lastTransitionTime": {Type: "string", Format: "date-time"}, "observedGeneration": integer,
	}, Required: []string{"type"}}
	schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props{
		"spec": {Type: "object", Required: []string{"plants"}, Properties: props{
			"plants": integer, "soil": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"loam"`)}},
		}},
		"status": {Type: "object", Properties: props{
			"planted": integer, "observedGeneration": integer,
			"conditions": {
				Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition},
				XListType: ptr.To("map"), XListMapKeys: []string{"type"},
			},
		}},
	}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gardens." + groupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: groupVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gardens", Kind: "Garden"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: groupVersion.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// define creates the definition and waits until it is established.
func define(ctx context.Context, c client.Client) error {
	crd := definition()
	if err := c.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return eventually(ctx, "the definition to be established", func() (string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return "", err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return "", nil
			}
		}
		return "not established", nil
	})
}
