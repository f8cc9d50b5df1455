//! `render`, `render-template` and `verify`.

use anyhow::{anyhow, bail};
use bailiwick_catalog::bundle::Migration;
use bailiwick_catalog::fbc::{Catalog, Output, write_catalog};
use bailiwick_catalog::graph::{GraphOptions, SkippedEdges, mermaid};
use bailiwick_catalog::render::{Allowed, Renderer};
use bailiwick_catalog::template::{TemplateKind, render_template as render_text};
use bailiwick_catalog::verify::{Finding, Verdict, verify as verify_catalog};

use super::images::ImageArgs;
use super::opm::read_text;
use super::print;

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum CatalogOutput {
    Json,
    Yaml,
}

impl From<CatalogOutput> for Output {
    fn from(output: CatalogOutput) -> Self {
        match output {
            CatalogOutput::Json => Output::Json,
            CatalogOutput::Yaml => Output::Yaml,
        }
    }
}

#[derive(clap::Args)]
pub struct Render {
    /// Catalog images, catalog directories, bundle images or bundle directories; `oci:<dir>[:<tag>]` is a layout.
    #[arg(required = true)]
    references: Vec<String>,
    /// What to print.
    #[arg(long, short, value_enum, default_value = "json")]
    output: CatalogOutput,
    /// Run all migrations on the result.
    #[arg(long, conflicts_with = "migrate_level")]
    migrate: bool,
    /// The last migration to run: none, bundle-object-to-csv-metadata or all.
    #[arg(long, default_value = "")]
    migrate_level: String,
    /// The image name of bundle directories, such as `quay.io/me/{{.Package}}:v{{.Version}}`.
    #[arg(long, value_name = "TEMPLATE")]
    alpha_image_ref_template: Option<String>,
    #[command(flatten)]
    images: ImageArgs,
}

fn migration(all: bool, level: &str) -> anyhow::Result<Migration> {
    match (all, level) {
        (true, _) => Ok(Migration::BundleObjectToCsvMetadata),
        (false, "") => Ok(Migration::None),
        (false, level) => Migration::up_to(level).map_err(|error| anyhow!(error)),
    }
}

pub fn render(args: Render) -> anyhow::Result<()> {
    let mut images = args.images.images()?;
    let mut renderer = Renderer {
        images: &mut images,
        allowed: Allowed::Everything,
        migration: migration(args.migrate, &args.migrate_level)?,
        image_template: args.alpha_image_ref_template,
        warnings: Vec::new(),
    };
    let catalog = renderer.render(&args.references).map_err(|error| anyhow!(error))?;
    warn(&renderer.warnings);
    print(&write_catalog(&catalog, args.output.into()))
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TemplateOutput {
    Json,
    Yaml,
    Mermaid,
}

#[derive(clap::Args)]
pub struct RenderTemplate {
    /// The kind of the template (basic, semver or substitutes; told by its schema if left out) and its file; standard
    /// input without one or with `-`.
    #[arg(num_args = 0..=2, value_name = "[TYPE] [FILE]")]
    arguments: Vec<String>,
    /// What to print.
    #[arg(long, short, value_enum, default_value = "json")]
    output: TemplateOutput,
    /// The last migration to run on bundles: none, bundle-object-to-csv-metadata or all.
    #[arg(long, default_value = "")]
    migrate_level: String,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn render_template(args: RenderTemplate) -> anyhow::Result<()> {
    let (kind, file) = match args.arguments.as_slice() {
        [] => (None, "-"),
        [one] => match TemplateKind::by_name(one) {
            Some(kind) => (Some(kind), "-"),
            None => (None, one.as_str()),
        },
        [kind, file, ..] => match TemplateKind::by_name(kind) {
            Some(kind) => (Some(kind), file.as_str()),
            None => bail!("invalid template type {kind:?}, must be one of: [basic semver substitutes]"),
        },
    };
    let text = read_text(file)?;
    let place = if file == "-" { "standard input" } else { file };
    let located = |error: String| anyhow!("{error}\n  in {place}");
    let kind = match kind {
        Some(kind) => kind,
        None => {
            TemplateKind::detect(&text).map_err(|error| located(format!("auto-detecting template type: {error}")))?
        }
    };
    let migration = migration(false, &args.migrate_level)?;
    let mut images = args.images.images()?;
    let mut bundles = |image: &str| {
        let mut renderer = Renderer {
            images: &mut images,
            allowed: Allowed::BundleImages,
            migration,
            image_template: None,
            warnings: Vec::new(),
        };
        let rendered = renderer.render(&[image.to_owned()]);
        warn(&renderer.warnings);
        rendered
    };
    let rendered =
        render_text(kind, &text, &mut bundles).map_err(|error| located(format!("rendering template: {error}")))?;
    for warning in &rendered.warnings {
        eprintln!("warning: {place}: {warning}");
    }
    let text = match args.output {
        TemplateOutput::Json => write_catalog(&rendered.catalog, Output::Json),
        TemplateOutput::Yaml => write_catalog(&rendered.catalog, Output::Yaml),
        TemplateOutput::Mermaid => {
            let options = GraphOptions { skipped: SkippedEdges::Marked, ..GraphOptions::default() };
            mermaid(&rendered.catalog, &options).map_err(|error| located(format!("writing output: {error}")))?
        }
    };
    print(&text)
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

/// A catalog, from a directory or an image.
pub fn load_catalog(reference: &str, images: &ImageArgs) -> anyhow::Result<Catalog> {
    let mut images = images.images()?;
    let mut renderer = Renderer {
        images: &mut images,
        allowed: Allowed::Catalogs,
        migration: Migration::None,
        image_template: None,
        warnings: Vec::new(),
    };
    renderer.render(&[reference.to_owned()]).map_err(|error| anyhow!(error))
}

#[derive(clap::Args)]
pub struct Verify {
    /// A catalog directory or image.
    reference: String,
    /// Only the bundles of this package.
    #[arg(long, short)]
    package: Option<String>,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn verify(args: Verify) -> anyhow::Result<()> {
    let catalog = load_catalog(&args.reference, &args.images)?;
    let mut images = args.images.images()?;
    let findings = verify_catalog(&catalog, args.package.as_deref(), &mut images);
    let mut wrong = 0;
    for Finding { bundle, verdict, digest, moved } in &findings {
        let by = digest.as_ref().map(|digest| format!(" ({digest})")).unwrap_or_default();
        match verdict {
            Verdict::Same => println!("same      {bundle}{by}"),
            Verdict::Different(changes) => {
                wrong += 1;
                println!("different {bundle}{by}");
                changes.iter().for_each(|change| println!("            {change}"));
            }
            Verdict::Unknown(reason) => {
                wrong += 1;
                println!("unknown   {bundle}: {reason}");
            }
        }
        if let Some(moved) = moved {
            println!("            {moved}");
        }
    }
    if wrong > 0 {
        bail!("{wrong} of {} bundles are not what their images hold", findings.len());
    }
    println!("{} bundles are what their images hold", findings.len());
    Ok(())
}
