//! The types of a ClusterServiceVersion that catalogs carry and serve.

use crate::go::{Field, Omit, Shape, Struct};

const fn text(name: &'static str) -> Field {
    Field { name, shape: Shape::TEXT, omit: Omit::Never }
}

const fn opt(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, omit: Omit::Empty }
}

const fn opt_text(name: &'static str) -> Field {
    opt(name, Shape::TEXT)
}

/// The fields of a CSV's spec that its metadata property carries under their own names.
pub const SHOWN_SPEC_FIELDS: [&str; 10] = [
    "description",
    "displayName",
    "installModes",
    "keywords",
    "links",
    "maintainers",
    "maturity",
    "minKubeVersion",
    "nativeAPIs",
    "provider",
];

static TEXT: Shape = Shape::TEXT;
const TEXTS: Shape = Shape::List(&TEXT);
const TEXT_MAP: Shape = Shape::Map(&TEXT);

macro_rules! descriptor {
    ($name:ident, $shape:ident, $go:literal) => {
        static $name: Struct = Struct {
            name: $go,
            fields: &[
                text("path"),
                opt_text("displayName"),
                opt_text("description"),
                opt("x-descriptors", TEXTS),
                opt("value", Shape::Raw),
            ],
        };
        static $shape: Shape = Shape::Struct(&$name);
    };
}

descriptor!(STATUS_DESCRIPTOR, STATUS_DESCRIPTOR_SHAPE, "v1alpha1.StatusDescriptor");
descriptor!(SPEC_DESCRIPTOR, SPEC_DESCRIPTOR_SHAPE, "v1alpha1.SpecDescriptor");
descriptor!(ACTION_DESCRIPTOR, ACTION_DESCRIPTOR_SHAPE, "v1alpha1.ActionDescriptor");

static RESOURCE: Struct =
    Struct { name: "v1alpha1.APIResourceReference", fields: &[text("name"), text("kind"), text("version")] };
static RESOURCE_SHAPE: Shape = Shape::Struct(&RESOURCE);

static CRD: Struct = Struct {
    name: "v1alpha1.CRDDescription",
    fields: &[
        text("name"),
        text("version"),
        text("kind"),
        opt_text("displayName"),
        opt_text("description"),
        opt("resources", Shape::List(&RESOURCE_SHAPE)),
        opt("statusDescriptors", Shape::List(&STATUS_DESCRIPTOR_SHAPE)),
        opt("specDescriptors", Shape::List(&SPEC_DESCRIPTOR_SHAPE)),
        opt("actionDescriptors", Shape::List(&ACTION_DESCRIPTOR_SHAPE)),
    ],
};
static CRD_SHAPE: Shape = Shape::Struct(&CRD);
static CRDS: Struct = Struct {
    name: "v1alpha1.CustomResourceDefinitions",
    fields: &[opt("owned", Shape::List(&CRD_SHAPE)), opt("required", Shape::List(&CRD_SHAPE))],
};

static API_SERVICE: Struct = Struct {
    name: "v1alpha1.APIServiceDescription",
    fields: &[
        text("name"),
        text("group"),
        text("version"),
        text("kind"),
        opt_text("deploymentName"),
        opt("containerPort", Shape::Int("int32")),
        opt_text("displayName"),
        opt_text("description"),
        opt("resources", Shape::List(&RESOURCE_SHAPE)),
        opt("statusDescriptors", Shape::List(&STATUS_DESCRIPTOR_SHAPE)),
        opt("specDescriptors", Shape::List(&SPEC_DESCRIPTOR_SHAPE)),
        opt("actionDescriptors", Shape::List(&ACTION_DESCRIPTOR_SHAPE)),
    ],
};
static API_SERVICE_SHAPE: Shape = Shape::Struct(&API_SERVICE);
static API_SERVICES: Struct = Struct {
    name: "v1alpha1.APIServiceDefinitions",
    fields: &[opt("owned", Shape::List(&API_SERVICE_SHAPE)), opt("required", Shape::List(&API_SERVICE_SHAPE))],
};

static INSTALL_MODE: Struct = Struct {
    name: "v1alpha1.InstallMode",
    fields: &[
        Field { name: "type", shape: Shape::Text("v1alpha1.InstallModeType"), omit: Omit::Never },
        Field { name: "supported", shape: Shape::Bool, omit: Omit::Never },
    ],
};
static INSTALL_MODE_SHAPE: Shape = Shape::Struct(&INSTALL_MODE);
static LINK: Struct = Struct { name: "v1alpha1.AppLink", fields: &[opt_text("name"), opt_text("url")] };
static LINK_SHAPE: Shape = Shape::Struct(&LINK);
static MAINTAINER: Struct = Struct { name: "v1alpha1.Maintainer", fields: &[opt_text("name"), opt_text("email")] };
static MAINTAINER_SHAPE: Shape = Shape::Struct(&MAINTAINER);
static GVK: Struct = Struct { name: "v1.GroupVersionKind", fields: &[text("group"), text("version"), text("kind")] };
static GVK_SHAPE: Shape = Shape::Struct(&GVK);

