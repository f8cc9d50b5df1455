//! Builds images from directories, the same bytes each time: entries sorted, no times, no owners.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::digest::Digest;
use super::manifest::{
    ContainerConfig, Descriptor, ImageConfig, Manifest, OCI_CONFIG, OCI_LAYER, OCI_MANIFEST, RootFs,
};
use crate::fbc::catalog_files;
use crate::render::CONFIGS_LABEL;

/// Where the catalog is in its image.
const CONFIGS: &str = "configs";
/// Images have no age: a date would make each one different.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// What goes into an image besides its files.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    pub labels: BTreeMap<String, String>,
}

/// A built image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub manifest: Vec<u8>,
    pub config: Vec<u8>,
    pub layer: Vec<u8>,
}

impl Image {
    /// What the image is called for ever.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// The media type of its manifest.
    pub fn media_type(&self) -> &'static str {
        OCI_MANIFEST
    }
}

/// An image of a catalog directory, with the label by which OLM finds it. Ignored files are left out.
pub fn build_catalog(root: &Path, options: &BuildOptions) -> io::Result<Image> {
    let mut files = Vec::new();
    for path in catalog_files(root)? {
        let inner = path.strip_prefix(root).map_err(io::Error::other)?;
        files.push((Path::new(CONFIGS).join(inner), path));
    }
    let mut labels = options.labels.clone();
    labels.insert(CONFIGS_LABEL.to_owned(), format!("/{CONFIGS}"));
    build(files, labels)
}

/// An image of a whole directory, as bundles are.
pub fn build_directory(root: &Path, options: &BuildOptions) -> io::Result<Image> {
    let mut files = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                let path = entry.path();
                files.push((path.strip_prefix(root).map_err(io::Error::other)?.to_path_buf(), path));
            }
        }
    }
    build(files, options.labels.clone())
}

fn build(mut files: Vec<(PathBuf, PathBuf)>, labels: BTreeMap<String, String>) -> io::Result<Image> {
    files.sort();
    let plain = archive(&files)?;
    let mut encoder = flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::default());
    encoder.write_all(&plain)?;
    let layer = encoder.finish()?;
    let config = ImageConfig {
        architecture: "amd64".to_owned(),
        os: "linux".to_owned(),
        created: Some(CREATED.to_owned()),
        config: ContainerConfig { labels },
        rootfs: RootFs { kind: "layers".to_owned(), diff_ids: vec![Digest::of(&plain).to_string()] },
        history: vec![serde_json::json!({"created": CREATED, "created_by": "bailiwick catalog build"})],
    };
    let config = serde_json::to_vec(&config)?;
    let descriptor = |media_type: &str, data: &[u8]| Descriptor {
        media_type: media_type.to_owned(),
        digest: Digest::of(data).to_string(),
        size: data.len() as u64,
        ..Descriptor::default()
    };
    let manifest = Manifest {
        schema_version: 2,
        media_type: OCI_MANIFEST.to_owned(),
        config: Some(descriptor(OCI_CONFIG, &config)),
        layers: vec![descriptor(OCI_LAYER, &layer)],
        manifests: Vec::new(),
    };
    Ok(Image { manifest: serde_json::to_vec(&manifest)?, config, layer })
}

fn archive(files: &[(PathBuf, PathBuf)]) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut directories = std::collections::BTreeSet::new();
    for (path, _) in files {
        directories.extend(path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()).map(Path::to_path_buf));
    }
    for directory in directories {
        let mut header = header(tar::EntryType::Directory, 0o755, 0);
        builder.append_data(&mut header, format!("{}/", directory.display()), io::empty())?;
    }
    for (path, source) in files {
        let data = std::fs::read(source)?;
        let mut header = header(tar::EntryType::Regular, 0o644, data.len() as u64);
        builder.append_data(&mut header, path, data.as_slice())?;
    }
    builder.into_inner()
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_directory_gives_the_same_image() {
        let make = |names: &[&str]| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("foo")).unwrap();
            std::fs::write(dir.path().join(".indexignore"), "README.md\n").unwrap();
            for name in names {
                std::fs::write(dir.path().join(name), "schema: x\n").unwrap();
            }
            build_catalog(dir.path(), &BuildOptions::default()).unwrap()
        };
        let first = make(&["foo/a.yaml", "b.yaml", "README.md"]);
        assert_eq!(first, make(&["b.yaml", "foo/a.yaml"]));
        assert_ne!(first.digest(), make(&["b.yaml"]).digest());
    }
}
