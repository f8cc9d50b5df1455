//! `bailiwick auth`: asks a running server why somebody may or may not do something.

mod report;
mod resources;

use std::path::PathBuf;

use anyhow::Context;
use bailiwick_auth::authz::Explanation;
use kube::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use self::report::Question;
use crate::cli::kubeconfig;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Say why a request is allowed or refused: which binding, role and rule allow it, or what comes nearest.
    ///
    /// RESOURCE is a resource as kubectl takes it (deployments, deployments.apps, cm, pods/log), or a path that begins with a
    /// slash. Takes the right to get the path /auth/explain, which cluster-admin has. Exits with 1 if the request is refused.
    Explain(Explain),
}

#[derive(clap::Args)]
pub struct Explain {
    /// The server and the credentials to use.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// The user to ask about, such as alice or system:serviceaccount:ns:name; yourself if not given.
    #[arg(long = "as")]
    user: Option<String>,
    /// A group of that user; may be given often. system:authenticated, and the groups of a service account, go without saying.
    #[arg(long = "as-group", requires = "user")]
    groups: Vec<String>,
    /// The namespace; without one the question is about the whole cluster.
    #[arg(short, long, default_value = "")]
    namespace: String,
    /// A subresource, such as status or scale.
    #[arg(long, default_value = "")]
    subresource: String,
    /// How the answer is written.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    verb: String,
    resource: String,
    #[arg(default_value = "")]
    name: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

pub fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    match command {
        Command::Explain(args) => runtime.block_on(explain(args)),
    }
}

async fn explain(args: Explain) -> anyhow::Result<()> {
    let client = kubeconfig::client(&args.kubeconfig).await?;
    let question = question(&client, &args).await?;
    let request = http::Request::get(query(&question)).body(Vec::new())?;
    let explanation: Explanation = client.request(request).await.context("the server does not explain")?;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&explanation)?),
        Output::Text => print!("{}", report::text(&question, &explanation)),
    }
    if !explanation.allowed {
        std::process::exit(1);
    }
    Ok(())
}

async fn question(client: &Client, args: &Explain) -> anyhow::Result<Question> {
    let mut question = Question {
        user: args.user.clone(),
        groups: groups(args),
        verb: args.verb.clone(),
        namespace: args.namespace.clone(),
        name: args.name.clone(),
        ..Question::default()
    };
    if args.resource.starts_with('/') {
        question.path = args.resource.clone();
        return Ok(question);
    }
    let (resource, subresource) = args.resource.split_once('/').unwrap_or((&args.resource, &args.subresource));
    let found = resources::resolve(client, resource).await?;
    question.group = found.group;
    question.resource = found.plural;
    question.subresource = subresource.to_owned();
    Ok(question)
}

/// The groups everybody of this name has, and those that were given.
fn groups(args: &Explain) -> Vec<String> {
    let Some(user) = &args.user else { return Vec::new() };
    let mut groups = args.groups.clone();
    let mut also = vec![match user.as_str() {
        "system:anonymous" => "system:unauthenticated".to_owned(),
        _ => "system:authenticated".to_owned(),
    }];
    if let Some((namespace, _)) = bailiwick_auth::service_account::split_username(user) {
        also.extend(bailiwick_auth::service_account::groups(namespace));
    }
    also.retain(|group| !groups.contains(group));
    groups.extend(also);
    groups
}

fn query(question: &Question) -> String {
    let mut pairs = vec![
        ("verb", question.verb.as_str()),
        ("path", &question.path),
        ("apiGroup", &question.group),
        ("resource", &question.resource),
        ("subresource", &question.subresource),
        ("namespace", &question.namespace),
        ("name", &question.name),
    ];
    pairs.extend(question.user.iter().map(|user| ("user", user.as_str())));
    pairs.extend(question.groups.iter().map(|group| ("group", group.as_str())));
    let encoded: Vec<String> = pairs
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
        .collect();
    format!("/auth/explain?{}", encoded.join("&"))
}