/// The value of an `olm.csv.metadata` property.
pub(crate) static CSV_METADATA: Struct = Struct {
    name: "property.CSVMetadata",
    fields: &[
        opt("annotations", TEXT_MAP),
        opt("apiServiceDefinitions", Shape::Struct(&API_SERVICES)),
        opt("crdDescriptions", Shape::Struct(&CRDS)),
        opt_text("description"),
        opt_text("displayName"),
        opt("installModes", Shape::List(&INSTALL_MODE_SHAPE)),
        opt("keywords", TEXTS),
        opt("labels", TEXT_MAP),
        opt("links", Shape::List(&LINK_SHAPE)),
        opt("maintainers", Shape::List(&MAINTAINER_SHAPE)),
        opt_text("maturity"),
        opt_text("minKubeVersion"),
        opt("nativeAPIs", Shape::List(&GVK_SHAPE)),
        opt("provider", Shape::Struct(&LINK)),
    ],
};

static OBJECT_META: Struct = Struct {
    name: "v1.ObjectMeta",
    fields: &[opt_text("name"), opt("labels", TEXT_MAP), opt("annotations", TEXT_MAP)],
};
static STRATEGY: Struct = Struct {
    name: "v1alpha1.StrategyDetailsDeployment",
    fields: &[Field { name: "deployments", shape: Shape::List(&Shape::Raw), omit: Omit::Never }],
};
static INSTALL: Struct = Struct {
    name: "v1alpha1.NamedInstallStrategy",
    fields: &[text("strategy"), opt("spec", Shape::Struct(&STRATEGY))],
};
static ICON: Struct = Struct { name: "v1alpha1.Icon", fields: &[text("base64data"), text("mediatype")] };
static ICON_SHAPE: Shape = Shape::Struct(&ICON);
static RELATED: Struct = Struct { name: "v1alpha1.RelatedImage", fields: &[text("name"), text("image")] };
static RELATED_SHAPE: Shape = Shape::Struct(&RELATED);
static CLEANUP: Struct = Struct {
    name: "v1alpha1.CleanupSpec",
    fields: &[Field { name: "enabled", shape: Shape::Bool, omit: Omit::Never }],
};
static CLEANUP_STATUS: Struct = Struct { name: "v1alpha1.CleanupStatus", fields: &[] };
static SPEC: Struct = Struct {
    name: "v1alpha1.ClusterServiceVersionSpec",
    fields: &[
        Field { name: "install", shape: Shape::Struct(&INSTALL), omit: Omit::Never },
        text("version"),
        opt_text("maturity"),
        opt("customresourcedefinitions", Shape::Struct(&CRDS)),
        opt("apiservicedefinitions", Shape::Struct(&API_SERVICES)),
        opt("nativeAPIs", Shape::List(&GVK_SHAPE)),
        opt_text("minKubeVersion"),
        text("displayName"),
        opt_text("description"),
        opt("keywords", TEXTS),
        opt("maintainers", Shape::List(&MAINTAINER_SHAPE)),
        opt("provider", Shape::Struct(&LINK)),
        opt("links", Shape::List(&LINK_SHAPE)),
        opt("icon", Shape::List(&ICON_SHAPE)),
        opt("installModes", Shape::List(&INSTALL_MODE_SHAPE)),
        opt("cleanup", Shape::Struct(&CLEANUP)),
        opt("relatedImages", Shape::List(&RELATED_SHAPE)),
    ],
};
static STATUS: Struct =
    Struct { name: "v1alpha1.ClusterServiceVersionStatus", fields: &[opt("cleanup", Shape::Struct(&CLEANUP_STATUS))] };

/// What is served in place of the ClusterServiceVersion of a bundle that has only its metadata.
pub(crate) static CSV_STUB: Struct = Struct {
    name: "v1alpha1.ClusterServiceVersion",
    fields: &[
        opt_text("kind"),
        opt_text("apiVersion"),
        Field { name: "metadata", shape: Shape::Struct(&OBJECT_META), omit: Omit::Never },
        Field { name: "spec", shape: Shape::Struct(&SPEC), omit: Omit::Never },
        Field { name: "status", shape: Shape::Struct(&STATUS), omit: Omit::Never },
    ],
};
