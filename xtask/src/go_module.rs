//! Builds Go programs from published modules. Kubernetes' own go.mod points its staging modules at directories that
//! are not part of the module, so a scratch module is generated that points them at their published twins.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::tools::{Source, Tool, repository_root};

const OPERATOR_REGISTRY: &str = "github.com/operator-framework/operator-registry";

/// Builds `tool` with the Go tool chain and places it, under its versioned name, in `dir`.
pub fn build(tool: &Tool, dir: &Path) -> Result<PathBuf> {
    let scratch = dir.join("src").join(tool.versioned_file());
    std::fs::create_dir_all(&scratch).with_context(|| format!("creating {}", scratch.display()))?;
    let output = dir.join(tool.versioned_file());
    // Build beside the final name and rename, so that an interrupted build never looks installed.
    let unfinished = scratch.join("program");

    let (module, package, linker_flags) = match tool.source {
        Source::Kubernetes { package } => {
            let module = kubernetes_module(tool.version)?;
            (module, format!("k8s.io/kubernetes/{package}"), version_flags(tool.version))
        }
        Source::KubernetesClient { directory } => {
            let module = kubernetes_module(tool.version)?;
            copy_program(&repository_root().join("clients").join(directory), &scratch)?;
            (module, ".".to_owned(), version_flags(tool.version))
        }
        Source::Etcd => (etcd_module(tool.version)?, "go.etcd.io/etcd/server/v3".to_owned(), String::new()),
        Source::SampleApiserver => {
            (sample_apiserver_module(tool.version)?, "k8s.io/sample-apiserver".to_owned(), String::new())
        }
        Source::Opm => (opm_module(tool.version)?, format!("{OPERATOR_REGISTRY}/cmd/opm"), String::new()),
    };
    std::fs::write(scratch.join("go.mod"), module)?;
    std::fs::write(scratch.join("go.sum"), "")?;

    let status = Command::new("go")
        .current_dir(&scratch)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        // Without this tag, opm's image library wants C libraries; the other programs do not know it.
        .args(["build", "-mod=mod", "-trimpath", "-buildvcs=false", "-tags", "containers_image_openpgp", "-ldflags"])
        .arg(format!("-s -w {linker_flags}"))
        .arg("-o")
        .arg(&unfinished)
        .arg(&package)
        .status()
        .context("running go")?;
    if !status.success() {
        bail!("go build {package} ({}) failed: {status}", tool.version);
    }
    std::fs::rename(&unfinished, &output)?;
    std::fs::remove_dir_all(&scratch)?;
    Ok(output)
}

/// Go refuses a package outside the module, and the module is generated in the scratch directory.
fn copy_program(from: &Path, scratch: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        std::fs::copy(entry.path(), scratch.join(entry.file_name()))?;
    }
    Ok(())
}

