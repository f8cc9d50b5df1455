//! A type of our own, compiled in: its schema and columns come from a Rust struct, its rules are typed functions. No
//! CustomResourceDefinition is stored, and none is needed.
//!
//! `cargo run --example custom_native_type -- ./library-data`, then `kubectl explain bookshelf.spec` and
//! `kubectl get bookshelves`.

use bailiwick::kube::CustomResource;
use bailiwick::machinery::field::{Error, Path};
use bailiwick::{ControlPlane, Feature, NativeType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A piece of furniture for books.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "library.example.com",
    version = "v1",
    kind = "Bookshelf",
    plural = "bookshelves",
    shortname = "bs",
    namespaced,
    status = "BookshelfStatus",
    printcolumn = r#"{"name": "Boards", "type": "integer", "jsonPath": ".spec.boards"}"#,
    selectable = ".spec.room"
)]
#[serde(rename_all = "camelCase")]
struct BookshelfSpec {
    /// How many boards it has.
    boards: u8,
    /// The room it stands in.
    room: Option<String>,
    /// How many books fit on a board; thirty if nothing is said.
    books_per_board: Option<u32>,
}

/// What is on it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct BookshelfStatus {
    books: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data_dir = std::env::args().nth(1).unwrap_or_else(|| "./library-data".to_owned());
    let running = ControlPlane::builder(data_dir)
        .without([Feature::CustomResourceDefinitions])
        .native_type(bookshelves())
        .start()
        .await?;
    println!("ready at {}; try: kubectl --kubeconfig {} get bs -A", running.url, running.kubeconfig.display());
    running.until_signal().await?;
    Ok(())
}

fn bookshelves() -> NativeType<Bookshelf> {
    let spec = |field: &str| Path::new("spec").child(field);
    NativeType::of()
        .default(|shelf: &mut Bookshelf| {
            shelf.spec.books_per_board.get_or_insert(30);
        })
        .validate(move |_, shelf| match shelf.spec.boards {
            0 => vec![Error::invalid(&spec("boards"), 0, "a shelf has at least one board")],
            _ => Vec::new(),
        })
        .validate_update(move |_, shelf, old| match shelf.spec.boards < old.spec.boards {
            true => vec![Error::forbidden(&spec("boards"), "boards cannot be taken away")],
            false => Vec::new(),
        })
        .warnings(|shelf| match shelf.spec.room {
            None => vec!["spec.room: nobody will find a shelf without a room".to_owned()],
            Some(_) => Vec::new(),
        })
        .computed_column("Space", "string", "How many books fit on it", |shelf| {
            (u32::from(shelf.spec.boards) * shelf.spec.books_per_board.unwrap_or_default()).to_string().into()
        })
}
