//! Verbs of opm that are not everyday ones: `init` of a package blob, `migrate`, `convert-template`, `version`, and what
//! to use instead of the sqlite commands.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use bailiwick_catalog::bundle::Migration;
use bailiwick_catalog::fbc::{Catalog, Icon, Output, Package, write_catalog, write_directory};
use bailiwick_catalog::render::{Allowed, Renderer};
use bailiwick_catalog::template::{TemplateKind, convert_to_template, text_of};

use super::images::ImageArgs;
use super::print;
use super::render::CatalogOutput;

/// Whose behaviour this program has.
const OPM_VERSION: &str = "v1.73.0";

/// An `olm.package` object, as `opm init` prints it.
pub struct PackageBlob<'a> {
    pub package: &'a str,
    pub default_channel: &'a str,
    /// A file with its description.
    pub description: Option<&'a Path>,
    /// A file with its icon.
    pub icon: Option<&'a Path>,
    pub output: CatalogOutput,
}

pub fn print_package(blob: &PackageBlob) -> anyhow::Result<()> {
    let read =
        |what: &str, path: &Path| std::fs::read(path).with_context(|| format!("open {what} file: {}", path.display()));
    let icon = match blob.icon {
        None => None,
        Some(path) => {
            let data = read("icon", path)?;
            let media_type = image_type(&data)
                .ok_or_else(|| anyhow!("{}: detected invalid type \"\": not an image", path.display()))?;
            Some(Icon { data: Some(data), media_type: media_type.to_owned() })
        }
    };
    let description = match blob.description {
        None => String::new(),
        Some(path) => {
            let data = read("description", path)?;
            String::from_utf8(data).map_err(|_| anyhow!("{}: the text is not UTF-8", path.display()))?
        }
    };
    let package = Package {
        name: blob.package.to_owned(),
        default_channel: blob.default_channel.to_owned(),
        description,
        icon,
        ..Package::default()
    };
    print(&write_catalog(&Catalog { packages: vec![package], ..Catalog::default() }, blob.output.into()))
}

/// What kind of picture this is, by how it begins. SVG, which opm does not know, is text.
fn image_type(data: &[u8]) -> Option<&'static str> {
    const BEGINNINGS: [(&[u8], &str); 11] = [
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"\x00\x00\x00\x0cjP  \r\n\x87\n\x00", "image/jp2"),
        (b"\x89PNG", "image/png"),
        (b"GIF", "image/gif"),
        (b"II*\0", "image/tiff"),
        (b"MM\0*", "image/tiff"),
        (b"BM", "image/bmp"),
        (b"II\xbc", "image/vnd.ms-photo"),
        (b"8BPS", "image/vnd.adobe.photoshop"),
        (b"\x00\x00\x01\x00", "image/vnd.microsoft.icon"),
        (b"AC10", "image/vnd.dwg"),
    ];
    if data.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    if let Some((_, kind)) = BEGINNINGS.iter().find(|(beginning, _)| data.starts_with(beginning)) {
        return Some(kind);
    }
    let text = std::str::from_utf8(data).ok()?.trim_start_matches('\u{feff}').trim_start();
    let is_svg =
        text.starts_with("<svg") || (text.starts_with("<?xml") || text.starts_with("<!")) && text.contains("<svg");
    is_svg.then_some("image/svg+xml")
}

