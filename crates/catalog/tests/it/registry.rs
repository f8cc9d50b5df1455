//! Images through a real registry: bundles pushed and rendered, a catalog built, pushed, pulled, and read by opm.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use bailiwick_catalog::bundle::Migration;
use bailiwick_catalog::fbc::{Output, write_catalog};
use bailiwick_catalog::oci::{
    BlobCache, BuildOptions, Credentials, Image, Images, Layout, Registry, RegistryOptions, build_catalog,
    build_directory,
};
use bailiwick_catalog::reference::ImageReference;
use bailiwick_catalog::render::{Allowed, Renderer};
use bailiwick_catalog::template::{TemplateKind, render_template};
use bailiwick_catalog::verify::{Verdict, verify};

use crate::paths;

pub struct Server {
    child: Child,
    pub port: u16,
    _storage: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A registry of its own, or `None` with a line that says so.
pub fn start() -> Option<Server> {
    start_with("", "")
}

/// A registry with more in the `http` section of its configuration, and with more sections.
pub fn start_with(http: &str, sections: &str) -> Option<Server> {
    let program = paths::tool("docker-registry")?;
    let storage = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let config = format!(
        "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n{http}{sections}",
        storage.path().join("data").display()
    );
    std::fs::write(storage.path().join("config.yml"), config).unwrap();
    let child = Command::new(program)
        .arg("serve")
        .arg(storage.path().join("config.yml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server { child, port, _storage: storage };
    for _ in 0..300 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some(server);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the registry does not start");
}

pub fn images(cache: &Path) -> Images {
    let options = RegistryOptions { plain_http: true, ..RegistryOptions::default() };
    Images::new(Registry::new(&options, Credentials::default()).unwrap(), BlobCache::new(cache))
}

/// Labels of a bundle image are its annotations.
pub fn bundle_labels(folder: &Path) -> BuildOptions {
    let text = std::fs::read_to_string(folder.join("metadata/annotations.yaml")).unwrap();
    let annotations = bailiwick_machinery::yaml::decode(&text).unwrap().value;
    let labels = annotations["annotations"].as_object().unwrap().iter();
    BuildOptions { labels: labels.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect() }
}

/// A home directory in which opm accepts images without signatures.
pub fn opm_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let policy = home.path().join(".config/containers");
    std::fs::create_dir_all(&policy).unwrap();
    std::fs::write(policy.join("policy.json"), r#"{"default":[{"type":"insecureAcceptAnything"}]}"#).unwrap();
    home
}

#[test]
fn bundles_and_catalogs_go_through_a_registry() {
    let Some(data) = paths::data() else { return };
    let Some(server) = start() else { return };
    let cache = tempfile::tempdir().unwrap();
    let mut images = images(cache.path());
    let name = |package: &str, version: &str| format!("127.0.0.1:{}/test/{package}:v{version}", server.port);
    let package = "percona-postgresql-operator";
    let folder = data.join("bundles").join(package);
    let mut template = String::from("schema: olm.semver\nstable:\n  bundles:\n");
    for version in std::fs::read_dir(&folder).unwrap() {
        let version = version.unwrap();
        if !version.file_type().unwrap().is_dir() {
            continue;
        }
        let image = build_directory(&version.path(), &bundle_labels(&version.path())).unwrap();
        let version = version.file_name().into_string().unwrap();
        let reference = ImageReference::parse(&name(package, &version)).unwrap();
        images.push(&image, &reference, &[format!("v{version}")]).unwrap();
        template.push_str(&format!("  - image: {}\n", name(package, &version)));
    }
    let mut bundles = |image: &str| {
        let mut renderer = Renderer {
            images: &mut images,
            allowed: Allowed::BundleImages,
            migration: Migration::BundleObjectToCsvMetadata,
            image_template: None,
            warnings: Vec::new(),
        };
        renderer.render(&[image.to_owned()])
    };
    let rendered = render_template(TemplateKind::Semver, &template, &mut bundles).unwrap().catalog;
    let text = write_catalog(&rendered, Output::Yaml);

    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("catalog.yaml"), &text).unwrap();
    let image = build_catalog(dir.path(), &BuildOptions::default()).unwrap();
    let catalog = ImageReference::parse(&format!("127.0.0.1:{}/platform/catalog", server.port)).unwrap();
    images.push(&image, &catalog, &["main".to_owned(), "latest".to_owned()]).unwrap();
    assert_eq!(images.resolve(&catalog).unwrap(), image.digest().to_string());
    let layout = dir.path().join("layout");
    Layout::new(&layout).write(&image, &["v1.0.0".to_owned()]).unwrap();
    for reference in
        [format!("{catalog}:main"), format!("{catalog}@{}", image.digest()), format!("oci:{}:v1.0.0", layout.display())]
    {
        let mut renderer = Renderer {
            images: &mut images,
            allowed: Allowed::Catalogs,
            migration: Migration::None,
            image_template: None,
            warnings: Vec::new(),
        };
        let pulled = renderer.render(std::slice::from_ref(&reference)).unwrap();
        assert_eq!(write_catalog(&pulled, Output::Yaml), text, "{reference}");
    }

    let Some(opm) = paths::opm() else { return };
    let home = opm_home();
    let output = Command::new(opm)
        .env("HOME", home.path())
        .args(["render", &format!("{catalog}:main"), "--use-http", "-o", "yaml"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
}

/// A bundle whose operator has a name to be shown.
fn small_bundle(title: &str) -> Image {
    let dir = tempfile::tempdir().unwrap();
    for part in ["manifests", "metadata"] {
        std::fs::create_dir(dir.path().join(part)).unwrap();
    }
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: foo.v1.0.0}}\n\
         spec: {{displayName: {title}, version: 1.0.0}}\n"
    );
    std::fs::write(dir.path().join("manifests/csv.yaml"), csv).unwrap();
    let annotations = "annotations: {operators.operatorframework.io.bundle.mediatype.v1: registry+v1, \
                       operators.operatorframework.io.bundle.package.v1: foo, \
                       operators.operatorframework.io.bundle.channels.v1: stable}\n";
    std::fs::write(dir.path().join("metadata/annotations.yaml"), annotations).unwrap();
    build_directory(dir.path(), &bundle_labels(dir.path())).unwrap()
}

#[test]
fn a_catalog_is_verified_by_the_digests_that_its_tags_have_now() {
    let Some(server) = start() else { return };
    let cache = tempfile::tempdir().unwrap();
    let mut images = images(cache.path());
    let repository = ImageReference::parse(&format!("127.0.0.1:{}/test/foo", server.port)).unwrap();
    let (first, second) = (small_bundle("First"), small_bundle("Second"));
    let push = |images: &Images, image: &Image| images.push(image, &repository, &["v1".to_owned()]).unwrap();
    push(&images, &first);
    let catalog_of = |images: &mut Images, reference: String| {
        let mut renderer = Renderer {
            images,
            allowed: Allowed::BundleImages,
            migration: Migration::BundleObjectToCsvMetadata,
            image_template: None,
            warnings: Vec::new(),
        };
        renderer.render(&[reference]).unwrap()
    };
    let by_tag = catalog_of(&mut images, format!("{repository}:v1"));
    let by_digest = catalog_of(&mut images, format!("{repository}:v1@{}", first.digest()));
    for catalog in [&by_tag, &by_digest] {
        let findings = verify(catalog, None, &mut images);
        assert_eq!(findings.len(), 1);
        assert_eq!((&findings[0].verdict, &findings[0].moved), (&Verdict::Same, &None));
        assert_eq!(findings[0].digest, Some(first.digest().to_string()));
    }
    // The tag becomes another image. A catalog that names digests is still right.
    push(&images, &second);
    let finding = verify(&by_tag, None, &mut images).remove(0);
    assert!(matches!(finding.verdict, Verdict::Different(_)), "{finding:?}");
    let moved = finding.moved.unwrap_or_default();
    assert!(moved.contains(&format!("tag v1 is {} now", second.digest())), "{moved}");
    let finding = verify(&by_digest, None, &mut images).remove(0);
    assert_eq!(finding.verdict, Verdict::Same);
    let moved = finding.moved.unwrap_or_default();
    assert!(moved.contains(&first.digest().to_string()) && moved.contains(&second.digest().to_string()), "{moved}");
}

#[test]
fn content_that_is_not_what_its_digest_says_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("catalog.yaml"), "schema: x\n").unwrap();
    let image = build_catalog(dir.path(), &BuildOptions::default()).unwrap();
    let layout = dir.path().join("layout");
    Layout::new(&layout).write(&image, &[]).unwrap();
    let blobs = layout.join("blobs/sha256");
    for blob in std::fs::read_dir(&blobs).unwrap() {
        let path = blob.unwrap().path();
        let whole = std::fs::read(&path).unwrap();
        let mut changed = whole.clone();
        changed[0] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        let mut images = images(&dir.path().join("cache"));
        let mut renderer = Renderer {
            images: &mut images,
            allowed: Allowed::Everything,
            migration: Migration::None,
            image_template: None,
            warnings: Vec::new(),
        };
        let error = renderer.render(&[format!("oci:{}", layout.display())]).unwrap_err();
        let digest = path.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(digest) && error.contains("the content of"), "{error}");
        std::fs::write(&path, whole).unwrap();
    }
}
