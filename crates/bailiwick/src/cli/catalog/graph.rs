//! `render-graph`.

use anyhow::anyhow;
use bailiwick_catalog::graph::{GraphOptions, SkippedEdges, mermaid, svg};

use super::images::ImageArgs;
use super::print;
use super::render::load_catalog;

#[derive(Clone, Copy, clap::ValueEnum)]
enum GraphOutput {
    Mermaid,
    Svg,
}

#[derive(clap::Args)]
pub struct RenderGraph {
    /// A catalog directory or image.
    reference: String,
    /// The oldest bundle to draw.
    #[arg(long)]
    minimum_edge: Option<String>,
    /// Only this package.
    #[arg(long, short)]
    package_name: Option<String>,
    /// Mark what OLM v0 skips.
    #[arg(long)]
    draw_v0_semantics: bool,
    /// What to print.
    #[arg(long, short, value_enum, default_value = "mermaid")]
    output: GraphOutput,
    #[command(flatten)]
    images: ImageArgs,
}

pub fn render_graph(args: RenderGraph) -> anyhow::Result<()> {
    let catalog = load_catalog(&args.reference, &args.images)?;
    if let Some(package) = &args.package_name
        && !catalog.packages.iter().any(|it| it.name == *package)
    {
        // opm draws an empty graph and says nothing.
        eprintln!("warning: {} has no package {package:?}", args.reference);
    }
    let text = match args.output {
        GraphOutput::Svg => svg(&catalog, args.package_name.as_deref()),
        GraphOutput::Mermaid => {
            let skipped = if args.draw_v0_semantics { SkippedEdges::Marked } else { SkippedEdges::Plain };
            let options = GraphOptions { minimum_edge: args.minimum_edge, package: args.package_name, skipped };
            mermaid(&catalog, &options)
        }
    };
    print(&text.map_err(|error| anyhow!(error))?)
}
