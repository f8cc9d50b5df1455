//! A platform of six operators from the shared data goes through the layers, and every seeded fault is found by the layer
//! that it is for.

use std::path::{Path, PathBuf};

use bailiwick_catalog::fbc::{Catalog, load_text};
use bailiwick_catalog::platform::{Layer, Manifests, Platform, Report, Subject, Verdict, journeys, test};
use bailiwick_catalog::render::NoImages;

use crate::paths;

const OPERATORS: [&str; 6] = [
    "cert-manager",
    "percona-postgresql-operator",
    "percona-server-mongodb-operator",
    "percona-xtradb-cluster-operator",
    "rabbitmq-cluster-operator",
    "rabbitmq-messaging-topology-operator",
];

const PLATFORM: &str = r#"
apiVersion: catalog.bailiwick.dev/v1alpha1
kind: Platform
metadata:
  name: dbaas
spec:
  kubernetes: ["1.34", "1.35", "1.36"]
  operators:
  - package: cert-manager
  - package: percona-postgresql-operator
    channel: stable-v1
    versions: ">=1.3.0 <2.0.0"
  - package: percona-server-mongodb-operator
    channel: stable-v1
  - package: percona-xtradb-cluster-operator
    channel: stable-v1
    versions: ">=1.19.0"
  - package: rabbitmq-cluster-operator
    channel: stable-v2
    # 2.22 makes fields of the pod template required.
    versions: "<2.2.0"
  - package: rabbitmq-messaging-topology-operator
    channel: stable-v1.19
  # Their samples lack fields that are required: these are faults of the bundles, which their users know.
  accepted:
  - cert-manager/samples
  - rabbitmq-messaging-topology-operator/samples
"#;

fn text(data: &Path, package: &str) -> String {
    std::fs::read_to_string(data.join(format!("golden/semver-real/{package}.catalog.yaml"))).unwrap()
}

fn catalog(data: &Path) -> Catalog {
    let all: String = OPERATORS.iter().map(|package| text(data, package)).collect();
    load_text(&all).unwrap()
}

/// Runs layers on a catalog, with the unchanged one as the last release.
fn run(data: &Path, platform: &str, catalog_now: Catalog, bundles: &Path, layers: &[Layer]) -> Report {
    let manifests = Manifests::new(Box::new(NoImages), Some(bundles));
    let platform = Platform::parse(platform).unwrap();
    let mut subject = Subject::new(platform, catalog_now, Some(catalog(data)), None, manifests).unwrap();
    test(&mut subject, layers)
}

const LAYERS: [Layer; 3] = [Layer::Sanity, Layer::Integration, Layer::Interoperability];

#[test]
fn a_platform_of_six_operators_passes() {
    let Some(data) = paths::data() else { return };
    let report = run(&data, PLATFORM, catalog(&data), &data.join("bundles"), &LAYERS);
    assert!(report.passed(), "{}", report.table());
}

/// The findings of one check, which must have failed.
fn failure(report: &Report, layer: Layer, operator: &str, name: &str) -> String {
    let mut found = report.checks().filter(|(at, it)| *at == layer && it.operator == operator && it.name == name);
    match found.next().map(|(_, check)| &check.verdict) {
        Some(Verdict::Failed(details)) => details.join("\n"),
        other => panic!("{operator}/{name} is {other:?}\n{}", report.table()),
    }
}

/// A copy of the bundles of one package, to spoil.
fn spoiled(data: &Path, package: &str, spoil: impl Fn(&Path, &str) -> Option<String>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for other in OPERATORS.iter().filter(|it| **it != package) {
        std::os::unix::fs::symlink(data.join("bundles").join(other), dir.path().join(other)).unwrap();
    }
    copy(&data.join("bundles").join(package), &dir.path().join(package), &spoil);
    dir
}

fn copy(from: &Path, to: &Path, spoil: &impl Fn(&Path, &str) -> Option<String>) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target, spoil);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            let changed = spoil(&path, &text).unwrap_or(text);
            std::fs::write(target, changed).unwrap();
        }
    }
}