#[derive(clap::Args)]
pub struct Migrate {
    /// A catalog directory or image.
    reference: String,
    /// The directory to write, a folder for each package; it must be empty or not there.
    output_dir: PathBuf,
    /// What to write.
    #[arg(long, short, value_enum, default_value = "json")]
    output: CatalogOutput,
    /// The last migration to run: none, bundle-object-to-csv-metadata or all.
    #[arg(long, default_value = "")]
    migrate_level: String,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn migrate(args: &Migrate) -> anyhow::Result<()> {
    let migration = match args.migrate_level.as_str() {
        "" => Migration::None,
        level => Migration::up_to(level).map_err(|error| anyhow!(error))?,
    };
    let mut images = args.images.images()?;
    let mut renderer = Renderer {
        images: &mut images,
        allowed: Allowed::Catalogs,
        migration,
        image_template: None,
        warnings: Vec::new(),
    };
    let catalog = renderer.render(std::slice::from_ref(&args.reference));
    let catalog = catalog.map_err(|error| anyhow!("render catalog image: {error}"))?;
    write_directory(&catalog, &args.output_dir, args.output.into())?;
    eprintln!("wrote rendered file-based catalog to {:?}", args.output_dir.display().to_string());
    Ok(())
}

#[derive(clap::Subcommand)]
pub enum ConvertTemplate {
    /// A basic template: the same objects, with bundles as images.
    Basic(Convert),
    /// A substitutes template: the same objects, and no substitutions yet.
    Substitutes(Convert),
}

#[derive(clap::Args)]
pub struct Convert {
    /// A file of catalog objects; standard input without one or with `-`.
    file: Option<String>,
    /// What to print.
    #[arg(long, short, value_enum, default_value = "json")]
    output: CatalogOutput,
}

pub fn convert_template(command: ConvertTemplate) -> anyhow::Result<()> {
    let (kind, args) = match command {
        ConvertTemplate::Basic(args) => (TemplateKind::Basic, args),
        ConvertTemplate::Substitutes(args) => (TemplateKind::Substitutes, args),
    };
    let name = args.file.as_deref().unwrap_or("-");
    let text = read_text(name)?;
    let output: Output = args.output.into();
    let converted = convert_to_template(kind, &text, output).context("invariant: these kinds can be made")?;
    match converted {
        Ok(template) => print(&template),
        Err(error) => {
            let line = error.location.as_ref().map_or(1, |at| at.line);
            bail!(
                "converting: {}\n  in {}, line {line}",
                error.message,
                if name == "-" { "standard input" } else { name }
            )
        }
    }
}

/// A file, or standard input for `-`; what is no text is refused with the line.
pub fn read_text(name: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    if name == "-" {
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        bytes = std::fs::read(name).with_context(|| format!("unable to open {name:?}"))?;
    }
    let place = if name == "-" { "standard input" } else { name };
    text_of(bytes).map_err(|error| anyhow!("{error}\n  in {place}"))
}

pub fn print_version() -> anyhow::Result<()> {
    // The form is opm's, since scripts look for it.
    let (ours, architecture) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let architecture = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    print(&format!(
        "Version: version.Version{{OpmVersion:\"{OPM_VERSION}+bailiwick.{ours}\", GitCommit:\"\", BuildDate:\"\", \
         GoOs:\"{}\", GoArch:\"{architecture}\"}}\n",
        std::env::consts::OS
    ))
}

/// A command of the sqlite catalogs, with all of its arguments.
#[derive(clap::Args)]
pub struct Dropped {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

/// Says what does today what an `index` or `registry` command did.
pub fn refuse_sqlite(group: &str, args: &Dropped) -> anyhow::Result<()> {
    let verb = args.arguments.first().map_or("", String::as_str);
    let instead = match verb {
        "add" => {
            "`bailiwick catalog add <operator> <bundle image>` adds a bundle to an operator's template and renders it"
        }
        "rm" | "delete" => {
            "remove the operator's folder, or its images from the template, and run `bailiwick catalog update`"
        }
        "prune" | "prune-stranded" => {
            "keep only the folders of the packages you want; `bailiwick catalog validate` names stranded bundles"
        }
        "deprecatetruncate" | "deprecate" => "add an olm.deprecations object to the operator's catalog",
        "export" => "`bailiwick catalog render <bundle image>` prints what a bundle holds",
        "serve" => "`bailiwick catalog serve <directory or image>` serves a catalog",
        "mirror" => "`bailiwick catalog render` lists the images of a catalog",
        _ => "start with `bailiwick catalog init <operator>`; `bailiwick catalog --help` lists the commands",
    };
    bail!(
        "`{group} {verb}` is for sqlite catalogs, which OLM dropped: {instead}. An old index becomes a file-based catalog \
         with `opm migrate` of an opm before 1.74"
    )
}

#[cfg(test)]
mod tests {
    use super::image_type;

    #[test]
    fn pictures_are_known_by_how_they_begin() {
        assert_eq!(image_type(b"\x89PNG\r\n"), Some("image/png"));
        assert_eq!(image_type(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(image_type(b"<?xml version=\"1.0\"?>\n<svg/>"), Some("image/svg+xml"));
        assert_eq!(image_type(b"%PDF-1.4"), None);
        assert_eq!(image_type(b""), None);
    }
}
