//! What other servers serve belongs to the root control plane: no path of a project leads there.

use anyhow::Result;
use serde_json::json;

use crate::api::aggregated;
use crate::backend::{Backend, GROUP, Setup};

const GROUP_OF_PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1";

#[tokio::test]
async fn a_project_neither_sees_nor_reaches_the_servers_behind_the_root() -> Result<()> {
    let backend = Backend::start(Setup::default())?;
    let (_server, api) = aggregated(&backend).await?;
    let api_version = "resourcemanager.miloapis.com/v1alpha1";
    let organization = json!({"apiVersion": api_version, "kind": "Organization", "metadata": {"name": "acme"}});
    api.post(&format!("{GROUP_OF_PROJECTS}/organizations"), &organization).await?;
    let project = json!({
        "apiVersion": api_version, "kind": "Project", "metadata": {"name": "shop"},
        "spec": {"ownerRef": {"kind": "Organization", "name": "acme"}},
    });
    api.post(&format!("{GROUP_OF_PROJECTS}/projects"), &project).await?;
    let things = format!("/apis/{GROUP}/v1/namespaces/default/things");
    let prefixes = ["/projects/shop".to_owned(), format!("{GROUP_OF_PROJECTS}/projects/shop/control-plane")];
    for prefix in &prefixes {
        for path in [
            things.clone(),
            format!("{things}?watch=true"),
            format!("{things}/a/exec"),
            format!("/apis/{GROUP}"),
            format!("/apis/{GROUP}/v1"),
            format!("/openapi/v3/apis/{GROUP}/v1"),
            "/apis/apiregistration.k8s.io/v1/apiservices".to_owned(),
        ] {
            let (status, text) = api.text(&format!("{prefix}{path}")).await?;
            assert_eq!(status, 404, "{prefix}{path}: {text}");
        }
        for document in ["/apis", "/openapi/v2", "/openapi/v3"] {
            let (status, text) = api.text(&format!("{prefix}{document}")).await?;
            assert!(status == 200 && !text.contains(GROUP), "{prefix}{document}");
        }
    }
    // The keeper looks at the server on its own, but not at objects; the garbage collector of the root does that.
    let mut objects = backend.asked(&format!("/apis/{GROUP}/v1/"));
    objects
        .retain(|asked| asked.headers.get("x-remote-user").is_none_or(|user| user != "system:kube-controller-manager"));
    assert!(objects.is_empty(), "{objects:?}");
    assert_eq!(api.text(&things).await?.0, 200, "the root's is still there");

    // A definition of the project for the same group is the project's own.
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let names = json!({"plural": "things", "kind": "Thing"});
    let definition = json!({
        "metadata": {"name": format!("things.{GROUP}")},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    });
    api.post("/projects/shop/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let own = format!("/projects/shop{things}");
    api.until("the project's own type", async || Ok((api.text(&own).await?.0 == 200).then_some(()))).await?;
    let thing = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "metadata": {"name": "mine"}});
    api.post(&own, &thing).await?;
    assert_eq!(backend.asked(&things).len(), 1, "only the root's request reached it");
    assert_eq!(api.json(&things).await?["items"], json!([]));
    Ok(())
}