fn replaced(data: &Path, package: &str, from: &str, to: &str) -> Catalog {
    let before = text(data, package);
    assert!(before.contains(from), "{package} has no {from:?}");
    let all: String =
        OPERATORS.iter().map(|it| if *it == package { before.replace(from, to) } else { text(data, it) }).collect();
    load_text(&all).unwrap()
}

#[test]
fn sanity_finds_what_is_wrong_with_an_operator() {
    let Some(data) = paths::data() else { return };
    let sanity = |bundles: &Path| run(&data, PLATFORM, catalog(&data), bundles, &[Layer::Sanity]);
    let package = "rabbitmq-cluster-operator";

    let dir = spoiled(&data, package, |_, text| {
        text.contains("kind: ClusterServiceVersion").then(|| text.replace("installModes:", "installmodez:"))
    });
    assert!(failure(&sanity(dir.path()), Layer::Sanity, package, "csv").contains("spec.installModes"));

    let dir = spoiled(&data, package, |_, text| {
        text.contains("kind: ClusterServiceVersion").then(|| {
            let at = text.find("image: ").unwrap();
            let end = at + text[at..].find('\n').unwrap();
            format!("{}image: quay.io/rabbitmq/cluster-operator:latest{}", &text[..at], &text[end..])
        })
    });
    assert!(
        failure(&sanity(dir.path()), Layer::Sanity, package, "images")
            .contains("the tag of quay.io/rabbitmq/cluster-operator:latest moves")
    );

    let dir = spoiled(&data, package, |_, text| {
        text.contains("kind: CustomResourceDefinition").then(|| text.replace("storage: true", "storage: false"))
    });
    assert!(
        failure(&sanity(dir.path()), Layer::Sanity, package, "manifests")
            .contains("exactly one must have storage: true")
    );

    let old = PLATFORM.replace("\"1.34\"", "\"1.8\"");
    let report = run(&data, &old, catalog(&data), &data.join("bundles"), &[Layer::Sanity]);
    assert!(!report.passed(), "{}", report.table());

    let broken = replaced(&data, package, "defaultChannel: ", "defaultChannel: not-");
    let report = run(&data, PLATFORM, broken, &data.join("bundles"), &[Layer::Sanity]);
    assert!(failure(&report, Layer::Sanity, "dbaas", "validate").contains("invalid package"), "{}", report.table());
}

#[test]
fn integration_finds_who_is_left_behind() {
    let Some(data) = paths::data() else { return };
    let package = "percona-server-mongodb-operator";
    let integration = |catalog: Catalog| run(&data, PLATFORM, catalog, &data.join("bundles"), &[Layer::Integration]);

    // The oldest bundle and the edge from it are gone.
    let mut cut = catalog(&data);
    let oldest = format!("{package}.v1.10.0");
    cut.bundles.retain(|it| it.name != oldest);
    for channel in cut.channels.iter_mut().filter(|it| it.package == package) {
        channel.entries.retain(|it| it.name != oldest);
        for entry in &mut channel.entries {
            entry.skips.retain(|skip| *skip != oldest);
            if entry.replaces == oldest {
                entry.replaces.clear();
            }
        }
    }
    cut.channels.retain(|it| !it.entries.is_empty());
    let report = integration(cut);
    assert!(
        failure(&report, Layer::Integration, package, "upgrade-paths").contains("has no upgrade path"),
        "{}",
        report.table()
    );
    assert!(failure(&report, Layer::Integration, package, "graph").contains("is gone"));

    let mut moved = catalog(&data);
    let entry = moved.packages.iter_mut().find(|it| it.name == package).unwrap();
    let other = moved.channels.iter().find(|it| it.package == package && it.name != entry.default_channel).unwrap();
    entry.default_channel = other.name.clone();
    let report = integration(moved.clone());
    assert!(failure(&report, Layer::Integration, package, "default-channel").contains("the default channel changes"));
    let said = format!("{PLATFORM}  - {package}/default-channel\n");
    let report = run(&data, &said, moved, &data.join("bundles"), &[Layer::Integration]);
    assert!(report.passed(), "{}", report.table());
}

