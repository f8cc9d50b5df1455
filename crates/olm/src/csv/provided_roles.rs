//! What lets those who may administer, edit or view a namespace do so with the kinds that an operator provides: ClusterRoles
//! that Kubernetes' own roles are made up of, as OLM makes them. They belong to the definition and go with it, not with
//! the version: the objects stay usable as long as there are any.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::api_services;
use crate::error::Error;
use crate::installing::apply_in_own_name;
use crate::kinds::{API_SERVICE, CLUSTER_ROLE, CRD, Kind};
use crate::object::{list, text};
use crate::target::Target;

/// Who may do what.
const LEVELS: [(&str, &[&str]); 3] =
    [("admin", &["*"]), ("edit", &["create", "update", "patch", "delete"]), ("view", &["get", "list", "watch"])];

/// Makes the roles of everything that a version provides. In our own name: whoever installs operators need not be one who
/// may write ClusterRoles.
pub(super) async fn ensure(target: &Target, csv: &DynamicObject) -> Result<(), Error> {
    if !target.serves(CLUSTER_ROLE.group, CLUSTER_ROLE.version, CLUSTER_ROLE.kind).await? {
        return Ok(());
    }
    for described in list(&csv.data, "/spec/customresourcedefinitions/owned") {
        let name = text(described, "/name");
        let Some((plural, group)) = name.split_once('.') else { continue };
        let Some(definition) = CRD.all(&target.own).get_opt(name).await? else { continue };
        let prefix = format!("{name}-{}", text(described, "/version"));
        let mut roles = of_resource(&prefix, group, plural);
        let shown = json!([{
            "apiGroups": [CRD.group], "resources": [CRD.plural], "resourceNames": [name], "verbs": ["get"],
        }]);
        roles.push(role(&format!("{prefix}-crdview"), "view", shown));
        write(target, roles, &CRD, &definition).await?;
    }
    for described in list(&csv.data, "/spec/apiservicedefinitions/owned") {
        let service = API_SERVICE.all(&target.own).get_opt(&api_services::name_of(described)).await?;
        let Some(service) = service else { continue };
        let (group, plural) = (text(described, "/group"), text(described, "/name"));
        let prefix = format!("{plural}.{group}-{}", text(described, "/version"));
        write(target, of_resource(&prefix, group, plural), &API_SERVICE, &service).await?;
    }
    Ok(())
}

async fn write(target: &Target, roles: Vec<Value>, kind: &Kind, owner: &DynamicObject) -> Result<(), Error> {
    for mut role in roles {
        role["metadata"]["ownerReferences"] = json!([kind.owner(owner)]);
        apply_in_own_name(target, &role, "").await?;
    }
    Ok(())
}

/// One for each level.
fn of_resource(prefix: &str, group: &str, plural: &str) -> Vec<Value> {
    let role = |(level, verbs): &(&str, &[&str])| {
        let rules = json!([{"apiGroups": [group], "resources": [plural], "verbs": verbs}]);
        role(&format!("{prefix}-{level}"), level, rules)
    };
    LEVELS.iter().map(role).collect()
}

fn role(name: &str, level: &str, rules: Value) -> Value {
    json!({
        "apiVersion": CLUSTER_ROLE.api_version(), "kind": CLUSTER_ROLE.kind,
        "metadata": {"name": name, "labels": {
            format!("rbac.authorization.k8s.io/aggregate-to-{level}"): "true", "olm.managed": "true",
        }},
        "rules": rules,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_named_and_aggregated_as_olm_does_it() {
        let roles = of_resource("gadgets.example.com-v1", "example.com", "gadgets");
        let names: Vec<&str> = roles.iter().map(|role| text(role, "/metadata/name")).collect();
        let prefix = "gadgets.example.com-v1";
        assert_eq!(names, [format!("{prefix}-admin"), format!("{prefix}-edit"), format!("{prefix}-view")]);
        assert_eq!(roles[0]["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"], "true");
        assert_eq!(roles[1]["rules"][0]["verbs"], json!(["create", "update", "patch", "delete"]));
    }
}
