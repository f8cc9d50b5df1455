//! `bailiwick catalog`: operator catalogs, with opm's verbs and opm's output. Scripts that say `opm` can say
//! `bailiwick catalog` instead, with the old names of commands too.

mod bundle;
mod end_to_end;
mod explain;
mod explain_live;
mod graph;
mod images;
mod opm;
mod publish;
mod render;
mod serve;
mod show;
mod test;
mod workflow;

use anyhow::bail;

pub use images::persistent_flags;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Check a catalog directory; the reasons of a refusal are printed as a tree.
    Validate(show::Validate),
    /// Print catalogs, bundles and images as one stream of catalog objects.
    Render(render::Render),
    /// Make a catalog from a template: semver, basic or substitutes.
    #[command(visible_alias = "render-veneer")]
    RenderTemplate(render::RenderTemplate),
    /// List what is in a catalog.
    #[command(subcommand)]
    List(show::List),
    /// Draw the upgrade graph, as mermaid or SVG.
    RenderGraph(graph::RenderGraph),
    /// Generate files around a catalog.
    #[command(subcommand)]
    Generate(show::Generate),
    /// Show what changed from one catalog to another.
    Diff(show::Diff),
    /// Render the bundles of a catalog again, by their images, and compare.
    Verify(render::Verify),
    /// Say which bundles would be installed.
    Resolve(explain::Resolve),
    /// Say why these bundles would be installed, or why not; of subscription/<name> or clusterextension/<name>, why it is
    /// where it is on a control plane.
    Explain(explain::Explain),
    /// Test a platform: do its operators work, together and after an upgrade?
    Test(test::Test),
    /// Start a catalog folder for one operator: OWNERS, veneer.yaml, catalog.yaml. With opm's flags: print an
    /// olm.package object.
    Init(workflow::Init),
    /// Add bundle images to an operator's template and render its catalog.
    Add(workflow::Add),
    /// Render the catalogs whose templates changed.
    Update(workflow::Update),
    /// Build the image of a catalog, reproducibly, into a layout or a registry.
    Build(publish::Build),
    /// Build the image of a bundle directory, with the labels that its annotations ask for.
    BuildBundle(publish::BuildBundle),
    /// Serve catalogs to OLM: gRPC and HTTP.
    Serve(serve::Args),
    /// Write a catalog as a directory with a folder for each package.
    Migrate(opm::Migrate),
    /// Print the version of opm that this behaves like.
    Version,
    /// Sqlite catalogs, which OLM dropped: says what to use instead.
    #[command(disable_help_flag = true, hide = true)]
    Index(opm::Dropped),
    /// Sqlite catalogs, which OLM dropped: says what to use instead.
    #[command(disable_help_flag = true, hide = true)]
    Registry(opm::Dropped),
    /// Commands that opm calls experimental.
    #[command(subcommand)]
    Alpha(Alpha),
}

/// The names that these commands have in opm.
#[derive(clap::Subcommand)]
pub enum Alpha {
    /// The same as `render-template`.
    #[command(visible_alias = "render-veneer")]
    RenderTemplate(render::RenderTemplate),
    /// The same as `list`.
    #[command(subcommand)]
    List(show::List),
    /// The same as `render-graph`.
    RenderGraph(graph::RenderGraph),
    /// Make a template of a catalog.
    #[command(subcommand)]
    ConvertTemplate(opm::ConvertTemplate),
    /// Commands around one bundle.
    #[command(subcommand)]
    Bundle(bundle::Command),
}

pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Validate(args) => show::validate(&args),
        Command::Render(args) => render::render(args),
        Command::RenderTemplate(args) | Command::Alpha(Alpha::RenderTemplate(args)) => render::render_template(args),
        Command::List(args) | Command::Alpha(Alpha::List(args)) => show::list(args),
        Command::RenderGraph(args) | Command::Alpha(Alpha::RenderGraph(args)) => graph::render_graph(args),
        Command::Generate(show::Generate::Dockerfile(args)) => show::generate_dockerfile(&args),
        Command::Diff(args) => show::diff(args),
        Command::Verify(args) => render::verify(args),
        Command::Resolve(args) => explain::run_resolve(&args),
        Command::Explain(args) => explain::run_explain(&args),
        Command::Test(args) => test::run(&args),
        Command::Init(args) => workflow::init(&args),
        Command::Add(args) => workflow::add(args),
        Command::Update(args) => workflow::update(args),
        Command::Build(args) => publish::build(args),
        Command::BuildBundle(args) => publish::build_bundle(args),
        Command::Serve(args) => serve::run(args),
        Command::Migrate(args) => opm::migrate(&args),
        Command::Version => opm::print_version(),
        Command::Index(args) => opm::refuse_sqlite("index", &args),
        Command::Registry(args) => opm::refuse_sqlite("registry", &args),
        Command::Alpha(Alpha::ConvertTemplate(command)) => opm::convert_template(command),
        Command::Alpha(Alpha::Bundle(command)) => bundle::run(command),
    }
}

/// Prints a text that is complete, without a panic when nobody reads it.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => bail!("cannot write: {error}"),
        _ => Ok(()),
    }
}