#[test]
fn interoperability_finds_what_does_not_go_together() {
    let Some(data) = paths::data() else { return };
    let layer = Layer::Interoperability;
    let run_on = |catalog: Catalog, bundles: &Path| run(&data, PLATFORM, catalog, bundles, &[layer]);

    // Somebody needs a version that is not there.
    let mut needy = catalog(&data);
    let property = bailiwick_catalog::fbc::Property {
        kind: "olm.package.required".to_owned(),
        value: r#"{"packageName":"cert-manager","versionRange":">=99.0.0"}"#.to_owned(),
    };
    let bundles = needy.bundles.iter_mut().filter(|it| it.package == "rabbitmq-cluster-operator");
    bundles.for_each(|it| it.properties.push(property.clone()));
    let report = run_on(needy, &data.join("bundles"));
    assert!(failure(&report, layer, "dbaas", "resolution").contains("package cert-manager in version >=99.0.0"));

    // Two operators own one API.
    let mut twins = catalog(&data);
    let api = bailiwick_catalog::fbc::Property {
        kind: "olm.gvk".to_owned(),
        value: r#"{"group":"cert-manager.io","kind":"Certificate","version":"v1"}"#.to_owned(),
    };
    let bundles = twins.bundles.iter_mut().filter(|it| it.package == "rabbitmq-cluster-operator");
    bundles.for_each(|it| it.properties.push(api.clone()));
    let report = run_on(twins, &data.join("bundles"));
    assert!(failure(&report, layer, "dbaas", "api-ownership").contains("Certificate of cert-manager.io"));
    assert!(
        failure(&report, layer, "cert-manager+rabbitmq-cluster-operator", "resolution")
            .contains("provide the same API")
    );

    // The newest version allows less than the one before, and its sample is not what it allows.
    let package = "rabbitmq-cluster-operator";
    let dir = spoiled(&data, package, |path, text| {
        let newest = path.to_string_lossy().contains("/2.1.0/");
        let changed = text.replacen("  default: 1\n", "  maximum: 2\n                  default: 1\n", 1);
        let changed =
            changed.replacen("\"name\":\"hello-world\"}", "\"name\":\"hello-world\"},\"spec\":{\"replicas\":3}", 1);
        newest.then_some(changed)
    });
    let report = run_on(catalog(&data), dir.path());
    let told = failure(&report, layer, package, "crd-compatibility");
    assert!(told.contains("v1beta1.spec.replicas maximum is narrowed from no limit to 2"), "{}", report.table());
    assert!(failure(&report, layer, package, "samples").contains("spec.replicas"), "{}", report.table());
}

/// A repository with the template of one operator, whose bundles are in directories; its catalog as the template has it.
fn repository(data: &Path, package: &str) -> (tempfile::TempDir, Catalog) {
    let dir = tempfile::tempdir().unwrap();
    let golden = data.join("golden/semver-real");
    let template = std::fs::read_to_string(golden.join(format!("{package}.veneer.yaml"))).unwrap();
    std::fs::create_dir(dir.path().join(package)).unwrap();
    std::fs::write(dir.path().join(package).join("veneer.yaml"), template).unwrap();
    (dir, catalog(data))
}