/// What the Go tool chain says about itself, or an error that tells what to install.
pub fn go_version() -> Result<String> {
    let output = Command::new("go").args(["env", "GOVERSION"]).output().context(
        "Go is not installed: the programs the tests use (kubectl, etcd) are built from their Go modules. \
         Install Go 1.26 or newer (https://go.dev/dl, or Debian's golang from a newer suite) and put it on PATH",
    )?;
    if !output.status.success() {
        bail!("`go env GOVERSION` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn kubernetes_module(version: &str) -> Result<String> {
    let upstream = downloaded_go_mod("k8s.io/kubernetes", version)?;
    scratch_module(&upstream, version)
}

/// The text of the scratch module: requires Kubernetes, and replaces `k8s.io/X` by its twin `v0.<minor>.<patch>`.
fn scratch_module(upstream: &str, version: &str) -> Result<String> {
    let Some(twin) = version.strip_prefix("1.") else {
        bail!("{version} is not a Kubernetes 1.x version");
    };
    let mut module = String::from("module bailiwick-tools/kubernetes\n\n");
    for line in upstream.lines().filter(|line| line.starts_with("go ") || line.starts_with("godebug ")) {
        module.push_str(line);
        module.push('\n');
    }
    module.push_str(&format!("\nrequire k8s.io/kubernetes v{version}\n\n"));
    let mut staging: Vec<&str> = upstream
        .lines()
        .filter_map(|line| line.split_once("=>"))
        .filter(|(_, target)| target.trim().starts_with("./staging/"))
        .filter_map(|(name, _)| name.trim().trim_start_matches("replace ").split_whitespace().next())
        .collect();
    staging.sort_unstable();
    staging.dedup();
    if staging.is_empty() {
        bail!("k8s.io/kubernetes v{version} names no staging modules; has its layout changed?");
    }
    for name in staging {
        module.push_str(&format!("replace {name} => {name} v0.{twin}\n"));
    }
    Ok(module)
}

fn etcd_module(version: &str) -> Result<String> {
    let upstream = downloaded_go_mod("go.etcd.io/etcd/server/v3", version)?;
    let go = upstream.lines().find(|line| line.starts_with("go ")).context("etcd's go.mod names no Go version")?;
    Ok(format!("module bailiwick-tools/etcd\n\n{go}\n\nrequire go.etcd.io/etcd/server/v3 v{version}\n"))
}

fn sample_apiserver_module(version: &str) -> Result<String> {
    let upstream = downloaded_go_mod("k8s.io/sample-apiserver", version)?;
    let settings = upstream.lines().filter(|line| line.starts_with("go ") || line.starts_with("godebug "));
    let settings: Vec<&str> = settings.collect();
    let settings = settings.join("\n");
    Ok(format!("module bailiwick-tools/sample-apiserver\n\n{settings}\n\nrequire k8s.io/sample-apiserver v{version}\n"))
}

/// opm's own requirements, word for word: its go.mod replaces nothing that matters to a program that uses it.
fn opm_module(version: &str) -> Result<String> {
    let upstream = downloaded_go_mod(OPERATOR_REGISTRY, version)?;
    let lines = upstream.lines().map(|line| match line.starts_with("module ") {
        true => "module bailiwick-tools/opm",
        false => line,
    });
    let module: Vec<&str> = lines.collect();
    Ok(format!("{}\n\nrequire {OPERATOR_REGISTRY} v{version}\n", module.join("\n")))
}

/// Makes `/version` and `kubectl version` name the release, which a build from modules cannot know.
fn version_flags(version: &str) -> String {
    let package = "k8s.io/component-base/version";
    let minor = version.split('.').nth(1).unwrap_or_default();
    format!(
        "-X {package}.gitVersion=v{version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean"
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Download {
    go_mod: Option<PathBuf>,
    dir: Option<PathBuf>,
    error: Option<String>,
}

/// Where the files of a published module are, after downloading what the module cache lacks.
pub fn directory(module: &str, version: &str) -> Result<PathBuf> {
    download(module, version)?.dir.with_context(|| format!("{module} v{version} has no files"))
}

fn downloaded_go_mod(module: &str, version: &str) -> Result<String> {
    let path = download(module, version)?.go_mod.with_context(|| format!("{module} v{version} has no go.mod"))?;
    Ok(std::fs::read_to_string(path)?)
}

fn download(module: &str, version: &str) -> Result<Download> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@v{version}")])
        .current_dir(std::env::temp_dir())
        .output()
        .context("running go")?;
    let download: Download = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("go mod download {module}: {}", String::from_utf8_lossy(&output.stderr)))?;
    match download.error {
        None => Ok(download),
        Some(error) => bail!("cannot download {module} v{version}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_modules_are_replaced_by_their_published_twins() {
        let upstream = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\
                        \tk8s.io/client-go => ./staging/src/k8s.io/client-go\n\texample.com/a => example.com/b v1.0.0\n)\n";
        let module = scratch_module(upstream, "1.36.4").unwrap();
        assert!(module.contains("go 1.26.0\n"));
        assert!(module.contains("require k8s.io/kubernetes v1.36.4\n"));
        assert!(module.contains("replace k8s.io/api => k8s.io/api v0.36.4\n"));
        assert!(module.contains("replace k8s.io/client-go => k8s.io/client-go v0.36.4\n"));
        assert!(!module.contains("example.com"));
    }

    #[test]
    fn a_layout_without_staging_modules_is_an_error() {
        assert!(scratch_module("module k8s.io/kubernetes\ngo 1.26.0\n", "1.36.4").is_err());
    }
}
