//! Workflows that test a repository of catalogs and publish its images: every pull request is tested, `main` is
//! published as `:main`, and a tag `vX.Y.Z` on a release branch as `:vX.Y.Z` and `:latest`.

use std::io;
use std::path::{Path, PathBuf};

use crate::reference::ImageReference;

const WORKFLOW: &str = ".github/workflows/catalog.yaml";

/// What goes into the templates.
#[derive(Clone, Debug)]
pub struct CiOptions {
    /// The repository of the images, without a tag.
    pub image: String,
    /// The folder with the operators, from the root of the repository.
    pub directory: String,
    /// The Platform document, from the root of the repository.
    pub platform: String,
    /// The command that puts `bailiwick` on the path.
    pub install: String,
}

/// Why no workflow was written.
#[derive(Debug, thiserror::Error)]
pub enum CiError {
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
    #[error("{0}")]
    Refused(String),
}

/// Writes the workflow for GitHub Actions into a repository; one that is there stays.
pub fn write_github(root: &Path, options: &CiOptions) -> Result<PathBuf, CiError> {
    let text = github(options).map_err(CiError::Refused)?;
    let path = root.join(WORKFLOW);
    let at = |error| CiError::File { path: path.clone(), error };
    if path.exists() {
        return Err(CiError::Refused(format!("{} exists already: remove it to have it written again", path.display())));
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(at)?;
    }
    std::fs::write(&path, text).map_err(at)?;
    Ok(path)
}

/// The workflow for GitHub Actions.
pub fn github(options: &CiOptions) -> Result<String, String> {
    let image = ImageReference::parse(&options.image).map_err(|error| format!("image {}: {error}", options.image))?;
    if image.tag.is_some() || image.digest.is_some() {
        return Err(format!("image {}: name the repository without a tag, the workflow adds the tags", options.image));
    }
    for (name, value) in [("directory", &options.directory), ("platform", &options.platform)] {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        if value.is_empty() || value.starts_with('/') || !value.chars().all(fits) {
            return Err(format!("{name} {value:?}: a path from the root of the repository, of letters, digits, ._-/"));
        }
    }
    if options.install.contains('\n') {
        return Err("the install command must be one line".to_owned());
    }
    Ok(TEMPLATE
        .replace("@IMAGE@", &options.image)
        .replace("@REGISTRY@", &image.domain)
        .replace("@DIRECTORY@", &options.directory)
        .replace("@PLATFORM@", &options.platform)
        .replace("@INSTALL@", &options.install))
}

const TEMPLATE: &str = r#"# Written by `bailiwick catalog init --ci github`; change it as you like.
#
# - Pull requests are tested; the report is in the summary of the run.
# - A push to main publishes @IMAGE@:main.
# - Releases are made on branches release-X.Y: the tag vX.Y.Z publishes @IMAGE@:vX.Y.Z and :latest.
#
# The secrets REGISTRY_USER and REGISTRY_PASSWORD log in to @REGISTRY@.
name: catalog

on:
  pull_request:
    branches: [main, "release-*"]
  push:
    branches: [main, "release-*"]
    tags: ["v*.*.*"]

permissions:
  contents: read

concurrency:
  group: catalog-${{ github.ref }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}

env:
  IMAGE: @IMAGE@
  CATALOG: @DIRECTORY@
  PLATFORM: @PLATFORM@

jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - name: Install bailiwick
        run: @INSTALL@
      - name: Catalogs are rendered from their templates
        run: |
          bailiwick catalog update --directory "$CATALOG"
          git diff --exit-code -- "$CATALOG" || {
            echo "::error::a template changed without its catalog: run 'bailiwick catalog update' and commit"
            exit 1
          }
      - name: The catalog is valid
        run: bailiwick catalog validate "$CATALOG"
      - name: Log in
        # Pull requests of forks do not see secrets; public images need no login.
        env:
          REGISTRY_USER: ${{ secrets.REGISTRY_USER }}
          REGISTRY_PASSWORD: ${{ secrets.REGISTRY_PASSWORD }}
        if: env.REGISTRY_USER != ''
        run: printf '%s' "$REGISTRY_PASSWORD" | docker login @REGISTRY@ --username "$REGISTRY_USER" --password-stdin
      - name: The platform works
        env:
          FIRST_RELEASE: ${{ vars.FIRST_RELEASE }}
        run: |
          previous=(--previous "$IMAGE:latest")
          if ! bailiwick catalog list packages "$IMAGE:latest" > /dev/null 2> previous.log; then
            cat previous.log >&2
            # The first release has nothing to be compared with. Any other failure must not pass for that.
            if [ "$FIRST_RELEASE" != true ] && ! grep -q 'the registry answers 404' previous.log; then
              echo "::error::$IMAGE:latest could not be read, so nobody knows who can upgrade (set the variable FIRST_RELEASE to true if there is none yet)"
              exit 1
            fi
            previous=()
          fi
          bailiwick catalog test "$PLATFORM" "$CATALOG" "${previous[@]}" --junit junit.xml --markdown report.md
      - name: Report
        if: always()
        run: test ! -f report.md || cat report.md >> "$GITHUB_STEP_SUMMARY"
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: catalog-test
          path: |
            junit.xml
            report.md
          if-no-files-found: ignore

  publish:
    needs: test
    if: github.event_name == 'push' && (github.ref == 'refs/heads/main' || startsWith(github.ref, 'refs/tags/v'))
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
      - name: Install bailiwick
        run: @INSTALL@
      - name: Releases come from release branches
        if: startsWith(github.ref, 'refs/tags/v')
        run: |
          version="${GITHUB_REF_NAME#v}"
          branch="origin/release-${version%.*}"
          git merge-base --is-ancestor "$GITHUB_SHA" "$branch" || {
            echo "::error::$GITHUB_REF_NAME is not on ${branch#origin/}"
            exit 1
          }
      - name: Log in
        env:
          REGISTRY_USER: ${{ secrets.REGISTRY_USER }}
          REGISTRY_PASSWORD: ${{ secrets.REGISTRY_PASSWORD }}
        run: printf '%s' "$REGISTRY_PASSWORD" | docker login @REGISTRY@ --username "$REGISTRY_USER" --password-stdin
      - name: Publish main
        if: github.ref == 'refs/heads/main'
        run: bailiwick catalog build "$CATALOG" --tag "$IMAGE:main" --push
      - name: Publish the release
        if: startsWith(github.ref, 'refs/tags/v')
        run: bailiwick catalog build "$CATALOG" --tag "$IMAGE" --release "$GITHUB_REF_NAME" --push
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> CiOptions {
        CiOptions {
            image: "quay.io/me/platformx".to_owned(),
            directory: "catalog".to_owned(),
            platform: "platform.yaml".to_owned(),
            install: "cargo install bailiwick".to_owned(),
        }
    }

    #[test]
    fn the_workflow_is_yaml_with_everything_filled_in() {
        let text = github(&options()).unwrap();
        let workflow = bailiwick_machinery::yaml::decode(&text).unwrap().value;
        assert_eq!(workflow["env"]["IMAGE"], "quay.io/me/platformx");
        // To YAML 1.1, which Kubernetes reads, `on` is true.
        let on = workflow.get("on").or(workflow.get("true")).unwrap();
        assert_eq!(on["push"]["tags"][0], "v*.*.*");
        let steps = workflow["jobs"]["publish"]["steps"].as_array().unwrap();
        assert!(steps.iter().any(|step| step["run"].as_str().is_some_and(|run| run.contains("--release"))));
        // Both jobs log in, the first one only where there are secrets.
        let logs_in = |job: &str| {
            let steps = workflow["jobs"][job]["steps"].as_array().unwrap().clone();
            steps.iter().any(|step| step["run"].as_str().is_some_and(|run| run.contains("docker login quay.io")))
        };
        assert!(logs_in("test") && logs_in("publish"));
        for left in ["@IMAGE@", "@REGISTRY@", "@DIRECTORY@", "@PLATFORM@", "@INSTALL@"] {
            assert!(!text.contains(left), "{left}");
        }
    }

    /// The step of the workflow is run as it is, with a program in the place of ours that fails in some way.
    #[test]
    fn only_an_image_that_is_not_there_yet_is_done_without() {
        let text = github(&options()).unwrap();
        let workflow = bailiwick_machinery::yaml::decode(&text).unwrap().value;
        let steps = workflow["jobs"]["test"]["steps"].as_array().unwrap();
        let script = steps.iter().find(|step| step["name"] == "The platform works").unwrap()["run"].as_str().unwrap();
        let run = |listing: &str, first: &str| {
            let dir = tempfile::tempdir().unwrap();
            let program = dir.path().join("bailiwick");
            let fake = format!("#!/bin/sh\ncase \"$2\" in list) {listing};; test) echo \"tested $*\";; esac\n");
            std::fs::write(&program, fake).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&program, mode).unwrap();
            let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
            // As GitHub runs steps.
            let output = std::process::Command::new("bash")
                .args(["-eo", "pipefail", "-c", script])
                .current_dir(dir.path())
                .envs([("PATH", path.as_str()), ("IMAGE", "quay.io/me/x"), ("CATALOG", "c"), ("PLATFORM", "p")])
                .env("FIRST_RELEASE", first)
                .output()
                .unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        };
        let (passed, printed) = run("exit 0", "");
        assert!(passed && printed.contains("--previous quay.io/me/x:latest"), "{printed}");
        let not_found = "echo 'error: quay.io/me/x:latest: the registry answers 404 Not Found' >&2; exit 1";
        let (passed, printed) = run(not_found, "");
        assert!(passed && printed.contains("tested") && !printed.contains("--previous"), "{printed}");
        let denied = "echo 'error: quay.io/me/x:latest: the registry answers 401 Unauthorized' >&2; exit 1";
        let (passed, printed) = run(denied, "");
        assert!(!passed && !printed.contains("tested") && printed.contains("could not be read"), "{printed}");
        let (passed, printed) = run(denied, "true");
        assert!(passed && printed.contains("tested"), "{printed}");
    }

    #[test]
    fn what_would_break_the_workflow_is_refused() {
        let with = |change: &dyn Fn(&mut CiOptions)| {
            let mut options = options();
            change(&mut options);
            github(&options).unwrap_err()
        };
        assert!(with(&|it| it.image.push_str(":main")).contains("without a tag"));
        assert!(with(&|it| it.directory = "$(rm -rf /)".to_owned()).contains("path from the root"));
        assert!(with(&|it| it.install = "a\nb".to_owned()).contains("one line"));
    }

    #[test]
    fn a_workflow_that_is_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = write_github(dir.path(), &options()).unwrap();
        assert!(path.ends_with(WORKFLOW));
        assert!(write_github(dir.path(), &options()).unwrap_err().to_string().contains("exists already"));
    }
}