#[test]
fn sanity_renders_the_templates_again() {
    let Some(data) = paths::data() else { return };
    let package = "rabbitmq-cluster-operator";
    let (dir, good) = repository(&data, package);
    let sanity = |catalog: Catalog, bundles: &Path| {
        let manifests = Manifests::new(Box::new(NoImages), Some(bundles));
        let platform = Platform::parse(PLATFORM).unwrap();
        let mut subject = Subject::new(platform, catalog, None, Some(dir.path().to_path_buf()), manifests).unwrap();
        test(&mut subject, &[Layer::Sanity])
    };
    let verdict = |report: &Report| {
        let mut found = report.checks().filter(|(_, it)| it.operator == package && it.name == "template");
        found.next().map(|(_, it)| it.verdict.clone()).unwrap()
    };
    let all = data.join("bundles");
    let report = sanity(good.clone(), &all);
    assert_eq!(verdict(&report), Verdict::Passed, "{}", report.table());

    // Somebody edited the rendered catalog: the images are all there, but nothing else is as it was.
    let mut edited = good.clone();
    for channel in edited.channels.iter_mut().filter(|it| it.package == package && it.entries.len() > 1) {
        channel.entries.iter_mut().for_each(|entry| entry.skip_range = "<9.0.0".to_owned());
    }
    let report = sanity(edited, &all);
    let told = failure(&report, Layer::Sanity, package, "template");
    assert!(told.contains("the template renders to another channel stable-v2"), "{told}");
    assert!(told.contains("bailiwick catalog update --force rabbitmq-cluster-operator"), "{told}");

    // The image was pushed again with something else in it.
    let moved = spoiled(&data, package, |_, text| {
        text.contains("kind: ClusterServiceVersion")
            .then(|| text.replace("displayName: RabbitMQ", "displayName: Rabbit"))
    });
    let report = sanity(good.clone(), moved.path());
    assert!(matches!(verdict(&report), Verdict::Failed(_)), "{}", report.table());

    let path = dir.path().join(package).join("veneer.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}{text}")).unwrap();
    let told = failure(&sanity(good.clone(), &all), Layer::Sanity, package, "template");
    assert!(told.contains("already set in map") && told.contains("line "), "{told}");
    std::fs::write(&path, text.replace("olm.semver", "olm.semvar")).unwrap();
    let told = failure(&sanity(good, &all), Layer::Sanity, package, "template");
    assert!(told.contains("unknown template schema"), "{told}");
}

#[test]
fn sanity_finds_files_that_are_left_out_and_images_that_are_not_pinned() {
    let Some(data) = paths::data() else { return };
    let package = "rabbitmq-cluster-operator";
    let dir = spoiled(&data, package, |path, text| {
        (path.to_string_lossy().contains("/manifests/") && !text.contains("kind: ClusterServiceVersion"))
            .then(|| format!("{text}\nbroken: [\n"))
    });
    let report = run(&data, PLATFORM, catalog(&data), dir.path(), &[Layer::Sanity]);
    let told = failure(&report, Layer::Sanity, package, "bundles");
    assert!(told.contains(".yaml, line "), "{told}");

    // Nothing of the real operators is pinned as strictly as that.
    let strict = PLATFORM.replace("spec:\n", "spec:\n  images: digests\n");
    let report = run(&data, &strict, catalog(&data), &data.join("bundles"), &[Layer::Sanity]);
    let told = failure(&report, Layer::Sanity, package, "images");
    assert!(told.contains("is not pinned by digest"), "{told}");
}

/// Others use the rest of the catalog.
#[test]
fn integration_looks_at_the_whole_catalog() {
    let Some(data) = paths::data() else { return };
    let other = "percona-xtradb-cluster-operator";
    let platform = PLATFORM.lines().filter(|line| !line.contains(other)).collect::<Vec<_>>().join("\n");
    // What belonged to it.
    let platform = platform.replacen("    channel: stable-v1\n    versions: \">=1.19.0\"\n", "", 1);
    let report = run(&data, &platform, catalog(&data), &data.join("bundles"), &[Layer::Integration]);
    assert!(report.passed(), "{}", report.table());
    let whole = report.checks().find(|(_, it)| it.name == "rest-of-catalog").unwrap().1.clone();
    assert_eq!((whole.operator.as_str(), &whole.verdict), ("dbaas", &Verdict::Passed));

    let mut gone = catalog(&data);
    gone.packages.retain(|it| it.name != other);
    gone.channels.retain(|it| it.package != other);
    gone.bundles.retain(|it| it.package != other);
    let report = run(&data, &platform, gone.clone(), &data.join("bundles"), &[Layer::Integration]);
    assert!(failure(&report, Layer::Integration, other, "upgrade-paths").contains("is gone"), "{}", report.table());
    let accepted = format!("{platform}\n  - {other}/upgrade-paths\n  - {other}/graph\n");
    let report = run(&data, &accepted, gone, &data.join("bundles"), &[Layer::Integration]);
    assert!(report.passed(), "{}", report.table());
}

/// Who names no channel takes the default one, which may be one of candidates.
#[test]
fn a_default_channel_of_candidates_only_warns() {
    let Some(data) = paths::data() else { return };
    let package = "rabbitmq-cluster-operator";
    let mut now = catalog(&data);
    for channel in now.channels.iter_mut().filter(|it| it.package == package) {
        channel.name = channel.name.replace("stable", "candidate");
    }
    let of_package = now.packages.iter_mut().find(|it| it.name == package).unwrap();
    of_package.default_channel = "candidate-v2".to_owned();
    let platform = PLATFORM.replace("    channel: stable-v2\n", "");
    let dir = spoiled(&data, package, |_, text| {
        text.contains("kind: ClusterServiceVersion").then(|| text.replace("installModes:", "installmodez:"))
    });
    let report = run(&data, &platform, now, dir.path(), &[Layer::Sanity]);
    assert!(report.passed(), "{}", report.table());
    assert!(report.table().contains("(a candidate channel)"), "{}", report.table());
}

#[test]
fn candidates_only_warn() {
    let Some(data) = paths::data() else { return };
    let package = "rabbitmq-cluster-operator";
    let mut now = catalog(&data);
    for channel in now.channels.iter_mut().filter(|it| it.package == package) {
        channel.name = channel.name.replace("stable", "candidate");
    }
    for entry in now.packages.iter_mut().filter(|it| it.name == package) {
        entry.default_channel = entry.default_channel.replace("stable", "candidate");
    }
    let platform = PLATFORM.replace("channel: stable-v2\n", "channel: candidate-v2\n");
    let dir = spoiled(&data, package, |_, text| {
        text.contains("kind: ClusterServiceVersion").then(|| text.replace("installModes:", "installmodez:"))
    });
    let report = run(&data, &platform, now, dir.path(), &[Layer::Sanity]);
    assert!(report.passed(), "{}", report.table());
    assert!(report.table().contains("(a candidate channel)"), "{}", report.table());
}

/// Nobody can install an operator from before the APIs of today.
#[test]
fn a_platform_of_today_refuses_an_operator_of_the_past() {
    let Some(data) = paths::data() else { return };
    let platform = "apiVersion: catalog.bailiwick.dev/v1alpha1\nkind: Platform\nmetadata: {name: old}\nspec:\n  \
                    operators: [{package: prometheus}]\n";
    let manifests = Manifests::new(Box::new(NoImages), Some(&data.join("bundles")));
    let catalog = load_text(&text(&data, "prometheus")).unwrap();
    let mut subject = Subject::new(Platform::parse(platform).unwrap(), catalog, None, None, manifests).unwrap();
    let report = test(&mut subject, &[Layer::Sanity]);
    let told = failure(&report, Layer::Sanity, "prometheus", "kubernetes");
    assert!(told.contains("Kubernetes 1.22 and later do not serve apiextensions.k8s.io/v1beta1"), "{told}");
}

#[test]
fn journeys_are_all_upgrades() {
    let Some(data) = paths::data() else { return };
    let manifests = Manifests::new(Box::new(NoImages), None);
    let subject = Subject::new(Platform::parse(PLATFORM).unwrap(), catalog(&data), None, None, manifests).unwrap();
    let all = journeys(&subject).unwrap();
    let mongodb = all.iter().find(|it| it.package == "percona-server-mongodb-operator").unwrap();
    assert_eq!(mongodb.newest, "percona-server-mongodb-operator.v1.12.0");
    let hops: Vec<String> = mongodb.hops.iter().map(|hop| format!("{} {}", hop.from, hop.to)).collect();
    assert!(
        hops.contains(&"percona-server-mongodb-operator.v1.10.0 percona-server-mongodb-operator.v1.11.0".to_owned()),
        "{hops:?}"
    );
}
